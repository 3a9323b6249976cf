/**
 * Plays one scenario through the real SDK and says what happened as one result line. In virtual time the provider is an
 * in-process fetch; live it is a server on loopback.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { unpriced, type BudgetLimits } from "../../../domain/budget/Budget.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { exitCodeOf, exitCodes } from "../../../domain/failure/exitCode.ts"
import { isMessage, isToolSpec, type Message, type ToolSpec } from "../../../domain/chat/Message.ts"
import { isModelError } from "../../../domain/failure/ModelError.ts"
import { toMessage, type ModelReply } from "../../../domain/chat/ModelReply.ts"
import type { ModelRequest } from "../../../domain/chat/ModelRequest.ts"
import { profileNamed } from "../../../domain/provider/Profiles.ts"
import { withCodes, type ProviderProfile } from "../../../domain/provider/ProviderProfile.ts"
import { delayOf } from "../../../domain/recovery/RecoveryAction.ts"
import type { RecoveryEvent } from "../../../domain/recovery/RecoveryEvent.ts"
import { RecoveryPolicy } from "../../../domain/recovery/RecoveryPolicy.ts"
import { isRecoveryError } from "../../../domain/failure/RecoveryError.ts"
import type { ReplyPart } from "../../../domain/chat/ReplyPart.ts"
import type { Scenario, ScenarioCall } from "./Scenario.ts"
import { requestSettings, withVariables } from "../Settings.ts"
import * as Usage from "../../../domain/chat/Usage.ts"
import * as BudgetMemory from "../../../layers/stores/BudgetMemory.ts"
import * as World from "./drillWorld.ts"
import * as EventsMemory from "../../../layers/stores/EventsMemory.ts"
import * as ModelSummarizer from "../../../layers/ModelSummarizer.ts"
import * as OpenAiModelClient from "../../../layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../../../layers/RecoveryLive.ts"
import { makeDirect } from "../../../layers/provider/undiciFetch.ts"
import * as VirtualClock from "./VirtualClock.ts"
import { BudgetLedger, type LedgerShape } from "../../../services/BudgetLedger.ts"
import type { Conversation } from "../../../services/Conversation.ts"
import type { ModelClient } from "../../../services/ModelClient.ts"
import { PolicyOverride, TokenEstimate } from "../../../services/Overrides.ts"
import { Recovery, type RequestFailure } from "../../../services/Recovery.ts"
import type { AgentFailure } from "../../agent/runAgent.ts"
import { changesOf, modelsOf, policyInputOf, type Models } from "./drillPolicy.ts"
import { conversationOf, makeRecord, turnOf, type AgentRecord } from "./playAgent.ts"

/** A result line as the scenario format fixes it; `unsupported` says why a scenario was not played. */
export type ResultLine = { readonly id: string; readonly status: "unsupported"; readonly why: string } | PlayedLine

export interface PlayedLine {
  readonly id: string
  readonly status: "ran"
  readonly requests: ReadonlyArray<World.SentRequest>
  readonly sleepsMs: ReadonlyArray<number>
  readonly elapsedMs: number
  readonly results: ReadonlyArray<CallResult>
  readonly history: ReadonlyArray<Message> | null
  readonly historyUnchanged: boolean
  readonly events: ReadonlyArray<Timed>
  readonly parts: ReadonlyArray<Timed>
  readonly usageTotal: {
    readonly promptTokens: number | null
    readonly completionTokens: number | null
    readonly cachedTokens: number | null
    readonly known: boolean
  }
  readonly costUsd: number | null
  readonly toolExecutions: ReadonlyArray<unknown>
  readonly toolResults: ReadonlyArray<unknown>
  readonly loop: {
    readonly warnedAtCalls: ReadonlyArray<number>
    readonly brokenAtCall: number | null
    readonly detector: string | null
  }
  readonly heartbeatsAtMs: ReadonlyArray<number>
  readonly connectionsOpen: number
  readonly exitCode: number
}

type Timed = Readonly<Record<string, unknown>> & { readonly _tag: string; readonly atMs: number }

export type CallResult = Readonly<Record<string, unknown>> & {
  readonly historyUnchanged: boolean
  readonly endedAtMs: number
}

export interface PlayOptions {
  readonly live: boolean
}

