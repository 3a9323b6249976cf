/**
 * From an answer to a verdict. Reads structure only: status, allowed headers, codes and types at fixed places; never a
 * message text. Order: error inside a 200, profile, global table, status class.
 */
import { inBandStatus, isLegal, kindOfStatus, type FaultKind } from "../failure/FaultKind.ts"
import { isObject, type Json } from "../chat/json.ts"
import type { FinishReason } from "../chat/ModelReply.ts"
import type { CodeRow, HintSource, Pointer, ProviderProfile } from "./ProviderProfile.ts"
import { type HintReading } from "../failure/Hint.ts"
import { firstEpochMillis, firstEpochSeconds, httpDate, parseHint } from "./RetryAfter.ts"

export interface Answer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Parsed JSON, or the raw text when it is not JSON. */
  readonly body: unknown
}

export interface Verdict {
  readonly kind: FaultKind
  /** 200 for a failure inside a 200. */
  readonly status: number
  readonly code: string | null
  readonly inBand: boolean
  readonly hints: ReadonlyArray<HintReading>
  readonly shouldRetry: boolean | null
  /** For people; no decision reads it. */
  readonly providerMessage: string | null
  readonly requestId: string | null
  /** Epoch milliseconds when a used-up quota is full again; null = not said. */
  readonly resetAt: number | null
}

/** All values at a place of a body; `*` stands for every element of an array. */
const valuesAt = (body: unknown, pointer: Pointer): ReadonlyArray<unknown> => {
  let values: ReadonlyArray<unknown> = [body]
  for (const key of pointer.split("/").slice(1))
    values = values.flatMap((value): ReadonlyArray<unknown> => {
      if (Array.isArray(value)) return key === "*" ? value : [value[Number(key)]]
      return isObject(value) && Object.hasOwn(value, key) ? [value[key]] : []
    })
  return values.filter((value) => value !== undefined)
}

/** The first value at a place of a body; undefined when there is none. */
export const valueAt = (body: unknown, pointer: Pointer): unknown => valuesAt(body, pointer)[0]

/** Values at a place of an answer, which may be a header. */
const readAt = (answer: Answer, body: unknown, place: Pointer): ReadonlyArray<unknown> => {
  if (!place.startsWith("header:")) return valuesAt(body, place)
  const value = answer.headers[place.slice("header:".length)]
  return value === undefined ? [] : [value.split(":")[0]]
}

/** Codes and types, flat or one level deeper, in order of authority. */
const codePlaces: ReadonlyArray<Pointer> = [
  "/error/code",
  "/error/type",
  "/error/error/code",
  "/error/error/type",
  "/code",
  "/type",
  "/error/status"
]

/** An array body holds its error in the first element. */
const unwrap = (body: unknown): unknown => (Array.isArray(body) ? body[0] : body)

const isCode = (value: unknown): value is string | number => typeof value === "string" || typeof value === "number"

const placesOf = (profile: ProviderProfile): ReadonlyArray<Pointer> => [...profile.codeAt, ...codePlaces]

type Code = string | number

const codesOf = (profile: ProviderProfile, answer: Answer, body: unknown): ReadonlyArray<Code> =>
  placesOf(profile)
    .flatMap((place) => readAt(answer, body, place))
    .filter(isCode)

/** Exact words that mean the same everywhere. Overflow words count on a 400 and inside a 200. */
const globalTable: Readonly<Record<string, FaultKind>> = {
  context_length_exceeded: "prompt_too_long",
  max_context_window: "prompt_too_long",
  prompt_is_too_long: "prompt_too_long",
  prompt_too_long: "prompt_too_long",
  model_max_prompt_tokens_exceeded: "prompt_too_long",
  exceed_context_size_error: "prompt_too_long",
  insufficient_quota: "quota_exhausted",
  credit_balance_exhausted: "quota_exhausted",
  project_spend_limit_exceeded: "quota_exhausted",
  organization_spend_limit_exceeded: "quota_exhausted",
  organization_usage_limit_exceeded: "quota_exhausted",
  exceeded_current_quota_error: "quota_exhausted",
  overloaded_error: "overloaded",
  server_is_overloaded: "overloaded",
  engine_overloaded_error: "overloaded",
  content_filter: "content_filtered"
}

