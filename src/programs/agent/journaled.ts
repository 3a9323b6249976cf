/**
 * The agent loop's steps in a journal. What the journal fails with ends the turn as a defect: it is no failure of the model,
 * and nothing that would have to be kept is done after it.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { isJournalFailure, StepInDoubt, type JournalFailure } from "../../domain/agent/JournalError.ts"
import { codecs, keys } from "../../domain/agent/turnFacts.ts"
import { denied, inDoubt, type ToolResult } from "../../domain/agent/ToolResult.ts"
import type { ToolCall } from "../../domain/chat/ModelReply.ts"
import { Journal, noJournal, within, type JournalShape } from "../../services/Journal.ts"
import type { AgentRun } from "./AgentRun.ts"
import { runTool } from "./toolSpan.ts"

/** The journal of the call that runs, for a nested agent: a tool that runs two agents of its own keeps neither. */
export const CallJournal = Context.Reference<JournalShape>("holdfast/CallJournal", { defaultValue: () => noJournal })

export const orEnd = <A, E, R>(body: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, JournalFailure>, R> =>
  body.pipe(
    Effect.catch((failure) =>
      isJournalFailure(failure) ? Effect.die(failure) : Effect.fail(failure as Exclude<E, JournalFailure>)
    )
  )

/** A step that may run again when its end is not known. */
export const kept = <A, E, R>(
  journal: JournalShape,
  key: string,
  success: Schema.Codec<A, unknown>,
  body: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  journal.turn === null ? body : (orEnd(journal.step(key, { success, repeat: "safe" }, body)) as Effect.Effect<A, E, R>)

/** The call is in doubt: what its tool knows of it is its result; what has not happened runs. */
const settled = (
  run: AgentRun,
  key: string,
  call: ToolCall & { readonly key: string },
  live: Effect.Effect<ToolResult>
) =>
  Effect.flatMap(run.toolbox.settle?.(call) ?? Effect.succeed(inDoubt), (known) =>
    run.journal.step(
      key,
      { success: codecs.result, repeat: known === null ? "keyed" : "safe" },
      known === null ? live : Effect.succeed(known)
    )
  )

/** Runs one call once; `early` is the run that has begun while the reply still streamed. */
export const runCall = (
  run: AgentRun,
  step: number,
  call: ToolCall,
  ordinal: number,
  early: Effect.Effect<ToolResult> | null
): Effect.Effect<ToolResult> => {
  const { journal, toolbox } = run
  if (journal.turn === null) return early ?? runTool(toolbox, call)
  const key = keys.call(step, ordinal)
  const keyed = { ...call, key: `${journal.turn}/${key}` }
  const live = Effect.suspend(() => {
    // The turn had got beyond its last request.
    run.doubt.inFlight = false
    return (early ?? runTool(toolbox, keyed)).pipe(
      Effect.provideService(Journal, noJournal),
      Effect.provideService(CallJournal, within(journal, key))
    )
  })
  const { repeat } = toolbox.traits(call.name)
  const once = journal.step(key, { success: codecs.result, repeat }, live)
  return once.pipe(
    Effect.catch((failure) => (failure instanceof StepInDoubt ? settled(run, key, keyed, live) : Effect.fail(failure))),
    orEnd
  )
}

/** An answer as it is given from outside: `approved`, `denied`, or `denied: why`. */
const refusalIn = (answer: string): ToolResult | null =>
  answer === "approved" ? null : denied(/^denied: (.+)$/s.exec(answer)?.[1] ?? null)

/** Whether a person lets the call run; null = it may. Without a hook and without a journal nobody can say so. */
const approvalOf = (run: AgentRun, step: number, call: ToolCall, ordinal: number): Effect.Effect<ToolResult | null> => {
  const { hooks, journal } = run
  const key = keys.approval(step, ordinal)
  const { onApproval } = hooks
  if (onApproval !== undefined)
    return Effect.map(
      kept(
        journal,
        key,
        codecs.text,
        Effect.map(onApproval(call), (yes) => (yes ? "approved" : "denied"))
      ),
      refusalIn
    )
  return journal.turn === null ? Effect.succeed(denied(null)) : Effect.map(orEnd(journal.wait(key)), refusalIn)
}

/** Asks for every call that needs it, before any tool of the reply runs. The results of those that may not run. */
export const askApprovals = (
  run: AgentRun,
  step: number,
  calls: ReadonlyArray<ToolCall>
): Effect.Effect<ReadonlyArray<ToolResult | null>> =>
  calls.some((call) => run.toolbox.traits(call.name).approval === true)
    ? Effect.forEach(calls, (call, ordinal) =>
        run.toolbox.traits(call.name).approval === true ? approvalOf(run, step, call, ordinal) : Effect.succeed(null)
      )
    : Effect.succeed([])
