/**
 * Every field of a policy, once: what may be written and what is kept, and the value of every preset. The class, the presets
 * and the fields a fault script may change are made from this table. What is said of a field stands in policyWords.ts, so
 * that a program that only sends requests carries no documents.
 */
import * as Schema from "effect/Schema"
import { answerLimits } from "../chat/AnswerLimits.ts"
import { defaulted } from "./defaulted.ts"
import { RetryClass } from "./OutcomeClass.ts"
import { field, presetNames, presetValue, type PresetName } from "./PolicyField.ts"
import { Route } from "./Route.ts"
import { RouteHealthConfig } from "./RouteHealthConfig.ts"
import { Span, SpanOrNone } from "./Span.ts"

const Positive = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))
const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** Fields with fields of their own. */
const group = <const F extends Schema.Struct.Fields>(fields: F) =>
  Schema.Struct(fields).annotate({ message: "must be an object of fields" })

/** The prompt a continuation ends with. */
export const defaultContinuationPrompt =
  "Resume exactly where the text stopped, even in mid-sentence. Repeat nothing, apologise for nothing, sum up nothing. If much is left, go on in smaller pieces."

const seconds = (n: number): number => n * 1000
const minutes = (n: number): number => n * 60_000

/** `overload`, `serverError` ...: how many in a row; a class that is absent never leads to a fallback. */
const after = Schema.optionalKey(Positive)

/** What is gone does not come back for being asked again. */
const atOnce = Schema.optionalKey(
  Schema.Int.check(
    Schema.makeFilter((value: number) => value === 1, { message: "must be 1: what is gone is left at once" })
  )
)

export const policyFields = {
  retry: field(Schema.Array(RetryClass), {
    strict: ["http429", "http529"],
    broad: ["rateLimit", "overload", "serverError", "silent", "cut", "connection", "empty", "sample"]
  }),
  shedOnOverload: field(Schema.Boolean, { strict: false, background: true }),
  retryAfter: field(Schema.Literals(["exact", "atLeast"]), { strict: "exact", broad: "atLeast" }),
  trustShouldRetry: field(Schema.Boolean, { strict: false, broad: true }),
  maxAttempts: field(Schema.NullOr(Positive), { strict: 10, broad: 20, unattended: null, background: 3 }),
  unreachableAfter: field(Schema.NullOr(Positive), { strict: null, broad: 3, unattended: null }),
  backoff: field(
    group({
      base: defaulted(Span, 500),
      factor: defaulted(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1)), 2),
      cap: defaulted(Span, seconds(32)),
      jitter: defaulted(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 })), 0.25)
    }),
    {
      strict: { base: 500, factor: 2, cap: seconds(32), jitter: 0.25 },
      unattended: { base: 500, factor: 2, cap: minutes(5), jitter: 0.25 }
    }
  ),
  deadline: field(SpanOrNone, { strict: seconds(300), unattended: null, background: seconds(60) }),
  deadlinePer: field(Schema.Literals(["turn", "request"]), { strict: "turn", broad: "request" }),
  hardCap: field(SpanOrNone, { strict: null, broad: minutes(30), unattended: null }),
  resetCap: field(SpanOrNone, { strict: null, unattended: minutes(360) }),
  attemptTimeout: field(SpanOrNone, { strict: null, broad: minutes(10), background: seconds(60) }),
  firstTokenTimeout: field(SpanOrNone, { strict: null, broad: seconds(60) }),
  idleTimeout: field(SpanOrNone, { strict: null, broad: seconds(30) }),
  contentTimeout: field(SpanOrNone, { strict: null, broad: seconds(120) }),
  heartbeat: field(SpanOrNone, { strict: null, unattended: seconds(30) }),
  notices: field(Schema.Boolean, { strict: false, broad: true, background: false }),
  fallbackAfter: field(
    group({
      overload: after,
      serverError: after,
      silent: after,
      cut: after,
      connection: after,
      rateLimit: after,
      overflow: after,
      gone: atOnce
    }),
    { strict: { overload: 3 }, broad: { overload: 3, serverError: 3, gone: 1 }, background: {} }
  ),
  fallbackScope: field(Schema.Literals(["turn", "health"]), { strict: "turn", broad: "health" }),
  routeHealth: field(Schema.NullOr(RouteHealthConfig.codec), { strict: null, broad: RouteHealthConfig.defaults }),
  initialMaxTokens: field(Schema.NullOr(Positive), { strict: 8_000 }),
  escalatedMaxTokens: field(Positive, { strict: 64_000 }),
  raise: field(Schema.Literals(["always", "ifTimeAllows", "never"]), {
    strict: "always",
    broad: "ifTimeAllows",
    background: "never"
  }),
  maxContinuations: field(Count, { strict: 3 }),
  answerLimits: field(
    group({
      replyBytes: defaulted(Positive, answerLimits.replyBytes),
      eventBytes: defaulted(Positive, answerLimits.eventBytes),
      errorBytes: defaulted(Positive, answerLimits.errorBytes)
    }),
    { strict: { ...answerLimits } }
  ),
  minContinuationGain: field(group({ tokens: defaulted(Count, 500), times: defaulted(Positive, 3) }), {
    strict: { tokens: 500, times: 3 }
  }),
  continuationPrompt: field(Schema.NonEmptyString, { strict: defaultContinuationPrompt }),
  compaction: field(
    group({ mode: defaulted(Schema.Literals(["once", "off"]), "once"), keepRecentMessages: defaulted(Positive, 4) }),
    { strict: { mode: "once", keepRecentMessages: 4 }, background: { mode: "off", keepRecentMessages: 4 } }
  ),
  suspectOverflow: field(Schema.Boolean, { strict: false }),
  onCut: field(Schema.Literals(["restart", "resume", "splice", "fail"]), { strict: "restart", background: "fail" }),
  seamRepair: field(Count, { strict: 0 })
} as const

type Fields = typeof policyFields
export type PolicyFieldName = keyof Fields

/** Names in the order of the table. */
export const policyFieldNames = Object.keys(policyFields) as ReadonlyArray<PolicyFieldName>

/** What is kept of each field. */
type Kept = { readonly [Name in PolicyFieldName]: Schema.toType<Fields[Name]["codec"]> }
type Codecs = { readonly [Name in PolicyFieldName]: Fields[Name]["codec"] }

const mapped = <A>(map: (name: PolicyFieldName) => A): Readonly<Record<PolicyFieldName, A>> =>
  Object.fromEntries(policyFieldNames.map((name) => [name, map(name)])) as Record<PolicyFieldName, A>

/** From what may be written to what is kept. */
export const policyCodec = Schema.Struct({
  routes: Schema.NonEmptyArray(Route.codec),
  ...(mapped((name) => policyFields[name].codec) as Codecs)
})

/** The fields of the class. */
export const keptFields = {
  routes: Schema.NonEmptyArray(Route),
  ...(mapped((name) => Schema.toType<Schema.Constraint>(policyFields[name].codec)) as unknown as Kept)
}

/** A policy without its routes. */
export type PresetFields = { readonly [Name in PolicyFieldName]: Fields[Name]["codec"]["Type"] }

const presetOf = (name: PresetName): PresetFields =>
  mapped((each) => presetValue<unknown>(policyFields[each].presets, name)) as PresetFields

/** Values to spread, by name. */
export const presets = Object.fromEntries(presetNames.map((name) => [name, presetOf(name)])) as Readonly<
  Record<PresetName, PresetFields>
>