/** Where a scenario is played: its time and its provider. */
interface Stage {
  readonly now: () => number
  readonly provider: World.DrillProvider
  readonly client: Pick<OpenAiModelClient.OpenAiOptions, "fetch" | "baseUrl">
}

interface Play {
  readonly scenario: Scenario
  readonly stage: Stage
  readonly events: Array<Timed>
  readonly parts: Array<Timed>
  readonly running: Set<Fiber.Fiber<unknown, unknown>>
  readonly agent: AgentRecord
  /** The session's budget; null = none. */
  readonly ledger: LedgerShape | null
}

const dummyKey = "sk-drill-0000000000"

/** Why a scenario cannot be played yet; null = it can. */
export const unsupported = (scenario: Scenario): string | null => {
  if (scenario.hand !== undefined && scenario.expect === undefined) return "shown by a test of its own"
  if (scenario.profile !== undefined && profileNamed(scenario.profile) === null)
    return `needs the provider profile ${scenario.profile}`
  return null
}

const profileOf = (scenario: Scenario): ProviderProfile => {
  const profile = profileNamed(scenario.profile ?? (scenario.adapter === "anthropic" ? "anthropic" : "openai"))
  if (profile === null) throw new ConfigurationError({ field: "profile", reason: `"${scenario.profile}" is not known` })
  return withCodes(profile, scenario.config?.codes ?? [])
}

/** The configuration as a command would resolve it, from the drill's values and the scenario's changes. */
const settingsOf = (
  scenario: Scenario
): Effect.Effect<
  { readonly models: Models; readonly apiKey: string; readonly baseUrl: string | null },
  ConfigurationError
> => {
  const changes = scenario.config?.env
  const models = modelsOf(scenario)
  const apiKey = scenario.config?.apiKey ?? dummyKey
  if (changes === undefined) return Effect.succeed({ models, apiKey, baseUrl: scenario.config?.baseUrl ?? null })
  const variables: Record<string, string | undefined> = {
    OPENAI_API_KEY: apiKey,
    OPENAI_MODEL: models.primary,
    OPENAI_FALLBACK_MODEL: models.fallback ?? "none"
  }
  for (const [name, value] of Object.entries(changes)) variables[name] = value ?? undefined
  return requestSettings("strict").pipe(
    Effect.map(({ policy, apiKey: key, baseUrl }) => ({
      models: { primary: policy.routes[0].model, fallback: policy.routes[1]?.model ?? null },
      apiKey: Redacted.value(key),
      baseUrl
    })),
    withVariables(variables)
  )
}

const messagesOf = (raw: ReadonlyArray<unknown>): ReadonlyArray<Message> =>
  raw.map((value, index) => {
    if (isMessage(value)) return value
    throw new ConfigurationError({ field: `messages[${index}]`, reason: "is not a message" })
  })

const toolsOf = (raw: ReadonlyArray<unknown>): ReadonlyArray<ToolSpec> =>
  raw.map((value, index) => {
    if (isToolSpec(value)) return value
    throw new ConfigurationError({ field: `tools[${index}]`, reason: "is not a tool" })
  })

const requestOf = (call: ScenarioCall, messages: ReadonlyArray<Message>): ModelRequest => ({
  messages,
  ...(call.tools === undefined ? {} : { tools: toolsOf(call.tools) }),
  ...(call.maxOutputTokens === undefined ? {} : { maxOutputTokens: call.maxOutputTokens }),
  ...(call.priority === undefined ? {} : { priority: call.priority })
})

const constantRandom = (value: number) => ({
  nextDoubleUnsafe: () => value,
  nextIntUnsafe: () => Math.floor(value * Number.MAX_SAFE_INTEGER)
})

/** The adapter that the scenario is written for. */
const clientOf = (
  scenario: Scenario,
  options: Pick<OpenAiModelClient.OpenAiOptions, "fetch" | "baseUrl" | "apiKey" | "profile" | "headers">
): Layer.Layer<ModelClient, ConfigurationError> => {
  const budgetParam = scenario.config?.budgetParam
  return scenario.adapter === "anthropic"
    ? Layer.unwrap(
        // Loaded when needed: its SDK is an optional peer.
        Effect.map(
          Effect.promise(() => import("../../../layers/provider/AnthropicModelClient.ts")),
          (adapter) => adapter.layer(options)
        )
      )
    : OpenAiModelClient.layer({
        ...options,
        api: scenario.adapter === "responses" ? "responses" : "chat",
        ...(budgetParam === undefined ? {} : { budgetParam })
      })
}

