/**
 * The agent loop: one model round per step, then its tools, until the model is done, the guard breaks or the step cap is
 * reached. Recovery is its one narrow dependency: a retry is not a step and runs no hook again.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import {
  BudgetExceeded,
  ContentFilteredError,
  LoopBroken,
  partialOf,
  StepLimitReached,
  TruncatedReplyError,
  type AgentError
} from "../../domain/failure/AgentError.ts"
import type { AgentEvent } from "../../domain/agent/AgentEvent.ts"
import { repairHistory } from "../../domain/agent/historyRepair.ts"
import * as LoopGuard from "../../domain/agent/LoopGuard.ts"
import { isAssistant, type Message } from "../../domain/chat/Message.ts"
import { leadingSystem } from "../../domain/chat/MessageGroups.ts"
import type { Phase } from "../../domain/agent/ModelChoice.ts"
import { toMessage, type ModelReply } from "../../domain/chat/ModelReply.ts"
import type { ModelRequest, Priority } from "../../domain/chat/ModelRequest.ts"
import type { CacheTtl } from "../../domain/chat/PromptCache.ts"
import type { TrailEntry } from "../../domain/failure/Trail.ts"
import type { RouteInput } from "../../domain/recovery/RecoveryPolicy.ts"
import { notRun, toMessage as toResultMessage } from "../../domain/agent/ToolResult.ts"
import { AgentHooks, AgentMemory, HistoryPreparation, SystemPrompt } from "../../services/AgentHooks.ts"
import { BudgetLedger } from "../../services/BudgetLedger.ts"
import type { Conversation } from "../../services/Conversation.ts"
import { ModelSelector } from "../../services/ModelSelector.ts"
import { PolicyOverride, TokenEstimate } from "../../services/Overrides.ts"
import { PromptCacheTtl } from "../../services/PromptCacheTtl.ts"
import type { ModelRequestExecutor, RequestFailure } from "../../services/Recovery.ts"
import { Toolbox } from "../../services/Toolbox.ts"
import { TurnTrail, type TakeTrail } from "../../services/TurnTrail.ts"
import { makeEarlyTools, noEarlyTools } from "./earlyTools.ts"
import { makeTools } from "./runTools.ts"

export interface AgentOptions {
  /** `Recovery`, or a raw client (`rawExecutor`): then a truncated reply is a failure. */
  readonly executor: ModelRequestExecutor
  /** Owned by the caller; valid after any ending. */
  readonly conversation: Conversation
  /** Model rounds of one turn. Default: 15. The tools of the last one still run. */
  readonly maxSteps?: number
  /** Parts are told as they come. Default: false. */
  readonly stream?: boolean
  /** Starts tools with `repeat: "safe"` while the reply still streams. Default: false; needs `stream`. */
  readonly earlyTools?: boolean
  /** Parallel tools that run at once. Default: 4. */
  readonly concurrency?: number
  readonly maxOutputTokens?: number
  readonly priority?: Priority
  readonly params?: ModelRequest["params"]
  /** Lifetime of the prompt cache where the provider has one; a session's own comes from CacheSession. Default: 5m. */
  readonly cacheTtl?: CacheTtl | null
  /** Never fails the run. */
  readonly emit?: (event: AgentEvent) => Effect.Effect<void>
  /** What the steps of this run are for; asked of the ModelSelector, if there is one. Default: act. */
  readonly phase?: Phase
  /** Routes of a model the ModelSelector names; without it the selector is not asked. */
  readonly routesFor?: (model: string) => ReadonlyArray<RouteInput>
  /** The run is part of a turn that has begun: it shares that turn's deadline. Default: false. */
  readonly nested?: boolean
}

export interface AgentResult {
  /** The reply the model ended with; a refusal is one, too. */
  readonly reply: ModelReply
  /** Model rounds that brought a reply. */
  readonly steps: number
  /** Tool calls of the turn. */
  readonly toolCalls: number
}

export type AgentFailure = RequestFailure | AgentError

export const defaultMaxSteps = 15
const defaultConcurrency = 4

const guidance = {
  loop: "The model goes in circles. Look at the last results in the history, change the task or the tool, and go on from there; the finished work is kept.",
  steps: "The step cap is reached. The finished work is kept: go on with another turn, or allow more steps.",
  filtered: "A content filter stopped the reply; the history is unchanged. Change the request.",
  truncated: "The reply is longer than its budget and was not kept. Allow more output tokens, or run through Recovery."
}

const callOf = (call: {
  readonly id: string
  readonly function: { readonly name: string; readonly arguments: string }
}) => ({
  id: call.id,
  name: call.function.name,
  arguments: call.function.arguments
})

