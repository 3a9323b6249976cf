/**
 * What a request may cost in attempts, time and tokens. Presets are values to spread, not flags:
 *
 *     new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "large" }, { model: "small", client: "backup" }] })
 *
 * Durations are given as any `Duration.Input` ("300 seconds", a number of milliseconds) and kept as milliseconds.
 * Everything is checked at construction; a bad value throws a ConfigurationError that names the field. The fields
 * themselves are the table of policyFields.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigurationError } from "../failure/ConfigurationError.ts"
import { schemaFault } from "../failure/schemaFault.ts"
import { keptFields, policyCodec, presets } from "./policyFields.ts"
import { isSameRoute, type Route, type RouteInput } from "./Route.ts"

export { OutcomeClass, RetryClass } from "./OutcomeClass.ts"
export type { PresetName } from "./PolicyField.ts"
export { defaultContinuationPrompt, presets } from "./policyFields.ts"
export { isSameRoute, Route, type RouteInput, type RouteName } from "./Route.ts"

type Resolved = typeof policyCodec.Type
type Written = Omit<typeof policyCodec.Encoded, "routes">

/** What a caller may write: durations as any input, everything but `routes` defaulted to strict. */
export type RecoveryPolicyInput = { readonly routes: ReadonlyArray<RouteInput> } & Partial<Written>

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

const decode = Schema.decodeUnknownResult(policyCodec, { onExcessProperty: "error" })

const isFields = (input: unknown): boolean => typeof input === "object" && input !== null && !Array.isArray(input)

const resolve = (input: RecoveryPolicyInput): Resolved => {
  if (!isFields(input)) throw bad("policy", "must be an object of fields")
  if (!Array.isArray(input.routes) || input.routes.length === 0) throw bad("routes", "needs at least one route")
  for (const key of Object.keys(input))
    if (!Object.hasOwn(keptFields, key)) throw bad(key, "is not a field of a policy")
  const decoded = decode({ ...presets.strict, ...input })
  if (Result.isFailure(decoded)) {
    const { field, reason } = schemaFault(decoded.failure)
    throw bad(field === "" ? "policy" : field, reason)
  }
  return crossCheck(decoded.success)
}

const crossCheck = (policy: Resolved): Resolved => {
  const [primary, ...fallbacks] = policy.routes
  if (policy.initialMaxTokens !== null && policy.initialMaxTokens > policy.escalatedMaxTokens)
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
  if (primary.outputLimit !== null && policy.initialMaxTokens !== null && policy.initialMaxTokens > primary.outputLimit)
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
export class RecoveryPolicy extends Schema.Class<RecoveryPolicy>("holdfast/RecoveryPolicy")(keptFields) {
  static readonly strict = presets.strict
  static readonly broad = presets.broad
  static readonly unattended = presets.unattended
  static readonly background = presets.background

  // Decoding goes through here too: what has been resolved resolves to itself.
  // @effect-diagnostics-next-line overriddenSchemaConstructor:off
  constructor(input: RecoveryPolicyInput) {
    super(resolve(input))
  }
}

/** The route at an index; the primary when the index is out of range. */
export const routeAt = (policy: RecoveryPolicy, index: number): Route => policy.routes[index] ?? policy.routes[0]

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
    ...presets.background,
    deadline: Math.min(presets.background.deadline ?? Infinity, policy.deadline ?? Infinity),
    routes: [policy.routes[0]],
    initialMaxTokens: policy.initialMaxTokens,
    escalatedMaxTokens: policy.escalatedMaxTokens,
    routeHealth: policy.routeHealth
  })