/** The library's layers around the stage's provider. */
const recoveryOf = (play: Play): Layer.Layer<Recovery, ConfigurationError> => {
  const { scenario, stage } = play
  return Layer.unwrap(
    Effect.flatMap(settingsOf(scenario), (settings) =>
      Effect.try({
        try: () => {
          const policy = new RecoveryPolicy(policyInputOf(scenario, settings.models))
          const fault = limitsOf(scenario).maxCostUsd === null ? null : unpriced(policy.routes)
          if (fault !== null)
            throw new ConfigurationError({ field: "maxCostUsd", reason: `needs the price of ${fault.model}` })
          const own = scenario.config?.headers
          return RecoveryLive.layer(policy).pipe(
            Layer.provide(ModelSummarizer.layer({ model: settings.models.primary })),
            Layer.provide(
              clientOf(scenario, {
                apiKey: settings.apiKey,
                profile: profileOf(scenario),
                ...(settings.baseUrl === null ? {} : { baseUrl: settings.baseUrl }),
                headers: (request) => ({ ...own, [World.roleHeader]: request.role }),
                ...stage.client
              })
            ),
            Layer.provide(
              EventsMemory.layerTo((event) => Effect.sync(() => play.events.push(timed(event, stage.now()))))
            )
          )
        },
        catch: (cause) =>
          cause instanceof ConfigurationError
            ? cause
            : new ConfigurationError({ field: scenario.id, reason: String(cause) })
      })
    )
  )
}

const timed = (value: RecoveryEvent | ReplyPart, atMs: number): Timed => ({ ...value, atMs })

const stringify = (messages: ReadonlyArray<Message>): string => JSON.stringify(messages)

/** A failure as the result line tells it. The partial text is part of what a drill checks. */
const failureLine = (failure: AgentFailure | ConfigurationError): Readonly<Record<string, unknown>> => {
  if (failure instanceof ConfigurationError) return { configError: failure.message }
  if (isModelError(failure))
    return {
      error: failure._tag,
      fields: {
        attempts: failure.attempts,
        elapsedMs: failure.elapsedMs,
        status: failure.status,
        lastStatus: failure.status,
        code: failure.code,
        model: failure.model,
        shed: failure.shed,
        lastCause: failure._tag,
        retryAt: failure.resetAt,
        guidance: failure.guidance
      }
    }
  if (!isRecoveryError(failure))
    return {
      error: failure._tag,
      fields: {
        attempts: failure.attempts,
        elapsedMs: failure.elapsedMs,
        guidance: failure.guidance,
        partial: failure.partial
      }
    }
  return {
    error: failure._tag,
    fields: {
      attempts: failure.attempts,
      elapsedMs: failure.elapsedMs,
      lastOutcome: failure.lastOutcome,
      lastCause: failure.lastCause,
      status: failure.lastStatus,
      lastStatus: failure.lastStatus,
      code: failure.code,
      model: failure.model,
      guidance: failure.guidance,
      ...("reason" in failure ? { reason: failure.reason } : {}),
      ...("partial" in failure && failure.partial !== null ? { partial: failure.partial } : {}),
      ...("requestedWaitMs" in failure
        ? { requestedWaitMs: failure.requestedWaitMs, remainingMs: failure.remainingMs, retryAt: failure.retryAt }
        : {})
    }
  }
}

const replyLine = (reply: ModelReply): Readonly<Record<string, unknown>> => ({
  reply: reply.text,
  finishReason: reply.finishReason,
  model: reply.model,
  ...(reply.refusal === null ? {} : { refusal: reply.refusal }),
  ...(reply.warnings.length === 0 ? {} : { warning: reply.warnings.join(" ") }),
  ...(reply.toolCalls.length === 0
    ? {}
    : { toolCalls: reply.toolCalls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args })) })
})

const exitCodeOfCall = (exit: Exit.Exit<ModelReply, AgentFailure | ConfigurationError>): number => {
  if (Exit.isSuccess(exit)) return exitCodes.ok
  if (Cause.hasInterruptsOnly(exit.cause)) return exitCodes.interrupted
  const found = Cause.findErrorOption(exit.cause)
  if (found._tag === "None") return exitCodes.failed
  const failure = found.value
  return exitCodeOf({
    tag: failure._tag,
    lastCause: "lastCause" in failure ? failure.lastCause : null,
    reason: "reason" in failure ? failure.reason : null,
    resetAt: "resetAt" in failure ? failure.resetAt : null
  })
}