/** Runs one turn: `prompt` enters the history first; null goes on with the history as it stands. */
export const runAgent = (
  options: AgentOptions,
  prompt: string | null
): Effect.Effect<AgentResult, AgentFailure, Toolbox> => {
  const turn = Effect.provideService(
    runTurn(options, prompt),
    PromptCacheTtl,
    options.cacheTtl === undefined ? "5m" : options.cacheTtl
  )
  return options.nested === true ? turn : options.executor.turn(turn)
}

const runTurn = Effect.fnUntraced(function* (
  options: AgentOptions,
  prompt: string | null
): Effect.fn.Return<AgentResult, AgentFailure, Toolbox> {
  const { conversation, executor } = options
  const emit = options.emit ?? (() => Effect.void)
  const maxSteps = options.maxSteps ?? defaultMaxSteps
  const toolbox = yield* Toolbox
  const hooks = yield* AgentHooks
  const prepare = yield* HistoryPreparation
  const systemPrompt = yield* SystemPrompt
  const memory = yield* AgentMemory
  const ledger = yield* BudgetLedger
  const estimate = yield* TokenEstimate
  const selector = Option.getOrNull(Context.getOption(yield* Effect.context<never>(), ModelSelector))
  const clock = yield* Clock.Clock
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const startedAt = now()

  let guard = LoopGuard.initial
  let steps = 0
  let toolCalls = 0
  const texts: Array<string> = []
  const trail: Array<TrailEntry> = []

  const takeTrail: TakeTrail = (entries, since) => {
    for (const entry of entries) trail.push({ ...entry, startedMs: entry.startedMs + since - startedAt })
  }

  /** What was sent so far in this turn. */
  const tried = () => ({
    attempts: trail.filter((entry) => entry.attempt !== null).length,
    elapsedMs: now() - startedAt,
    trail: [...trail]
  })

  const ending = (lastOutcome: string, sentence: string, text: string | null = null) => ({
    ...tried(),
    steps,
    lastOutcome,
    guidance: sentence,
    ...partialOf([...texts, ...(text === null ? [] : [text])].join("\n\n"))
  })

  const checkBudget = ledger === null ? Effect.void : ledger.check

  /** A budget that is used up carries the text and the trail of the whole turn. */
  const withWork = (failure: AgentFailure): AgentFailure =>
    failure instanceof BudgetExceeded
      ? new BudgetExceeded({
          ...failure,
          ...tried(),
          ...partialOf([...texts, ...(failure.partial === null ? [] : [failure.partial])].join("\n\n"))
        })
      : failure

  const open = Effect.gen(function* () {
    const repaired = repairHistory(yield* conversation.messages)
    if (repaired.added.length > 0) {
      yield* conversation.replace(repaired.messages)
      for (const { call, result } of repaired.added) yield* emit({ _tag: "ResultAdded", call: callOf(call), result })
    }
    if (prompt === null) return
    const content = hooks.onUserPrompt === undefined ? prompt : yield* hooks.onUserPrompt(prompt)
    yield* conversation.append([{ role: "user", content }])
  })

  const requestOf = Effect.fnUntraced(function* (recalled: string | null) {
    const specs = yield* toolbox.specs
    const history = yield* conversation.messages
    const prepared = prepare === null ? history : yield* prepare(history)
    const head = leadingSystem(prepared)
    const own = systemPrompt === null ? null : yield* systemPrompt
    const system: ReadonlyArray<Message> = own === null ? prepared.slice(0, head) : [{ role: "system", content: own }]
    const request: ModelRequest = {
      messages: [
        ...system,
        ...(recalled === null ? [] : [{ role: "system" as const, content: recalled }]),
        ...prepared.slice(head)
      ],
      ...(specs.length === 0 ? {} : { tools: specs }),
      ...(options.maxOutputTokens === undefined ? {} : { maxOutputTokens: options.maxOutputTokens }),
      ...(options.priority === undefined ? {} : { priority: options.priority }),
      ...(options.params === undefined ? {} : { params: options.params })
    }
    return request
  })

  /** The call of one step on the model the selector names. */
  const onModel = <A, E, R>(request: ModelRequest, call: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    const { routesFor } = options
    if (selector === null || routesFor === undefined) return call
    return Effect.gen(function* () {
      const contextTokens = estimate(request.messages, request.tools ?? [])
      const model = yield* selector.select({ phase: options.phase ?? "act", contextTokens })
      const override = yield* PolicyOverride
      return yield* Effect.provideService(call, PolicyOverride, { ...override, routes: routesFor(model) })
    })
  }

  const ask = (request: ModelRequest, see: (typeof noEarlyTools)["see"]): Effect.Effect<ModelReply, RequestFailure> =>
    options.stream !== true
      ? executor.complete(request)
      : Effect.gen(function* () {
          let reply: ModelReply | null = null
          yield* Stream.runForEach(executor.stream(request), (part) => {
            if (part._tag === "Finish") reply = part.reply
            return Effect.andThen(emit({ _tag: "PartSeen", part }), see(part))
          })
          return reply ?? (yield* Effect.die(new Error("a stream ended without Finish")))
        })

  /** A reply that must not enter the history. */
  const unfitOf = (reply: ModelReply): AgentError | null => {
    if (reply.finishReason === "content_filter")
      return new ContentFilteredError(ending("content_filter", guidance.filtered, reply.text))
    return reply.finishReason === "length" || reply.finishReason === "window_full"
      ? new TruncatedReplyError(ending(reply.finishReason, guidance.truncated, reply.text))
      : null
  }

  /** One step; the reply when the model is done, null when it goes on. */
  const step = Effect.fnUntraced(function* (
    number: number,
    recalled: string | null,
    scope: Scope.Scope
  ): Effect.fn.Return<ModelReply | null, AgentFailure> {
    yield* emit({ _tag: "StepStarted", step: number })
    const request = yield* requestOf(recalled)
    const early =
      options.earlyTools === true && options.stream === true ? makeEarlyTools(toolbox, guard, scope) : noEarlyTools
    const reply = yield* Effect.provideService(onModel(request, ask(request, early.see)), TurnTrail, takeTrail)
    const unfit = unfitOf(reply)
    if (unfit !== null) return yield* unfit
    steps = number
    const calls = reply.toolCalls
    toolCalls += calls.length
    const tools = makeTools(
      {
        calls,
        toolbox,
        emit,
        concurrency: options.concurrency ?? defaultConcurrency,
        budget: checkBudget,
        early: early.take
      },
      guard
    )
    const addResults = Effect.gen(function* () {
      const found = tools.results()
      const results = calls.map((call, index) => ({ call, result: found[index] ?? notRun("no result.") }))
      const added = results.map(({ call, result }) => toResultMessage(call, result))
      const history = yield* conversation.messages
      const at = history.findLastIndex(isAssistant) + 1
      // What the caller said while the tools ran comes behind their results: nothing may part a call from its result.
      yield* at === history.length
        ? conversation.append(added)
        : conversation.replace([...history.slice(0, at), ...added, ...history.slice(at)])
      yield* Effect.forEach(results, (one) => emit({ _tag: "ResultAdded", ...one }), { discard: true })
    })
    // From the reply's place in the history to its last result nothing can come between.
    const done = yield* Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        yield* conversation.append([toMessage(reply)])
        if (reply.text !== null && reply.text !== "") texts.push(reply.text)
        yield* emit({ _tag: "Replied", step: number, reply })
        return yield* calls.length === 0
          ? Effect.succeed({ guard, warnings: [], broken: null })
          : Effect.onExit(restore(tools.run), () => addResults)
      })
    )
    guard = done.guard
    if (done.warnings.length > 0) {
      const content = done.warnings.map(LoopGuard.sentenceOf).join("\n")
      yield* conversation.append([{ role: "user", content }])
      yield* Effect.forEach(done.warnings, (finding) => emit({ _tag: "LoopWarned", finding }), { discard: true })
    }
    if (done.broken !== null) {
      yield* emit({ _tag: "LoopBroke", finding: done.broken })
      return yield* new LoopBroken({ ...ending("loop", guidance.loop), ...done.broken })
    }
    if (calls.length > 0) return null
    const more = hooks.onStop === undefined ? null : yield* hooks.onStop(reply)
    if (more === null) return reply
    yield* conversation.append([{ role: "user", content: more }])
    return null
  })

  const loop = Effect.gen(function* () {
    yield* open
    const recalled = memory === null ? null : yield* memory.recall(yield* conversation.messages)
    for (let number = 1; number <= maxSteps; number += 1) {
      // What a step has started and not used ends with it.
      const reply = yield* Effect.acquireUseRelease(
        Scope.make(),
        (scope) => step(number, recalled, scope),
        (scope) => Scope.close(scope, Exit.void)
      )
      if (reply === null) continue
      if (memory !== null) yield* memory.learn(yield* conversation.messages)
      return { reply, steps, toolCalls }
    }
    return yield* new StepLimitReached({ ...ending("steps", guidance.steps), maxSteps })
  })
  return yield* Effect.mapError(loop, withWork)
})
