/**
 * What a request may cost in attempts, time and tokens. Presets are values to spread, not flags:
 *
 *     new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "large" }, { model: "small", client: "backup" }] })
 *
 * Durations are given as any `Duration.Input` ("300 seconds", a number of milliseconds) and kept as milliseconds.
 * Everything is checked at construction; a bad value throws a ConfigurationError that names the field.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigurationError } from "../failure/ConfigurationError.ts"
import { Prices } from "../budget/Cost.ts"
import { RouteHealthConfig } from "./RouteHealthConfig.ts"
import { schemaFault } from "../failure/schemaFault.ts"

/** A span of time in milliseconds, finite and more than 0. */
const Millis = Schema.Finite.check(Schema.isGreaterThan(0))
const Positive = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))
const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** Classes of outcomes that are counted for a fallback. `silent` is any time-out, `cut` a stream that broke off. */
export const OutcomeClass = Schema.Literals([
  "overload",
  "serverError",
  "silent",
  "cut",
  "connection",
  "rateLimit",
  "overflow",
  "empty"
])
export type OutcomeClass = typeof OutcomeClass.Type

/** What is retried: `http429` and `http529` look at the HTTP status alone (strict), the others at the class. */
export const RetryClass = Schema.Literals([
  "http429",
  "http529",
  "overload",
  "serverError",
  "silent",
  "cut",
  "connection",
  "rateLimit",
  "empty"
])
export type RetryClass = typeof RetryClass.Type

/** Provider + key + model, and what is known of the model. What is unknown (null) never clamps. */
export const Route = Schema.Struct({
  model: Schema.NonEmptyString,
  /** Name of a registered client; null = the default one. */
  client: Schema.NullOr(Schema.NonEmptyString),
  /** The model's own maximum of output tokens. */
  outputLimit: Schema.NullOr(Positive),
  /** Tokens of prompt and output together. */
  contextWindow: Schema.NullOr(Positive),
  /** USD per million tokens; null = unknown, then every cost is unknown. */
  prices: Schema.NullOr(Prices),
  /** Whether the model can call tools. A fallback without them is skipped by requests that have some. */
  tools: Schema.Boolean,
  /** Whether the model takes its own thinking back; false = it is left out of what is sent. */
  thinking: Schema.Boolean
})
export type Route = typeof Route.Type
/** What tells a route from the others of a policy. */
export type RouteName = Pick<Route, "model" | "client">
export type RouteInput = Pick<Route, "model"> & Partial<Omit<Route, "model">>

const Backoff = Schema.Struct({
  base: Millis,
  factor: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1)),
  cap: Millis,
  jitter: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))
})

const FallbackAfter = Schema.Struct({
  overload: Schema.optionalKey(Positive),
  serverError: Schema.optionalKey(Positive),
  silent: Schema.optionalKey(Positive),
  cut: Schema.optionalKey(Positive),
  connection: Schema.optionalKey(Positive),
  rateLimit: Schema.optionalKey(Positive),
  overflow: Schema.optionalKey(Positive)
})

