/**
 * What is said of every field of a policy, once: what it is for, how a value reads, and the variable of the commands that
 * sets it. `holdfast config`, the variables and docs/configuration.md are made from this table; requests need none of it.
 */
import { spanText } from "../failure/wording.ts"
import { defaultContinuationPrompt, type PolicyFieldName, type PresetFields } from "./policyFields.ts"
import type { RouteHealthConfig } from "./RouteHealthConfig.ts"

/** `kind` says how a text is read into the field: a variable, a fault script. */
export interface FieldWords<T> {
  readonly kind: "span" | "count" | "other"
  /** What the field is for, in one line for the documents. */
  readonly about: string
  readonly words: (value: T) => string
  /** null = no variable sets it. */
  readonly variable: string | null
}

/** Any field that is neither a span nor a number a variable can set. */
const said = <T>(about: string, words: (value: T) => string) =>
  ({ kind: "other", variable: null, about, words }) as const

export const spanWords = (millis: number | null): string => (millis === null ? "none" : spanText(millis))

const ofSpan = (variable: string, about: string) => ({ kind: "span", variable, about, words: spanWords }) as const

const ofCount = <T>(variable: string, about: string, words: (value: T) => string) =>
  ({ kind: "count", variable, about, words }) as const

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

export const policyWords = {
  retry: said(
    "outcomes that are asked again; http429 and http529 look at the status alone",
    (classes) => listed(classes) || "nothing"
  ),
  shedOnOverload: said("whether the first overload ends the request, to make room for others (`shed: true`)", (shed) =>
    shed ? "gives up at the first overload" : "no"
  ),
  retryAfter: said(
    "how a hint is taken: `exact`, and a bad one is InvalidRetryAfterError; `atLeast`, never shortened, plus a spread",
    plain
  ),
  trustShouldRetry: said("whether `x-should-retry: true` may repeat what would not be repeated otherwise", yesNo),
  maxAttempts: ofCount(
    "HOLDFAST_MAX_ATTEMPTS",
    "requests of which all but one are transient retries; null is unlimited",
    (most) => (most === null ? "unlimited" : String(most))
  ),
  unreachableAfter: said(
    "tries of an address that has never answered, after which the request ends and names it",
    (tries) => (tries === null ? "never" : String(tries))
  ),
  backoff: said(
    "the wait before a retry without a hint: `base`, times `factor` each time, up to `cap`, plus a share up to `jitter`",
    backoffWords
  ),
  deadline: ofSpan("HOLDFAST_DEADLINE", "budget of time inside Recovery"),
  deadlinePer: said(
    "`turn`: one budget for all requests of a turn, tools do not count; `request`: per request, and progress of a stream moves it on",
    plain
  ),
  hardCap: ofSpan("HOLDFAST_HARD_CAP", "longest time of a request, whatever progress it makes"),
  resetCap: ofSpan("HOLDFAST_RESET_CAP", "longest wait for a known reset; none is no limit of its own"),
  attemptTimeout: ofSpan("HOLDFAST_ATTEMPT_TIMEOUT", "longest time of one request that is not a stream"),
  firstTokenTimeout: ofSpan(
    "HOLDFAST_FIRST_TOKEN_TIMEOUT",
    "streams: from sending to the first text, reasoning or tool call"
  ),
  idleTimeout: ofSpan("HOLDFAST_IDLE_TIMEOUT", "streams: longest time without a byte, comments count"),
  contentTimeout: ofSpan("HOLDFAST_CONTENT_TIMEOUT", "streams: longest time between two pieces of content"),
  heartbeat: ofSpan("HOLDFAST_HEARTBEAT", "how often a long wait or a long request is told of"),
  notices: said("whether a stream's consumer gets a Notice when a wait begins", yesNo),
  fallbackAfter: said(
    "outcomes of one class in a row after which the next route is asked; `gone`: no such model, a refused key, no credit",
    (counts) => listed(Object.entries(counts).map(([name, inARow]) => `${name} ${inARow}`)) || "never"
  ),
  fallbackScope: said(
    "the way back to the primary: with the next `turn`, or also when its route `health` allows",
    plain
  ),
  routeHealth: said("what all requests of a process know of a route (docs/fleet.md)", healthWords),
  initialMaxTokens: ofCount(
    "HOLDFAST_INITIAL_MAX_TOKENS",
    "output budget of a request; null sends none, and the server's own holds",
    (tokens) => (tokens === null ? "none" : plain(tokens))
  ),
  escalatedMaxTokens: ofCount(
    "HOLDFAST_ESCALATED_MAX_TOKENS",
    "output budget of the one raise after a cut answer",
    plain
  ),
  raise: said(
    "whether a cut answer is asked again with the raised budget; `ifTimeAllows`: if twice the old budget fits into the time",
    (raise) => (raise === "never" ? "never raised" : raise)
  ),
  maxContinuations: ofCount("HOLDFAST_MAX_CONTINUATIONS", "continuations of a cut answer", plain),
  answerLimits: said(
    "how much of one answer is read, in bytes after decompression; past it the answer is malformed",
    ({ replyBytes, eventBytes, errorBytes }) => `reply ${replyBytes} B, event ${eventBytes} B, error ${errorBytes} B`
  ),
  minContinuationGain: said(
    "`times` continuations in a row under `tokens` end it early",
    ({ tokens, times }) => `${times} in a row under ${tokens} tokens end it`
  ),
  continuationPrompt: said("the message a continuation ends with", (prompt) =>
    prompt === defaultContinuationPrompt ? "the default" : "your own"
  ),
  compaction: said(
    "an input that is too long: shortened `once` per request, keeping at least so many messages, or `off`",
    ({ mode, keepRecentMessages }) => `${mode}, keeps ${keepRecentMessages} messages`
  ),
  suspectOverflow: said(
    "whether a bare 400, 413 or 422 counts as too long while the estimate is at or over the window",
    yesNo
  ),
  onCut: said(
    "a stream that broke off: `restart`, `resume` from what was shown, `splice` a replay onto it, or `fail`",
    plain
  ),
  seamRepair: said(
    "longest overlap in characters that is dropped at the seam of a continuation; 0 is off",
    (characters) => (characters === 0 ? "off" : `up to ${characters} characters`)
  )
} satisfies { readonly [Name in PolicyFieldName]: FieldWords<PresetFields[Name]> }

/** A value of a field as words, in the documents and in `holdfast config`. */
export const wordsOf = <Name extends PolicyFieldName>(name: Name, value: PresetFields[Name]): string => {
  const words: (value: PresetFields[Name]) => string = policyWords[name].words as never
  return words(value)
}
