/**
 * Runs the tool calls of one reply. Each call is judged before it runs; parallel tools run side by side, the others
 * alone; results keep call order. However this ends, every call has exactly one result.
 */
import * as Effect from "effect/Effect"
import type { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import type { AgentEvent } from "../../domain/agent/AgentEvent.ts"
import * as LoopGuard from "../../domain/agent/LoopGuard.ts"
import type { ToolCall } from "../../domain/chat/ModelReply.ts"
import { interrupted, isFailure, notRun, type ToolResult } from "../../domain/agent/ToolResult.ts"
import type { ToolboxShape } from "../../services/Toolbox.ts"

export interface ToolRun {
  readonly calls: ReadonlyArray<ToolCall>
  readonly toolbox: ToolboxShape
  /** Calls that may run at once. */
  readonly concurrency: number
  /** Asked before every tool. */
  readonly budget: Effect.Effect<void, BudgetExceeded>
  readonly emit: (event: AgentEvent) => Effect.Effect<void>
  /** Runs one call, or has its result already. */
  readonly run: (call: ToolCall, ordinal: number) => Effect.Effect<ToolResult>
}

export interface CallResult {
  readonly call: ToolCall
  readonly result: ToolResult
}

export interface ToolsDone {
  readonly guard: LoopGuard.LoopGuardState
  readonly warnings: ReadonlyArray<LoopGuard.Finding>
  readonly broken: LoopGuard.Finding | null
}

export interface Tools {
  readonly run: Effect.Effect<ToolsDone, BudgetExceeded>
  /** One result per call, in call order, at any moment: also for calls that were cut off or never began. */
  readonly results: () => ReadonlyArray<CallResult>
}

const guardedResult = (result: ToolResult): LoopGuard.GuardedResult => ({
  isFailure: isFailure(result),
  kind: result.kind,
  errorTag: result.errorTag,
  content: result.content
})

const guardedCall = (toolbox: ToolboxShape, call: ToolCall): LoopGuard.GuardedCall => ({
  name: call.name,
  arguments: call.arguments,
  polling: toolbox.traits(call.name).polling
})

interface Batch {
  readonly batch: ReadonlyArray<readonly [ToolCall, number]>
  /** Why the first of them breaks the run. */
  readonly broken: LoopGuard.Finding | null
}

/** Calls from `from` on that may run at once now. */
const nextBatch = ({ calls, toolbox }: ToolRun, state: LoopGuard.LoopGuardState, from: number): Batch => {
  const batch: Array<readonly [ToolCall, number]> = []
  let pending = state
  for (const [offset, call] of calls.slice(from).entries()) {
    const guarded = guardedCall(toolbox, call)
    const verdict = LoopGuard.judge(pending, guarded)
    if (verdict._tag === "Break") return { batch, broken: batch.length === 0 ? verdict.finding : null }
    const isAlone = verdict._tag === "Alone" || !toolbox.traits(call.name).parallel
    if (isAlone && batch.length > 0) break
    batch.push([call, from + offset])
    if (isAlone) break
    // What runs beside it is judged without its result.
    pending = LoopGuard.note(pending, guarded, null).state
  }
  return { batch, broken: null }
}

export const makeTools = (options: ToolRun, before: LoopGuard.LoopGuardState): Tools => {
  const { calls, toolbox, emit } = options
  const found: Array<ToolResult | null> = calls.map(() => null)
  const begun: Array<boolean> = calls.map(() => false)
  let why = "the run ended before it."

  const runOne = (call: ToolCall, ordinal: number): Effect.Effect<CallResult> =>
    Effect.gen(function* () {
      begun[ordinal] = true
      yield* emit({ _tag: "ToolStarted", call })
      const result = yield* options.run(call, ordinal)
      found[ordinal] = result
      yield* emit({ _tag: "ToolEnded", call, result })
      return { call, result }
    })

  const run = Effect.gen(function* () {
    let guard = before
    const warnings: Array<LoopGuard.Finding> = []
    let at = 0
    while (at < calls.length) {
      why = "the session's budget is used up."
      yield* options.budget
      why = "the run ended before it."
      const { batch, broken } = nextBatch(options, guard, at)
      if (broken !== null) {
        why = "the run was stopped because it goes in circles."
        return { guard, warnings, broken }
      }
      const ran = yield* Effect.forEach(batch, ([call, ordinal]) => runOne(call, ordinal), {
        concurrency: options.concurrency
      })
      at += batch.length
      let stuck: LoopGuard.Finding | null = null
      for (const { call, result } of ran) {
        const noted = LoopGuard.note(guard, guardedCall(toolbox, call), guardedResult(result))
        guard = noted.state
        if (noted.warning !== null) warnings.push(noted.warning)
        stuck ??= noted.broken
      }
      if (stuck !== null) {
        why = "the run was stopped because it makes no progress."
        return { guard, warnings, broken: stuck }
      }
    }
    return { guard, warnings, broken: null }
  })

  return {
    run,
    results: () =>
      calls.map((call, ordinal) => ({
        call,
        result: found[ordinal] ?? (begun[ordinal] === true ? interrupted : notRun(why))
      }))
  }
}