/** One logical request, streamed when the call says so. */
const ask = (
  play: Play,
  call: ScenarioCall,
  request: ModelRequest
): Effect.Effect<ModelReply, RequestFailure, Recovery> =>
  Effect.gen(function* () {
    const recovery = yield* Recovery
    if (call.stream !== true) return yield* recovery.complete(request)
    let reply: ModelReply | null = null
    yield* Stream.runForEach(recovery.stream(request), (part) =>
      Effect.sync(() => {
        play.parts.push(timed(part._tag === "Finish" ? { ...part } : part, play.stage.now()))
        if (part._tag === "Finish") reply = part.reply
      })
    )
    return reply ?? (yield* Effect.die(new Error("a stream ended without Finish")))
  })

/** One turn of the agent. */
const agentTurn = (play: Play, call: ScenarioCall, conversation: Conversation) =>
  Effect.suspend(() =>
    turnOf(
      {
        scenario: play.scenario,
        record: play.agent,
        tools: toolsOf(call.tools ?? []),
        stream: call.stream === true,
        ...(call.maxOutputTokens === undefined ? {} : { maxOutputTokens: call.maxOutputTokens }),
        ...(call.priority === undefined ? {} : { priority: call.priority }),
        onPart: (part) => play.parts.push(timed(part._tag === "Finish" ? { ...part } : part, play.stage.now()))
      },
      conversation
    )
  )

const limitsOf = (scenario: Scenario): BudgetLimits => ({
  maxTokens: scenario.config?.maxTotalTokens ?? null,
  maxCostUsd: scenario.config?.maxCostUsd ?? null
})

const ledgerOf = (scenario: Scenario): Effect.Effect<LedgerShape | null> => {
  const limits = limitsOf(scenario)
  return limits.maxTokens === null && limits.maxCostUsd === null
    ? Effect.succeed(null)
    : BudgetMemory.make(limits, { tokens: 0, costUsd: scenario.config?.spentUsd ?? 0 })
}

/** Runs one call under the drill's chance, estimate and interruptions. */
const runCall = Effect.fnUntraced(function* (play: Play, call: ScenarioCall, messages: ReadonlyArray<Message>) {
  const { scenario, stage } = play
  const config = scenario.config ?? {}
  const random = constantRandom(call.random ?? scenario.random ?? 0)
  const conversation = yield* conversationOf(messages)
  const work: Effect.Effect<ModelReply, AgentFailure | ConfigurationError, Recovery> =
    scenario.mode === "agent" ? agentTurn(play, call, conversation) : ask(play, call, requestOf(call, messages))
  let program = Effect.provideService(work, Random.Random, random)
  if (play.ledger !== null) program = Effect.provideService(program, BudgetLedger, play.ledger)
  const estimate = config.estimateTokens
  if (estimate !== undefined) program = Effect.provideService(program, TokenEstimate, () => estimate)
  if (call.priority === "background") program = Effect.provideService(program, PolicyOverride, changesOf(config))
  const fiber = yield* Effect.forkChild(program)
  play.running.add(fiber)
  if (scenario.actions?.some((action) => action.do === "interrupt" && action.atMs < 0) === true)
    yield* Fiber.interrupt(fiber)
  const exit = yield* Fiber.await(fiber)
  play.running.delete(fiber)
  const endedAtMs = stage.now()
  const kept = yield* conversation.messages
  const history = scenario.mode !== "agent" && Exit.isSuccess(exit) ? [...kept, toMessage(exit.value)] : kept
  return { exit, endedAtMs, history }
})

interface Ended {
  readonly result: CallResult
  readonly exitCode: number
  readonly history: ReadonlyArray<Message>
}

