/** `holdfast run`: an agent over a folder, with recovery. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Command, Flag } from "effect/cli"
import type { AgentEvent } from "../../../domain/agent/AgentEvent.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { exitCodeOf, exitCodes } from "../../../domain/failure/exitCode.ts"
import type { RecoveryEvent } from "../../../domain/recovery/RecoveryEvent.ts"
import type { RecoveryPolicy } from "../../../domain/recovery/RecoveryPolicy.ts"
import type { AgentFailure } from "../../agent/runAgent.ts"
import { exitWith } from "../exit.ts"
import { settings } from "../variables.ts"

const flags = {
  prompt: Flag.String("prompt").pipe(Flag.withDescription("what the agent is to do"), Flag.optional),
  dir: Flag.String("dir").pipe(Flag.withDescription("folder it works in"), Flag.withDefault(".")),
  allow: Flag.Boolean("allow").pipe(
    Flag.withDescription("also let it write, edit and run shell commands"),
    Flag.withDefault(false)
  ),
  unattended: Flag.Boolean("unattended").pipe(
    Flag.withDescription("wait as long as it takes: the preset unattended"),
    Flag.withDefault(false)
  ),
  resume: Flag.Boolean("resume").pipe(Flag.withDescription("go on with the saved session"), Flag.withDefault(false)),
  session: Flag.String("session").pipe(
    Flag.withDescription("where the session is saved; default: .holdfast/session.json in the folder"),
    Flag.optional
  ),
  model: Flag.String("model").pipe(Flag.withDescription("model to ask; wins over OPENAI_MODEL"), Flag.optional),
  maxSteps: Flag.Int("max-steps").pipe(Flag.withDescription("model rounds, default 15"), Flag.withDefault(15)),
  maxTokens: Flag.Int("max-tokens").pipe(
    Flag.withDescription("tokens the session may spend, prompt and output together"),
    Flag.optional
  ),
  maxUsd: Flag.Finite("max-usd").pipe(
    Flag.withDescription("USD the session may spend; every model needs a known price"),
    Flag.optional
  ),
  provider: Flag.Literals("provider", ["openai", "embedded"]).pipe(
    Flag.withDescription("embedded: a scripted local provider, no key needed"),
    Flag.withDefault("openai")
  ),
  scenario: Flag.String("scenario").pipe(
    Flag.withDescription("what goes wrong with the embedded provider: calm, rate-limit, overload, cut, ..."),
    Flag.withDefault("calm")
  ),
  json: Flag.Boolean("json").pipe(Flag.withDescription("one JSON line per event"), Flag.withDefault(false))
}

/** Where the model is: its address, key and policy. */
interface Target {
  readonly policy: RecoveryPolicy
  readonly apiKey: Redacted.Redacted<string> | string
  readonly baseUrl: string | null
}

const systemPrompt = (dir: string, allow: boolean): string =>
  [
    `You work in the folder ${dir}. Paths are relative to it; nothing outside it can be reached.`,
    allow
      ? "You may read and change files and run shell commands."
      : "You may look at files; you cannot change anything.",
    "Use the tools to find out; do not guess. When the task is done, say briefly what you did."
  ].join("\n")

const exitCodeOfFailure = (failure: AgentFailure | ConfigurationError): number =>
  exitCodeOf({
    tag: failure._tag,
    lastCause: "lastCause" in failure ? failure.lastCause : null,
    reason: "reason" in failure ? failure.reason : null,
    resetAt: "resetAt" in failure ? failure.resetAt : null
  })

/** The second Ctrl-C ends the process at once; the first one is the runtime's. */
const killOnSecond = Effect.acquireRelease(
  Effect.sync(() => {
    let count = 0
    const onSignal = (): void => {
      count += 1
      if (count > 1) process.exit(exitCodes.interrupted)
    }
    process.on("SIGINT", onSignal)
    return onSignal
  }),
  (onSignal) => Effect.sync(() => process.removeListener("SIGINT", onSignal))
)