/** Some servers write numbers as texts, or the reverse. */
const isSame = (value: unknown, known: unknown): boolean =>
  value === known || (isCode(value) && isCode(known) && String(value) === String(known))

const valueMatches = (row: CodeRow, value: unknown): boolean => {
  switch (row.match) {
    case "present":
      return value !== null && value !== undefined
    case "prefix":
      return typeof value === "string" && value.startsWith(String(row.value))
    case "part":
      return typeof value === "string" && value.includes(String(row.value))
    default:
      return isSame(value, row.value)
  }
}

const rowMatches = (row: CodeRow, answer: Answer, body: unknown, codes: ReadonlyArray<Code>): boolean =>
  (row.status === null || row.status === answer.status) &&
  isLegal(row.kind, answer.status) &&
  (row.at === null ? codes : readAt(answer, body, row.at)).some((value) => valueMatches(row, value))

const globalKind = (status: number, codes: ReadonlyArray<string | number>): FaultKind | null => {
  for (const code of codes) {
    const kind = typeof code === "string" && Object.hasOwn(globalTable, code) ? globalTable[code] : undefined
    if (kind === undefined || !isLegal(kind, status)) continue
    if (kind === "prompt_too_long" && status !== 400 && status !== inBandStatus) continue
    return kind
  }
  return null
}

/** Inside a 200 a numeric code is read like a status. */
const numericKind = (codes: ReadonlyArray<string | number>): FaultKind | null => {
  for (const code of codes) {
    const number = typeof code === "number" ? code : /^[45]\d\d$/.test(code) ? Number(code) : 0
    if (Number.isInteger(number) && number >= 400 && number <= 599) {
      const kind = kindOfStatus(number)
      return isLegal(kind, inBandStatus) ? kind : null
    }
  }
  return null
}

/** The server itself says that the prompt has more tokens than the window. */
const showsOverflow = (profile: ProviderProfile, body: unknown): boolean => {
  if (profile.overflowEvidence === null) return false
  const prompt = valueAt(body, profile.overflowEvidence.prompt)
  const window = valueAt(body, profile.overflowEvidence.window)
  return typeof prompt === "number" && typeof window === "number" && prompt > window
}

/** An error inside a 200 whose code nobody knows is an answer that cannot be read: it may be a page of something else. */
const kindOf = (profile: ProviderProfile, answer: Answer, body: unknown): FaultKind => {
  const { status } = answer
  const codes = codesOf(profile, answer, body)
  for (const row of profile.rows) if (rowMatches(row, answer, body, codes)) return row.kind
  if (showsOverflow(profile, body) && isLegal("prompt_too_long", status)) return "prompt_too_long"
  const known = globalKind(status, codes)
  if (known !== null) return known
  if (status === inBandStatus) return numericKind(codes) ?? "malformed_response"
  const own = Object.hasOwn(profile.statuses, status) ? profile.statuses[status] : undefined
  return own !== undefined && isLegal(own, status) ? own : kindOfStatus(status)
}

/** Words that only say that something failed. */
const emptyWords: ReadonlySet<string> = new Set(["error", "invalid_request_error", ""])