const fields = {
  routes: Schema.NonEmptyArray(Route),
  retry: Schema.Array(RetryClass),
  /** `exact`: a hint is taken as it is, a bad one is InvalidRetryAfterError. `atLeast`: never shortened, plus a spread. */
  retryAfter: Schema.Literals(["exact", "atLeast"]),
  /** Whether `x-should-retry: true` may repeat what would not be repeated otherwise. */
  trustShouldRetry: Schema.Boolean,
  /** Requests of which all but one are transient retries; null = unlimited. */
  maxAttempts: Schema.NullOr(Positive),
  backoff: Backoff,
  /** Budget of time inside Recovery; null = none. */
  deadline: Schema.NullOr(Millis),
  /** `turn`: one budget for all requests of a turn, tools do not count. `request`: per request, and progress of a stream moves it on. */
  deadlinePer: Schema.Literals(["turn", "request"]),
  hardCap: Schema.NullOr(Millis),
  /** Longest wait for a known reset; null = no limit of its own. */
  resetCap: Schema.NullOr(Millis),
  firstTokenTimeout: Schema.NullOr(Millis),
  idleTimeout: Schema.NullOr(Millis),
  contentTimeout: Schema.NullOr(Millis),
  attemptTimeout: Schema.NullOr(Millis),
  heartbeat: Schema.NullOr(Millis),
  /** Whether a stream's consumer gets a Notice when a wait begins. */
  notices: Schema.Boolean,
  fallbackAfter: FallbackAfter,
  /** The way back to the primary: `turn` = with the next turn; `health` = also when its route health allows. */
  fallbackScope: Schema.Literals(["turn", "health"]),
  routeHealth: Schema.NullOr(RouteHealthConfig),
  initialMaxTokens: Positive,
  escalatedMaxTokens: Positive,
  /** `always`, `ifTimeAllows` (remaining time x rate >= 2 x the old budget), or `never`. */
  raise: Schema.Literals(["always", "ifTimeAllows", "never"]),
  maxContinuations: Count,
  continuationPrompt: Schema.NonEmptyString,
  minContinuationGain: Schema.Struct({ tokens: Count, times: Positive }),
  compaction: Schema.Struct({ mode: Schema.Literals(["once", "off"]), keepRecentMessages: Positive }),
  /** Treat a bare 400, 413 or 422 as an overflow while the token estimate is at or over the window. */
  suspectOverflow: Schema.Boolean,
  onCut: Schema.Literals(["restart", "resume", "splice", "fail"]),
  /** Longest overlap in characters that is dropped at the seam of a continuation; 0 = off. */
  seamRepair: Count,
  /** Give up at the first overload (`shed: true`). */
  shedOnOverload: Schema.Boolean
} as const

const Resolved = Schema.Struct(fields)
type Resolved = typeof Resolved.Type

const durationFields = [
  "deadline",
  "hardCap",
  "resetCap",
  "firstTokenTimeout",
  "idleTimeout",
  "contentTimeout",
  "attemptTimeout",
  "heartbeat"
] as const
type DurationField = (typeof durationFields)[number]

const healthDurations = [
  "window",
  "coolDown",
  "coolDownMax",
  "probeTimeout",
  "ramp",
  "hintGateMax",
  "hintSpread"
] as const satisfies ReadonlyArray<keyof RouteHealthConfig>
type HealthDuration = (typeof healthDurations)[number]

type RouteHealthInput = Partial<Omit<RouteHealthConfig, HealthDuration>> & {
  readonly [K in HealthDuration]?: Duration.Input
}

/** What a caller may write: durations as any input, everything but `routes` defaulted to strict. */
export type RecoveryPolicyInput = { readonly routes: ReadonlyArray<RouteInput> } & Partial<
  Omit<Resolved, "routes" | "backoff" | "compaction" | "minContinuationGain" | DurationField | "routeHealth">
> & {
    readonly [K in DurationField]?: Duration.Input | null
  } & {
    readonly backoff?: {
      readonly base?: Duration.Input
      readonly factor?: number
      readonly cap?: Duration.Input
      readonly jitter?: number
    }
    readonly compaction?: Partial<Resolved["compaction"]>
    readonly minContinuationGain?: Partial<Resolved["minContinuationGain"]>
    readonly routeHealth?: RouteHealthInput | null
  }

type PresetFields = Omit<Resolved, "routes">

/** The prompt a continuation ends with. */
export const defaultContinuationPrompt =
  "Resume exactly where the text stopped, even in mid-sentence. Repeat nothing, apologise for nothing, sum up nothing. If much is left, go on in smaller pieces."

const seconds = (n: number): number => n * 1000
const minutes = (n: number): number => n * 60_000

const strict: PresetFields = {
  retry: ["http429", "http529"],
  retryAfter: "exact",
  trustShouldRetry: false,
  maxAttempts: 10,
  backoff: { base: 500, factor: 2, cap: seconds(32), jitter: 0.25 },
  deadline: seconds(300),
  deadlinePer: "turn",
  hardCap: null,
  resetCap: null,
  firstTokenTimeout: null,
  idleTimeout: null,
  contentTimeout: null,
  attemptTimeout: null,
  heartbeat: null,
  notices: false,
  fallbackAfter: { overload: 3 },
  fallbackScope: "turn",
  routeHealth: null,
  initialMaxTokens: 8_000,
  escalatedMaxTokens: 64_000,
  raise: "always",
  maxContinuations: 3,
  continuationPrompt: defaultContinuationPrompt,
  minContinuationGain: { tokens: 500, times: 3 },
  compaction: { mode: "once", keepRecentMessages: 4 },
  suspectOverflow: false,
  onCut: "restart",
  seamRepair: 0,
  shedOnOverload: false
}