export const run = Command.make(
  "run",
  flags,
  Effect.fnUntraced(function* (input) {
    const prompt = input.prompt._tag === "Some" ? input.prompt.value.trim() : null
    if (prompt === "" || (prompt === null && !input.resume))
      return yield* new ConfigurationError({ field: "--prompt", reason: "says what to do; only --resume goes without" })
    if (input.maxSteps < 1) return yield* new ConfigurationError({ field: "--max-steps", reason: "must be 1 or more" })
    if (input.maxTokens._tag === "Some" && input.maxTokens.value < 1)
      return yield* new ConfigurationError({ field: "--max-tokens", reason: "must be 1 or more" })
    if (input.maxUsd._tag === "Some" && input.maxUsd.value <= 0)
      return yield* new ConfigurationError({ field: "--max-usd", reason: "must be more than 0" })
    return yield* Effect.scoped(runIn({ ...input, prompt }))
  })
).pipe(Command.withDescription("run an agent over a folder, with recovery"))

interface Input {
  readonly prompt: string | null
  readonly dir: string
  readonly allow: boolean
  readonly unattended: boolean
  readonly resume: boolean
  readonly session: { readonly _tag: "Some"; readonly value: string } | { readonly _tag: "None" }
  readonly model: { readonly _tag: "Some"; readonly value: string } | { readonly _tag: "None" }
  readonly maxSteps: number
  readonly maxTokens: { readonly _tag: "Some"; readonly value: number } | { readonly _tag: "None" }
  readonly maxUsd: { readonly _tag: "Some"; readonly value: number } | { readonly _tag: "None" }
  readonly provider: "openai" | "embedded"
  readonly scenario: string
  readonly json: boolean
}

/** A scripted provider on loopback, for as long as the scope lives. */
const embeddedTarget = Effect.fnUntraced(function* (input: Input) {
  const { embedded, embeddedNames } = yield* Effect.promise(() => import("./embedded.ts"))
  const { loopback } = yield* Effect.promise(() => import("../drill/loopbackProvider.ts"))
  const { presets, RecoveryPolicy } = yield* Effect.promise(() => import("../../../domain/recovery/RecoveryPolicy.ts"))
  const scenario = embedded(input.scenario, input.allow)
  if (scenario === null)
    return yield* new ConfigurationError({ field: "--scenario", reason: `is none of ${embeddedNames.join(", ")}` })
  const server = yield* Effect.acquireRelease(
    Effect.promise(() => loopback(scenario)),
    (one) => Effect.promise(one.close)
  )
  const target: Target = {
    policy: new RecoveryPolicy({
      ...(input.unattended ? presets.unattended : presets.broad),
      routes: [
        { model: "embedded", prices: { inputPerM: 0, outputPerM: 0 } },
        { model: "embedded-second", prices: { inputPerM: 0, outputPerM: 0 } }
      ]
    }),
    apiKey: "embedded",
    baseUrl: server.baseUrl
  }
  return target
})

const openAiTarget = Effect.fnUntraced(function* (input: Input) {
  const chosen = {
    ...(input.unattended ? { HOLDFAST_PRESET: "unattended" } : {}),
    ...(input.model._tag === "Some" ? { OPENAI_MODEL: input.model.value } : {})
  }
  const found = yield* settings(process.env, chosen, "broad").pipe(
    Effect.mapError((error) =>
      error.field.startsWith("OPENAI_API_KEY")
        ? new ConfigurationError({
            field: error.field,
            reason: `${error.reason}, or see it work without one: --provider embedded`
          })
        : error
    )
  )
  const target: Target = { policy: found.policy, apiKey: found.apiKey, baseUrl: found.baseUrl }
  return target
})