/** A word, not a sentence: what stands at a code's place may be prose, a prompt or an address with a key in it. */
const codeShape = /^[\w.:/#+-]{1,80}$/

/** Sentences only where a profile knows them as codes. */
const isTold = (profile: ProviderProfile, code: Code): boolean =>
  typeof code === "number" || codeShape.test(code) || profile.rows.some(({ value }) => value === code)

const codeOf = (profile: ProviderProfile, all: ReadonlyArray<Code>): string | null => {
  const codes = all.filter((code) => isTold(profile, code))
  const word = codes.find((code) => typeof code === "string" && !emptyWords.has(code) && !/^\d+$/.test(code))
  const first = word ?? codes.find((code) => code !== "error" && code !== "")
  return first === undefined ? null : String(first)
}

/** Codes, without case and punctuation, that name a refused request and say no more than its status. */
const statusWords: ReadonlySet<string> = new Set([
  "",
  "error",
  "apierror",
  "badrequest",
  "badrequesterror",
  "invalidargument",
  "invalidrequest",
  "invalidrequesterror",
  "requesttoolarge",
  "unprocessableentity",
  "unprocessableentityerror"
])

/** Whether a code tells nothing beyond its status: the answer is bare, whatever a wire calls every refused request. */
export const isBare = (code: string | null, status: number): boolean =>
  code === null || code === String(status) || statusWords.has(code.toLowerCase().replace(/[^a-z]/g, ""))

const messagePlaces: ReadonlyArray<Pointer> = [
  "/error/message",
  "/error/error/message",
  "/message",
  "/error",
  "/detail",
  "/detail/message",
  "/errors/0/message",
  "/base_resp/status_msg"
]

const messageOf = (body: unknown): string | null => {
  for (const place of messagePlaces) {
    const text = valueAt(body, place)
    if (typeof text === "string" && text !== "") return text
  }
  return null
}

const standardHints: ReadonlyArray<HintSource> = [
  { header: "retry-after-ms", pointer: null, format: "milliseconds", exhausted: null },
  { header: "x-ms-retry-after-ms", pointer: null, format: "milliseconds", exhausted: null },
  { header: "retry-after", pointer: null, format: "retry-after", exhausted: null }
]

const hintName = (source: HintSource, raw: string): string => {
  const name = source.label ?? source.header ?? `body ${source.pointer ?? ""}`
  // A bare number in a reset header: say how it was understood.
  if (source.format !== "reset" || !/^\d+$/.test(raw.trim())) return name
  const number = Number(raw)
  return number < firstEpochSeconds ? name : `${name} (epoch ${number < firstEpochMillis ? "seconds" : "milliseconds"})`
}

const readHint = (answer: Answer, body: unknown, source: HintSource): ReadonlyArray<HintReading> => {
  const raw = source.header === null ? valueAt(body, source.pointer ?? "") : answer.headers[source.header]
  if (raw === undefined || raw === null || typeof raw === "object") return []
  const date = answer.headers["date"]
  const name = hintName(source, String(raw))
  const value = parseHint(source.format, String(raw))
  switch (value._tag) {
    case "Delay":
      return [{ _tag: "Delay", source: name, millis: value.millis }]
    case "At":
      return [
        {
          _tag: "At",
          source: name,
          epochMillis: value.epochMillis,
          serverEpochMillis: date === undefined ? null : httpDate(date)
        }
      ]
    case "Invalid":
      return [{ _tag: "Invalid", source: name }]
  }
}

/**
 * Which of the profile's sources count. A reset header stands on every answer of some providers, so it counts on a limit
 * only, and only for a window that is used up: its remaining header is 0, or the code names it, or no other is there.
 */
const countingSources = (
  profile: ProviderProfile,
  answer: Answer,
  kind: FaultKind,
  codes: ReadonlyArray<Code>
): ReadonlyArray<HintSource> => {
  const isLimit = kind === "rate_limited" || kind === "quota_exhausted" || answer.status === 429
  const resets = profile.hints.filter(({ header }) => header !== null && answer.headers[header] !== undefined)
  const used = resets.filter(
    ({ exhausted, window }) =>
      exhausted === null || answer.headers[exhausted] === "0" || (window !== undefined && codes.includes(window))
  )
  const [only] = resets
  const lone = resets.length === 1 && only !== undefined ? [only] : []
  return [...(isLimit ? (used.length > 0 ? used : lone) : []), ...profile.hints.filter(({ header }) => header === null)]
}

/** Hints in order of authority: retry-after-ms, Retry-After, the profile's reset headers, the body. */
const hintsOf = (
  profile: ProviderProfile,
  answer: Answer,
  body: unknown,
  kind: FaultKind,
  codes: ReadonlyArray<Code>
): ReadonlyArray<HintReading> =>
  [...standardHints, ...countingSources(profile, answer, kind, codes)].flatMap((source) =>
    readHint(answer, body, source)
  )

const shouldRetryOf = (answer: Answer): boolean | null => {
  const value = answer.headers["x-should-retry"]
  return value === "true" ? true : value === "false" ? false : null
}

const requestIdOf = (answer: Answer): string | null =>
  answer.headers["x-request-id"] ??
  answer.headers["request-id"] ??
  answer.headers["apim-request-id"] ??
  answer.headers["x-amzn-requestid"] ??
  null

/** A quota that names the instant of its reset. */
const resetAtOf = (kind: FaultKind, hints: ReadonlyArray<HintReading>): number | null =>
  kind === "quota_exhausted" ? (hints.find((hint) => hint._tag === "At")?.epochMillis ?? null) : null

const verdictOf = (profile: ProviderProfile, answer: Answer, body: unknown, known?: FaultKind): Verdict => {
  const codes = codesOf(profile, answer, body)
  const kind = known ?? kindOf(profile, answer, body)
  const hints = hintsOf(profile, answer, body, kind, codes)
  return {
    kind,
    status: answer.status,
    code: codeOf(profile, codes),
    inBand: answer.status === inBandStatus,
    hints,
    shouldRetry: shouldRetryOf(answer),
    providerMessage: messageOf(body),
    requestId: requestIdOf(answer),
    resetAt: resetAtOf(kind, hints)
  }
}

/** The verdict on an answer with a status outside 200 to 299. */
export const classifyAnswer = (profile: ProviderProfile, answer: Answer): Verdict =>
  verdictOf(profile, answer, unwrap(answer.body))

const hasError = (body: Json): boolean =>
  isObject(body["error"]) ||
  (typeof body["error"] === "string" && body["error"] !== "") ||
  body["object"] === "error" ||
  body["type"] === "error"

/** An error inside a 200, or inside one chunk of a stream (also inside a choice); null when there is none. */
export const inBandFault = (profile: ProviderProfile, answer: Answer): Verdict | null => {
  const body = unwrap(answer.body)
  if (!isObject(body)) return null
  const inBand: Answer = { ...answer, status: inBandStatus }
  if (hasError(body)) return verdictOf(profile, inBand, body)
  for (const { at, unless } of profile.inBandAt)
    if (valuesAt(body, at).some((value) => value !== null && value !== "" && !isSame(value, unless))) {
      const verdict = verdictOf(profile, inBand, body)
      return verdict.kind === "malformed_response" ? verdictOf(profile, inBand, body, "server_error") : verdict
    }
  const choice = valueAt(body, "/choices/0")
  if (!isObject(choice)) return null
  if (isObject(choice["error"])) return verdictOf(profile, inBand, choice)
  const reason = choice["finish_reason"]
  const kind = typeof reason === "string" ? finishFaultOf(profile, reason) : null
  return kind === null || typeof reason !== "string"
    ? null
    : { ...verdictOf(profile, inBand, body, kind), code: reason }
}

/** The failure that a finish reason reports; null when it reports none. */
export const finishFaultOf = (profile: ProviderProfile, raw: string): FaultKind | null =>
  (Object.hasOwn(profile.finishFaults, raw) ? profile.finishFaults[raw] : undefined) ?? null

const finishReasons: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool_calls",
  function_call: "tool_calls",
  content_filter: "content_filter"
}

/** null = not known to the profile: the reply is malformed. */
export const finishReasonOf = (profile: ProviderProfile, raw: string): FinishReason | null =>
  (Object.hasOwn(profile.finishReasons, raw) ? profile.finishReasons[raw] : undefined) ??
  (Object.hasOwn(finishReasons, raw) ? finishReasons[raw] : undefined) ??
  null