const endOf = (
  play: Play,
  before: string,
  ended: {
    readonly exit: Exit.Exit<ModelReply, AgentFailure | ConfigurationError>
    readonly endedAtMs: number
    readonly history: ReadonlyArray<Message>
  }
): Ended => {
  const { exit, endedAtMs, history } = ended
  const tail = { historyUnchanged: stringify(history) === before, endedAtMs }
  const exitCode = exitCodeOfCall(exit)
  if (Exit.isSuccess(exit)) return { result: { ...replyLine(exit.value), ...tail }, exitCode, history }
  if (play.stage.provider.hasRunOut()) return { result: { error: "ScriptEnded", ...tail }, exitCode, history }
  if (Cause.hasInterruptsOnly(exit.cause)) return { result: { interrupted: true, ...tail }, exitCode, history }
  const found = Cause.findErrorOption(exit.cause)
  const line =
    found._tag === "Some"
      ? failureLine(found.value)
      : { error: "Defect", fields: { guidance: Cause.pretty(exit.cause) } }
  return { result: { ...line, ...tail }, exitCode, history }
}

/** The calls of the scenario, in order or side by side, and the history at the end (null side by side). */
const calls = Effect.fnUntraced(function* (play: Play) {
  const { scenario } = play
  const single = Effect.fnUntraced(function* (call: ScenarioCall, messages: ReadonlyArray<Message>) {
    const before = stringify(messages)
    return endOf(play, before, yield* runCall(play, call, messages))
  })
  if (scenario.parallel !== undefined) {
    const ended = yield* Effect.forEach(scenario.parallel, (call) => single(call, messagesOf(call.messages ?? [])), {
      concurrency: "unbounded"
    })
    return { ended, history: null }
  }
  const ended: Array<Ended> = []
  let history: ReadonlyArray<Message> = []
  let last: ScenarioCall = {}
  for (const entry of scenario.script ?? [{ call: scenario.request ?? {} }]) {
    if (entry.say !== undefined) history = [...history, { role: "user", content: entry.say }]
    if (entry.drop !== undefined) {
      const gone = new Set(entry.drop)
      history = history.filter((_, index) => !gone.has(index))
    }
    if (entry.call !== undefined) {
      const { messages: raw, ...rest } = entry.call
      last = { ...last, ...rest }
      if (raw !== undefined) history = messagesOf(raw)
      const one = yield* single(last, history)
      history = one.history
      ended.push(one)
    }
  }
  for (const action of scenario.actions?.filter((other) => other.do === "userMessage") ?? []) {
    yield* Effect.sleep(Math.max(0, action.atMs - play.stage.now()))
    const one = yield* single(last, [...history, { role: "user", content: action.text ?? "" }])
    history = one.history
    ended.push(one)
  }
  return { ended, history }
})

/** What the user does while calls run, at its time. */
const actions = (play: Play): Effect.Effect<void> =>
  Effect.forEach(
    (play.scenario.actions ?? []).filter((action) => action.do !== "userMessage" && action.atMs >= 0),
    (action) =>
      Effect.andThen(
        Effect.sleep(action.atMs),
        Effect.suspend(() =>
          action.do === "interrupt"
            ? Effect.forEach([...play.running], (fiber) => Fiber.interrupt(fiber), { discard: true })
            : Effect.forEach([...play.agent.toolboxes], (toolbox) => toolbox.interrupt(action.id ?? ""), {
                discard: true
              })
        )
      ),
    { concurrency: "unbounded", discard: true }
  )

const withoutUsage = (message: Message): Message => {
  if (message.role !== "assistant" || message.usage === undefined) return message
  const { usage: _, ...rest } = message
  return rest
}

const isTag =
  <T extends string>(tag: T) =>
  (event: Timed): boolean =>
    event._tag === tag

/** Everything that was spent, as the events tell it. */
const totalsOf = (play: Play) => {
  let usage = Usage.unknown
  let known = true
  let costUsd: number | null = 0
  for (const event of play.events) {
    if (event._tag !== "UsageSeen") continue
    const seen = event["usage"] as Usage.Usage
    usage = Usage.sum(usage, seen)
    if (event["final"] !== true) known = false
    const cost = event["costUsd"]
    costUsd = costUsd === null || typeof cost !== "number" ? null : costUsd + cost
  }
  const hasPrices = play.scenario.config?.prices !== undefined
  return {
    usageTotal: {
      promptTokens: usage.promptTokens,
      completionTokens: usage.completionTokens,
      cachedTokens: usage.cachedTokens,
      known
    },
    costUsd: hasPrices ? costUsd : null
  }
}