/** The policy with the catalogue's prices where the user gave none. The catalogue is an optional package. */
const withPrices = Effect.fnUntraced(function* ({ policy, baseUrl }: Target) {
  const catalogue = yield* Effect.tryPromise(() => import("../../../layers/provider/ModelPrices.ts")).pipe(
    Effect.catch(() => Effect.succeed(null))
  )
  if (catalogue === null || policy.routes.every((route) => route.prices !== null)) return policy
  const { RecoveryPolicy } = yield* Effect.promise(() => import("../../../domain/recovery/RecoveryPolicy.ts"))
  const place = baseUrl === null ? { provider: "openai" } : { baseUrl }
  const priced = policy.routes.map((route) => ({
    ...route,
    prices: route.prices ?? catalogue.factsOf(route.model, place).prices
  }))
  return new RecoveryPolicy({ ...policy, routes: priced })
})

const runIn = Effect.fnUntraced(function* (input: Input) {
  yield* killOnSecond
  const { realpath } = yield* Effect.promise(() => import("node:fs/promises"))
  const { join } = yield* Effect.promise(() => import("node:path"))
  const dir = yield* Effect.tryPromise({
    try: () => realpath(input.dir),
    catch: () => new ConfigurationError({ field: "--dir", reason: `(${input.dir}) does not exist` })
  })
  const target = yield* input.provider === "embedded" ? embeddedTarget(input) : openAiTarget(input)
  const policy = yield* withPrices(target)
  const { unpriced } = yield* Effect.promise(() => import("../../../domain/budget/Budget.ts"))
  const unknown = unpriced(policy.routes)
  const maxCostUsd = input.maxUsd._tag === "Some" ? input.maxUsd.value : null
  const maxTokens = input.maxTokens._tag === "Some" ? input.maxTokens.value : null
  if (maxCostUsd !== null && unknown !== null)
    return yield* new ConfigurationError({
      field: "--max-usd",
      reason: `needs the price of ${unknown.model}, which no catalogue gives for this address: set HOLDFAST_PRICES="${unknown.model}=IN/OUT", USD per million tokens`
    })

  const { make: openAi } = yield* Effect.promise(() => import("../../../layers/provider/OpenAiModelClient.ts"))
  const ModelSummarizer = yield* Effect.promise(() => import("../../../layers/ModelSummarizer.ts"))
  const EventsMemory = yield* Effect.promise(() => import("../../../layers/stores/EventsMemory.ts"))
  const RecoveryLive = yield* Effect.promise(() => import("../../../layers/RecoveryLive.ts"))
  const ToolboxLive = yield* Effect.promise(() => import("../../../layers/ToolboxLive.ts"))
  const ConversationMemory = yield* Effect.promise(() => import("../../../programs/agent/ConversationMemory.ts"))
  const SessionFile = yield* Effect.promise(() => import("../../../layers/stores/SessionFile.ts"))
  const BudgetMemory = yield* Effect.promise(() => import("../../../layers/stores/BudgetMemory.ts"))
  const { folderTools } = yield* Effect.promise(() => import("./folderTools.ts"))
  const { runAgent } = yield* Effect.promise(() => import("../../agent/runAgent.ts"))
  const { renderFailure } = yield* Effect.promise(() => import("../../../domain/failure/renderFailure.ts"))
  const { makeDisplay } = yield* Effect.promise(() => import("./display.ts"))
  const Summary = yield* Effect.promise(() => import("./summary.ts"))
  const { ModelClient } = yield* Effect.promise(() => import("../../../services/ModelClient.ts"))
  const { Recovery } = yield* Effect.promise(() => import("../../../services/Recovery.ts"))
  const { Toolbox } = yield* Effect.promise(() => import("../../../services/Toolbox.ts"))
  const { BudgetLedger } = yield* Effect.promise(() => import("../../../services/BudgetLedger.ts"))
  const { SystemPrompt } = yield* Effect.promise(() => import("../../../services/AgentHooks.ts"))

  const summary = Summary.makeSummary({ maxCostUsd, hasPrices: unknown === null })
  const display = makeDisplay({
    write: (text) => process.stdout.write(text),
    isTerminal: process.stdout.isTTY === true
  })
  const print = (value: unknown): void => {
    process.stdout.write(`${JSON.stringify(value)}\n`)
  }
  const onAgent = (event: AgentEvent): Effect.Effect<void> =>
    Effect.sync(() => {
      Summary.noteAgent(summary, event)
      if (input.json) print(event)
      else display.onAgent(event)
    })
  const onRecovery = (event: RecoveryEvent): Effect.Effect<void> =>
    Effect.sync(() => {
      Summary.noteRecovery(summary, event)
      // Whole, with the policy of Started: `holdfast replay` folds what this prints.
      if (input.json) print(event)
      else display.onRecovery(event)
    })

  const sessionPath = input.session._tag === "Some" ? input.session.value : join(dir, ".holdfast", "session.json")
  const before = input.resume ? yield* SessionFile.load(sessionPath) : []
  const save = yield* SessionFile.make(sessionPath)
  const conversation = yield* ConversationMemory.make(before, save)
  const toolbox = yield* ToolboxLive.make(
    folderTools({ dir, allow: input.allow, onChange: (path) => summary.filesChanged.add(path) })
  )
  const client = yield* Effect.try({
    try: () => openAi({ apiKey: target.apiKey, ...(target.baseUrl === null ? {} : { baseUrl: target.baseUrl }) }),
    catch: (cause) =>
      cause instanceof ConfigurationError
        ? cause
        : new ConfigurationError({ field: "configuration", reason: "the client cannot be made" })
  })
  const recovery = RecoveryLive.layer(policy).pipe(
    Layer.provide(ModelSummarizer.layer({ model: policy.routes[0].model })),
    Layer.provide(Layer.succeed(ModelClient, client)),
    Layer.provide(EventsMemory.layerTo(onRecovery))
  )
  const ledger = maxTokens === null && maxCostUsd === null ? null : yield* BudgetMemory.make({ maxTokens, maxCostUsd })

  const turn = Effect.flatMap(Recovery, (executor) =>
    runAgent({ executor, conversation, maxSteps: input.maxSteps, stream: true, emit: onAgent }, input.prompt)
  ).pipe(
    Effect.provide(recovery),
    Effect.provideService(Toolbox, Toolbox.of(toolbox)),
    Effect.provideService(BudgetLedger, ledger),
    Effect.provideService(SystemPrompt, Effect.succeed(systemPrompt(dir, input.allow)))
  )

  const conclude = (ok: boolean, words: string | null, fields: Readonly<Record<string, unknown>>) =>
    Effect.sync(() => {
      if (input.json) return print({ _tag: "Ended", ok, ...fields, summary: Summary.summaryJson(summary) })
      display.close()
      if (words !== null) process.stderr.write(`${words}\n`)
      process.stdout.write(`\n${Summary.summaryTable(summary)}\n`)
      if (!ok) process.stdout.write("  go on with    holdfast run --resume\n")
    })

  const exit = yield* Effect.exit(turn).pipe(
    Effect.onInterrupt(() => conclude(false, "interrupted: what was finished is saved", { interrupted: true }))
  )
  if (Exit.isSuccess(exit)) {
    const { reply } = exit.value
    return yield* conclude(true, null, { reply: reply.text, refusal: reply.refusal, model: reply.model })
  }
  const found = exit.cause.reasons.find((reason) => reason._tag === "Fail")
  if (found === undefined) return yield* Effect.failCause(exit.cause)
  const failure = found.error
  if (failure instanceof ConfigurationError) return yield* failure
  const code = exitCodeOfFailure(failure)
  yield* conclude(false, renderFailure(failure, { providerMessage: true }), {
    error: failure._tag,
    guidance: failure.guidance,
    exitCode: code
  })
  return yield* exitWith(code)
})