const broad: PresetFields = {
  ...strict,
  retry: ["rateLimit", "overload", "serverError", "silent", "cut", "connection", "empty"],
  retryAfter: "atLeast",
  trustShouldRetry: true,
  maxAttempts: 20,
  deadlinePer: "request",
  hardCap: minutes(30),
  firstTokenTimeout: seconds(60),
  idleTimeout: seconds(30),
  contentTimeout: seconds(120),
  attemptTimeout: minutes(10),
  notices: true,
  fallbackAfter: { overload: 3, serverError: 3 },
  fallbackScope: "health",
  routeHealth: RouteHealthConfig.defaults,
  raise: "ifTimeAllows"
}

const unattended: PresetFields = {
  ...broad,
  maxAttempts: null,
  backoff: { ...broad.backoff, cap: minutes(5) },
  deadline: null,
  hardCap: null,
  resetCap: 6 * 60 * 60_000,
  heartbeat: seconds(30)
}

const backgroundDeadline = seconds(60)

const background: PresetFields = {
  ...broad,
  maxAttempts: 3,
  deadline: backgroundDeadline,
  attemptTimeout: seconds(60),
  notices: false,
  fallbackAfter: {},
  raise: "never",
  compaction: { mode: "off", keepRecentMessages: 4 },
  onCut: "fail",
  shedOnOverload: true
}

/** The names of the presets, for commands and documents. */
export const presets = { strict, broad, unattended, background } as const
export type PresetName = keyof typeof presets

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

/** `off`: what switches the span off, for the message. */
const toMillis = (field: string, input: Duration.Input, off = ""): number => {
  const duration = Duration.fromInput(input)
  if (Option.isNone(duration)) throw bad(field, 'is not a duration such as "30 seconds" or a number of milliseconds')
  const millis = Duration.toMillis(duration.value)
  if (!(Number.isFinite(millis) && millis > 0)) throw bad(field, `must be longer than 0 and finite${off}`)
  return millis
}

/** Names nobody knows stay in, so that the schema refuses them. */
const routeOf = (input: RouteInput): Route => ({
  ...input,
  client: input.client ?? null,
  outputLimit: input.outputLimit ?? null,
  contextWindow: input.contextWindow ?? null,
  prices: input.prices ?? null,
  tools: input.tools ?? true,
  thinking: input.thinking ?? true
})

/** Every span but 0 is read like any other; 0 switches a ramp or a spread off. */
const healthOf = (input: RouteHealthInput): unknown => {
  const given: Record<string, unknown> = { ...RouteHealthConfig.defaults, ...input }
  for (const field of healthDurations) {
    const value = input[field]
    if (value !== undefined && value !== 0) given[field] = toMillis(`routeHealth.${field}`, value)
  }
  return given
}

const decode = Schema.decodeUnknownResult(Resolved, { onExcessProperty: "error" })

const isFields = (input: unknown): boolean => typeof input === "object" && input !== null && !Array.isArray(input)

/** Fields with fields of their own: what is not given keeps its default. */
const groups = ["backoff", "fallbackAfter", "minContinuationGain", "compaction", "routeHealth"] as const

const resolve = (input: RecoveryPolicyInput): Resolved => {
  if (!isFields(input)) throw bad("policy", "must be an object of fields")
  if (!Array.isArray(input.routes) || input.routes.length === 0) throw bad("routes", "needs at least one route")
  const odd = input.routes.findIndex((route) => !isFields(route))
  if (odd !== -1) throw bad(`routes[${odd}]`, "must be an object with a model")
  const known = new Set(Object.keys(fields))
  for (const key of Object.keys(input)) if (!known.has(key)) throw bad(key, "is not a field of a policy")
  for (const group of groups) {
    const value: unknown = input[group]
    const isOff = value === null && group === "routeHealth"
    if (value !== undefined && !isOff && !isFields(value)) throw bad(group, "must be an object of fields")
  }
  const { backoff, ...rest } = input
  const given: Record<string, unknown> = { ...strict, ...rest }
  for (const field of durationFields) {
    const value = input[field]
    if (value !== undefined && value !== null) given[field] = toMillis(field, value, "; null switches it off")
  }
  given["backoff"] = {
    ...strict.backoff,
    ...backoff,
    ...(backoff?.base === undefined ? {} : { base: toMillis("backoff.base", backoff.base) }),
    ...(backoff?.cap === undefined ? {} : { cap: toMillis("backoff.cap", backoff.cap) })
  }
  given["compaction"] = { ...strict.compaction, ...input.compaction }
  given["minContinuationGain"] = { ...strict.minContinuationGain, ...input.minContinuationGain }
  given["routes"] = input.routes.map(routeOf)
  if (input.routeHealth !== undefined && input.routeHealth !== null) given["routeHealth"] = healthOf(input.routeHealth)
  const decoded = decode(given)
  if (Result.isFailure(decoded)) {
    const { field, reason } = schemaFault(decoded.failure)
    throw bad(field === "" ? "policy" : field, reason)
  }
  return crossCheck(decoded.success)
}

