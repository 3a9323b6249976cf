/** One step of a turn: a model round, then its tools, judged by the loop guard. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import * as LoopGuard from "../../domain/agent/LoopGuard.ts"
import { codecs, keys } from "../../domain/agent/turnFacts.ts"
import { toMessage as toResultMessage, type ToolResult } from "../../domain/agent/ToolResult.ts"
import { isAssistant } from "../../domain/chat/Message.ts"
import { toMessage, type ModelReply } from "../../domain/chat/ModelReply.ts"
import type { BudgetExceeded, LoopBroken } from "../../domain/failure/AgentError.ts"
import type { AgentRun } from "./AgentRun.ts"
import { askModel, requestOf } from "./askModel.ts"
import { makeEarlyTools, noEarlyTools, type EarlyTools } from "./earlyTools.ts"
import { askApprovals, kept, runCall } from "./journaled.ts"
import { keptReply } from "./keptReply.ts"
import { makeTools, type Tools, type ToolsDone } from "./runTools.ts"

const defaultConcurrency = 4

export interface StepDone {
  /** The reply the turn ends with; null = it goes on. */
  readonly reply: ModelReply | null
  readonly guard: LoopGuard.LoopGuardState
}

/** The results enter the history in call order, right behind the reply that has the calls. */
const addResults = Effect.fnUntraced(function* (run: AgentRun, tools: Tools) {
  const results = tools.results()
  const added = results.map(({ call, result }) => toResultMessage(call, result))
  const history = yield* run.conversation.messages
  const at = history.findLastIndex(isAssistant) + 1
  // What the caller said while the tools ran comes behind their results: nothing may part a call from its result.
  yield* at === history.length
    ? run.conversation.append(added)
    : run.conversation.replace([...history.slice(0, at), ...added, ...history.slice(at)])
  for (const one of results) yield* run.emit({ _tag: "ResultAdded", ...one })
})

/** Calls that were not run have their reason as a fact, too: who reads the history later reads the same. */
const keepRest = Effect.fnUntraced(function* (run: AgentRun, number: number, tools: Tools) {
  for (const [ordinal, { result }] of tools.results().entries())
    if (result.kind === "not_run")
      yield* kept(run.journal, keys.call(number, ordinal), codecs.result, Effect.succeed(result))
})

/** The reply enters the history and its tools run. From its place there to its last result nothing can come between. */
const carryOut = (
  run: AgentRun,
  guard: LoopGuard.LoopGuardState,
  reply: ModelReply,
  number: number,
  refused: ReadonlyArray<ToolResult | null>,
  early: EarlyTools["take"]
): Effect.Effect<ToolsDone, BudgetExceeded> => {
  const calls = reply.toolCalls
  const concurrency = run.options.concurrency ?? defaultConcurrency
  const tools = makeTools(
    {
      calls,
      toolbox: run.toolbox,
      emit: run.emit,
      concurrency,
      budget: run.checkBudget,
      run: (call, ordinal) => {
        const no = refused[ordinal] ?? null
        return no === null
          ? runCall(run, number, call, ordinal, early(call, ordinal))
          : kept(run.journal, keys.call(number, ordinal), codecs.result, Effect.succeed(no))
      }
    },
    guard
  )
  return Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      yield* run.conversation.append([toMessage(reply)])
      run.work.noteText(reply)
      yield* run.emit({ _tag: "Replied", step: number, reply })
      return yield* calls.length === 0
        ? Effect.succeed({ guard, warnings: [], broken: null })
        : Effect.onExit(restore(tools.run), (exit) =>
            Effect.andThen(addResults(run, tools), Exit.isSuccess(exit) ? keepRest(run, number, tools) : Effect.void)
          )
    })
  )
}

/** What the loop guard found: warnings are told to the model, a break ends the turn. */
const heed = Effect.fnUntraced(function* (
  run: AgentRun,
  done: ToolsDone,
  number: number
): Effect.fn.Return<void, LoopBroken> {
  if (done.warnings.length > 0) {
    const sentences = done.warnings.map(LoopGuard.sentenceOf).join("\n")
    // Kept for who reads the history without the tools that were run.
    const content = yield* kept(run.journal, keys.warned(number), codecs.text, Effect.succeed(sentences))
    yield* run.conversation.append([{ role: "user", content }])
    for (const finding of done.warnings) yield* run.emit({ _tag: "LoopWarned", finding })
  }
  if (done.broken === null) return
  yield* run.emit({ _tag: "LoopBroke", finding: done.broken })
  return yield* run.work.broken(done.broken)
})

/** `number` counts from 1. What the step has started early and not used ends with `scope`. */
export const agentStep = Effect.fnUntraced(function* (
  run: AgentRun,
  guard: LoopGuard.LoopGuardState,
  number: number,
  recalled: string | null,
  scope: Scope.Scope
) {
  const { options, hooks, work } = run
  yield* run.emit({ _tag: "StepStarted", step: number })
  const early = options.earlyTools === true ? makeEarlyTools(run.toolbox, guard, scope) : noEarlyTools
  const asked = Effect.flatMap(requestOf(run, recalled), (request) => askModel(run, request, number, early.see))
  const reply = yield* keptReply(run, number, asked)
  const unfit = work.unfit(reply)
  if (unfit !== null) return yield* unfit
  work.noteReply(reply, number)
  const refused = yield* askApprovals(run, number, reply.toolCalls)
  const done = yield* carryOut(run, guard, reply, number, refused, early.take)
  yield* heed(run, done, number)
  const goesOn: StepDone = { reply: null, guard: done.guard }
  if (reply.toolCalls.length > 0) return goesOn
  const more =
    hooks.onStop === undefined
      ? null
      : yield* kept(run.journal, keys.more(number), codecs.optionalText, hooks.onStop(reply))
  if (more === null) return { reply, guard: done.guard } satisfies StepDone
  yield* run.conversation.append([{ role: "user", content: more }])
  return goesOn
})
