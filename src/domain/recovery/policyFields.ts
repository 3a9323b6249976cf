/**
 * Every field of a policy, once. The class, the presets, `holdfast config`, the variables of the commands, the fields a
 * fault script may change and docs/configuration.md are made from this table. A new field is a new entry here.
 */
import * as Schema from "effect/Schema"
import { answerLimits } from "../chat/AnswerLimits.ts"
import { spanText } from "../failure/wording.ts"
import { defaulted } from "./defaulted.ts"
import { RetryClass } from "./OutcomeClass.ts"
import { count, field, presetNames, presetValue, span, type PresetName } from "./PolicyField.ts"
import { Route } from "./Route.ts"
import { RouteHealthConfig } from "./RouteHealthConfig.ts"
import { Span } from "./Span.ts"

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

const plain = (value: string | number): string => String(value)
const yesNo = (value: boolean): string => (value ? "yes" : "no")
const listed = (values: ReadonlyArray<string>): string => values.join(", ")

const backoffWords = ({
  base,
  factor,
  cap,
  jitter
}: { readonly [K in "base" | "factor" | "cap" | "jitter"]: number }) =>
  `${spanText(base)} x${factor}, at most ${spanText(cap)}, +0..${jitter * 100} %`

const healthWords = (health: RouteHealthConfig | null): string =>
  health === null
    ? "off"
    : `opens on ${listed(health.counts)}; cool-down ${spanText(health.coolDown)}, at most ${spanText(health.coolDownMax)}`

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
    about: "outcomes that are asked again; http429 and http529 look at the status alone",
    presets: {
      strict: ["http429", "http529"],
      broad: ["rateLimit", "overload", "serverError", "silent", "cut", "connection", "empty", "sample"]
    },
    words: (classes) => listed(classes) || "nothing"
  }),
  shedOnOverload: field(Schema.Boolean, {
    about: "whether the first overload ends the request, to make room for others (`shed: true`)",
    presets: { strict: false, background: true },
    words: (shed) => (shed ? "gives up at the first overload" : "no")
  }),
  retryAfter: field(Schema.Literals(["exact", "atLeast"]), {
    about:
      "how a hint is taken: `exact`, and a bad one is InvalidRetryAfterError; `atLeast`, never shortened, plus a spread",
    presets: { strict: "exact", broad: "atLeast" },
    words: plain
  }),
  trustShouldRetry: field(Schema.Boolean, {
    about: "whether `x-should-retry: true` may repeat what would not be repeated otherwise",
    presets: { strict: false, broad: true },
    words: yesNo
  }),
  maxAttempts: count(Schema.NullOr(Positive), "HOLDFAST_MAX_ATTEMPTS", {
    about: "requests of which all but one are transient retries; null is unlimited",
    presets: { strict: 10, broad: 20, unattended: null, background: 3 },
    words: (most) => (most === null ? "unlimited" : String(most))
  }),
  unreachableAfter: field(Schema.NullOr(Positive), {
    about: "tries of an address that has never answered, after which the request ends and names it",
    presets: { strict: null, broad: 3, unattended: null },
    words: (tries) => (tries === null ? "never" : String(tries))
  }),
  backoff: field(
    group({
      base: defaulted(Span, 500),
      factor: defaulted(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1)), 2),
      cap: defaulted(Span, seconds(32)),
      jitter: defaulted(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 })), 0.25)
    }),
    {
      about:
        "the wait before a retry without a hint: `base`, times `factor` each time, up to `cap`, plus a share up to `jitter`",
      presets: {
        strict: { base: 500, factor: 2, cap: seconds(32), jitter: 0.25 },
        unattended: { base: 500, factor: 2, cap: minutes(5), jitter: 0.25 }
      },
      words: backoffWords
    }
  ),
  deadline: span("HOLDFAST_DEADLINE", {
    about: "budget of time inside Recovery",
    presets: { strict: seconds(300), unattended: null, background: seconds(60) }
  }),
  deadlinePer: field(Schema.Literals(["turn", "request"]), {
    about:
      "`turn`: one budget for all requests of a turn, tools do not count; `request`: per request, and progress of a stream moves it on",
    presets: { strict: "turn", broad: "request" },
    words: plain
  }),
  hardCap: span("HOLDFAST_HARD_CAP", {
    about: "longest time of a request, whatever progress it makes",
    presets: { strict: null, broad: minutes(30), unattended: null }
  }),
  resetCap: span("HOLDFAST_RESET_CAP", {
    about: "longest wait for a known reset; none is no limit of its own",
    presets: { strict: null, unattended: minutes(360) }
  }),
  attemptTimeout: span("HOLDFAST_ATTEMPT_TIMEOUT", {
    about: "longest time of one request that is not a stream",
    presets: { strict: null, broad: minutes(10), background: seconds(60) }
  }),
  firstTokenTimeout: span("HOLDFAST_FIRST_TOKEN_TIMEOUT", {
    about: "streams: from sending to the first text, reasoning or tool call",
    presets: { strict: null, broad: seconds(60) }
  }),
  idleTimeout: span("HOLDFAST_IDLE_TIMEOUT", {
    about: "streams: longest time without a byte, comments count",
    presets: { strict: null, broad: seconds(30) }
  }),
  contentTimeout: span("HOLDFAST_CONTENT_TIMEOUT", {
    about: "streams: longest time between two pieces of content",
    presets: { strict: null, broad: seconds(120) }
  }),
  heartbeat: span("HOLDFAST_HEARTBEAT", {
    about: "how often a long wait or a long request is told of",
    presets: { strict: null, unattended: seconds(30) }
  }),
  notices: field(Schema.Boolean, {
    about: "whether a stream's consumer gets a Notice when a wait begins",
    presets: { strict: false, broad: true, background: false },
    words: yesNo
  }),
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
    {
      about:
        "outcomes of one class in a row after which the next route is asked; `gone`: no such model, a refused key, no credit",
      presets: { strict: { overload: 3 }, broad: { overload: 3, serverError: 3, gone: 1 }, background: {} },
      words: (counts) => listed(Object.entries(counts).map(([name, inARow]) => `${name} ${inARow}`)) || "never"
    }
  ),
  fallbackScope: field(Schema.Literals(["turn", "health"]), {
    about: "the way back to the primary: with the next `turn`, or also when its route `health` allows",
    presets: { strict: "turn", broad: "health" },
    words: plain
  }),
  routeHealth: field(Schema.NullOr(RouteHealthConfig.codec), {
    about: "what all requests of a process know of a route (docs/fleet.md)",
    presets: { strict: null, broad: RouteHealthConfig.defaults },
    words: healthWords
  }),
  initialMaxTokens: count(Schema.NullOr(Positive), "HOLDFAST_INITIAL_MAX_TOKENS", {
    about: "output budget of a request; null sends none, and the server's own holds",
    presets: { strict: 8_000 },
    words: (tokens) => (tokens === null ? "none" : plain(tokens))
  }),
  escalatedMaxTokens: count(Positive, "HOLDFAST_ESCALATED_MAX_TOKENS", {
    about: "output budget of the one raise after a cut answer",
    presets: { strict: 64_000 },
    words: plain
  }),
  raise: field(Schema.Literals(["always", "ifTimeAllows", "never"]), {
    about:
      "whether a cut answer is asked again with the raised budget; `ifTimeAllows`: if twice the old budget fits into the time",
    presets: { strict: "always", broad: "ifTimeAllows", background: "never" },
    words: (raise) => (raise === "never" ? "never raised" : raise)
  }),
  maxContinuations: count(Count, "HOLDFAST_MAX_CONTINUATIONS", {
    about: "continuations of a cut answer",
    presets: { strict: 3 },
    words: plain
  }),
  answerLimits: field(
    group({
      replyBytes: defaulted(Positive, answerLimits.replyBytes),
      eventBytes: defaulted(Positive, answerLimits.eventBytes),
      errorBytes: defaulted(Positive, answerLimits.errorBytes)
    }),
    {
      about: "how much of one answer is read, in bytes after decompression; past it the answer is malformed",
      presets: { strict: { ...answerLimits } },
      words: ({ replyBytes, eventBytes, errorBytes }) =>
        `reply ${replyBytes} B, event ${eventBytes} B, error ${errorBytes} B`
    }
  ),
  minContinuationGain: field(group({ tokens: defaulted(Count, 500), times: defaulted(Positive, 3) }), {
    about: "`times` continuations in a row under `tokens` end it early",
    presets: { strict: { tokens: 500, times: 3 } },
    words: ({ tokens, times }) => `${times} in a row under ${tokens} tokens end it`
  }),
  continuationPrompt: field(Schema.NonEmptyString, {
    about: "the message a continuation ends with",
    presets: { strict: defaultContinuationPrompt },
    words: (prompt) => (prompt === defaultContinuationPrompt ? "the default" : "your own")
  }),
  compaction: field(
    group({ mode: defaulted(Schema.Literals(["once", "off"]), "once"), keepRecentMessages: defaulted(Positive, 4) }),
    {
      about: "an input that is too long: shortened `once` per request, keeping at least so many messages, or `off`",
      presets: { strict: { mode: "once", keepRecentMessages: 4 }, background: { mode: "off", keepRecentMessages: 4 } },
      words: ({ mode, keepRecentMessages }) => `${mode}, keeps ${keepRecentMessages} messages`
    }
  ),
  suspectOverflow: field(Schema.Boolean, {
    about: "whether a bare 400, 413 or 422 counts as too long while the estimate is at or over the window",
    presets: { strict: false },
    words: yesNo
  }),
  onCut: field(Schema.Literals(["restart", "resume", "splice", "fail"]), {
    about: "a stream that broke off: `restart`, `resume` from what was shown, `splice` a replay onto it, or `fail`",
    presets: { strict: "restart", background: "fail" },
    words: plain
  }),
  seamRepair: field(Count, {
    about: "longest overlap in characters that is dropped at the seam of a continuation; 0 is off",
    presets: { strict: 0 },
    words: (characters) => (characters === 0 ? "off" : `up to ${characters} characters`)
  })
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

/** A value of a field as words, in the documents and in `holdfast config`. */
export const wordsOf = <Name extends PolicyFieldName>(name: Name, value: PresetFields[Name]): string => {
  const words: (value: PresetFields[Name]) => string = policyFields[name].words as never
  return words(value)
}