const crossCheck = (policy: Resolved): Resolved => {
  const [primary, ...fallbacks] = policy.routes
  if (policy.initialMaxTokens > policy.escalatedMaxTokens)
    throw bad(
      "initialMaxTokens",
      `(${policy.initialMaxTokens}) is larger than escalatedMaxTokens (${policy.escalatedMaxTokens})`
    )
  // A fallback's smaller limit only clamps; the primary's is a mistake in the configuration.
  if (primary.outputLimit !== null && policy.raise !== "never" && policy.escalatedMaxTokens > primary.outputLimit)
    throw bad(
      "escalatedMaxTokens",
      `(${policy.escalatedMaxTokens}) is larger than what ${primary.model} can write (${primary.outputLimit})`
    )
  if (primary.outputLimit !== null && policy.initialMaxTokens > primary.outputLimit)
    throw bad(
      "initialMaxTokens",
      `(${policy.initialMaxTokens}) is larger than what ${primary.model} can write (${primary.outputLimit})`
    )
  for (const [index, route] of fallbacks.entries())
    if (policy.routes.slice(0, index + 1).some((other) => isSameRoute(other, route)))
      throw bad(`routes[${index + 1}]`, `is the same route as an earlier one (${route.model})`)
  if (policy.backoff.cap < policy.backoff.base) throw bad("backoff.cap", "is shorter than backoff.base")
  const health = policy.routeHealth
  if (health !== null && health.coolDownMax < health.coolDown)
    throw bad("routeHealth.coolDownMax", "is shorter than routeHealth.coolDown")
  return policy
}

/**
 * A checked policy. Constructing one with a bad value throws a ConfigurationError naming the field.
 *
 * `RecoveryPolicy.strict` (the default of every field), `.broad`, `.unattended` and `.background` are values to spread.
 */
export class RecoveryPolicy extends Schema.Class<RecoveryPolicy>("holdfast/RecoveryPolicy")(fields) {
  static readonly strict = strict
  static readonly broad = broad
  static readonly unattended = unattended
  static readonly background = background

  // Decoding goes through here too: what has been resolved resolves to itself.
  // @effect-diagnostics-next-line overriddenSchemaConstructor:off
  constructor(input: RecoveryPolicyInput) {
    super(resolve(input))
  }
}

/** The route at an index; the primary when the index is out of range. */
export const routeAt = (policy: RecoveryPolicy, index: number): Route => policy.routes[index] ?? policy.routes[0]

export const isSameRoute = (left: RouteName, right: RouteName): boolean =>
  left.model === right.model && left.client === right.client

/** The policy of a request with tools: without the fallbacks that cannot call any. The primary stays. */
export const forTools = (policy: RecoveryPolicy): RecoveryPolicy => {
  const [primary, ...fallbacks] = policy.routes
  const able = fallbacks.filter((route) => route.tools)
  return able.length === fallbacks.length ? policy : new RecoveryPolicy({ ...policy, routes: [primary, ...able] })
}

/**
 * The policy of a background request: the background preset, with routes and budgets of the caller's policy. It has no
 * fallback and no raise, and is never longer than the caller's deadline.
 */
export const forBackground = (policy: RecoveryPolicy): RecoveryPolicy =>
  new RecoveryPolicy({
    ...background,
    deadline: Math.min(backgroundDeadline, policy.deadline ?? Infinity),
    routes: [policy.routes[0]],
    initialMaxTokens: policy.initialMaxTokens,
    escalatedMaxTokens: policy.escalatedMaxTokens,
    routeHealth: policy.routeHealth
  })