const lineOf = (
  play: Play,
  outcome: { readonly ended: ReadonlyArray<Ended>; readonly history: ReadonlyArray<Message> | null },
  elapsedMs: number
): PlayedLine => {
  const { scenario, stage } = play
  const totals = totalsOf(play)
  return {
    id: scenario.id,
    status: "ran",
    requests: stage.provider.requests,
    sleepsMs: play.events
      .filter(isTag("Transitioned"))
      .map((event) => delayOf(event["action"] as Parameters<typeof delayOf>[0]))
      .filter((delay) => delay > 0),
    elapsedMs,
    results: outcome.ended.map((one) => one.result),
    history: outcome.history === null ? null : outcome.history.map(withoutUsage),
    historyUnchanged: outcome.ended.every((one) => one.result.historyUnchanged),
    events: play.events.map(({ policy: _, ...event }) => event as Timed),
    parts: play.parts,
    ...totals,
    toolExecutions: play.agent.toolExecutions,
    toolResults: play.agent.toolResults,
    loop: {
      warnedAtCalls: play.agent.warnedAtCalls,
      brokenAtCall: play.agent.brokenAtCall,
      detector: play.agent.detector
    },
    heartbeatsAtMs: play.events.filter(isTag("Heartbeat")).map((event) => event.atMs),
    connectionsOpen: stage.provider.connectionsOpen(),
    exitCode: outcome.ended.at(-1)?.exitCode ?? exitCodes.ok
  }
}

const playOn = (scenario: Scenario, stage: Stage): Effect.Effect<ResultLine> =>
  Effect.flatMap(ledgerOf(scenario), (ledger) =>
    playWith({ scenario, stage, events: [], parts: [], running: new Set(), agent: makeRecord(), ledger })
  )

const playWith = (play: Play): Effect.Effect<ResultLine> => {
  const { stage } = play
  return Effect.gen(function* () {
    const acting = yield* Effect.forkChild(actions(play))
    const outcome = yield* calls(play)
    const elapsedMs = stage.now()
    yield* Fiber.interrupt(acting)
    return lineOf(play, outcome, elapsedMs)
  }).pipe(
    Effect.provide(recoveryOf(play)),
    Effect.catchTag("ConfigurationError", (error) =>
      Effect.succeed(
        lineOf(
          play,
          {
            ended: [
              {
                result: { configError: error.message, historyUnchanged: true, endedAtMs: 0 },
                exitCode: exitCodes.usage,
                history: []
              }
            ],
            history: []
          },
          0
        )
      )
    )
  )
}

const start = (scenario: Scenario): number => {
  const found = scenario.clockUtc === undefined ? undefined : Date.parse(scenario.clockUtc)
  return found === undefined || Number.isNaN(found) ? Date.UTC(2026, 0, 1) : found
}

const playVirtual = (scenario: Scenario): Effect.Effect<ResultLine> =>
  Effect.promise(() => {
    const time = VirtualClock.make(start(scenario))
    const provider = World.inProcess(scenario, time)
    return time.run(
      Effect.runPromise(
        Effect.provideService(
          playOn(scenario, { now: time.now, provider, client: { fetch: provider.fetch } }),
          Clock.Clock,
          time.clock
        )
      )
    )
  })

const playLive = (scenario: Scenario): Effect.Effect<ResultLine> =>
  Effect.acquireUseRelease(
    Effect.promise(() => World.loopback(scenario)),
    (provider) => {
      const startedAt = performance.now()
      return playOn(scenario, {
        now: () => performance.now() - startedAt,
        provider,
        client: { baseUrl: provider.baseUrl, fetch: makeDirect() }
      })
    },
    (provider) => Effect.promise(provider.close)
  )

/** Plays a scenario; one that needs a missing part comes back as unsupported with the reason. */
export const play = (scenario: Scenario, options: PlayOptions): Effect.Effect<ResultLine> => {
  const why = unsupported(scenario)
  if (why !== null) return Effect.succeed({ id: scenario.id, status: "unsupported", why })
  return options.live ? playLive(scenario) : playVirtual(scenario)
}

/** A scenario entry that could not be read is told as unsupported, never skipped. */
export const playEntry = (
  entry: { readonly id: string; readonly scenario: Result.Result<Scenario, ConfigurationError> },
  options: PlayOptions
): Effect.Effect<ResultLine> =>
  Result.isSuccess(entry.scenario)
    ? play(entry.scenario.success, options)
    : Effect.succeed({ id: entry.id, status: "unsupported", why: entry.scenario.failure.message })
