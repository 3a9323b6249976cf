/**
 * From an answer to a verdict. Reads structure only: status, allowed headers, codes and types at fixed places; never a
 * message text. Order: error inside a 200, profile, global table, status class.
 */
import { inBandStatus, isLegal, kindOfStatus, type FaultKind } from "./FaultKind.ts"
import type { FinishReason } from "./ModelReply.ts"
import type { CodeRow, HintSource, Pointer, ProviderProfile } from "./ProviderProfile.ts"
import { httpDate, parseHint, type HintReading } from "./RetryAfter.ts"

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
}

type Json = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

/** The value at a place of a body; undefined when there is none. */
export const valueAt = (body: unknown, pointer: Pointer): unknown => {
  let value: unknown = body
  for (const key of pointer.split("/").slice(1)) {
    if (Array.isArray(value)) value = value[Number(key)]
    else if (isObject(value)) value = value[key]
    else return undefined
  }
  return value
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

const codesOf = (profile: ProviderProfile, body: unknown): ReadonlyArray<string | number> =>
  placesOf(profile)
    .map((place) => valueAt(body, place))
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

const rowMatches = (row: CodeRow, status: number, body: unknown, codes: ReadonlyArray<string | number>): boolean =>
  (row.status === null || row.status === status) &&
  isLegal(row.kind, status) &&
  (row.at === null ? codes.some((code) => code === row.value) : valueAt(body, row.at) === row.value)

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
    if (number >= 400 && number <= 599) {
      const kind = kindOfStatus(number)
      return isLegal(kind, inBandStatus) ? kind : null
    }
  }
  return null
}

const kindOf = (profile: ProviderProfile, status: number, body: unknown): FaultKind => {
  const codes = codesOf(profile, body)
  for (const row of profile.rows) if (rowMatches(row, status, body, codes)) return row.kind
  const known = globalKind(status, codes)
  if (known !== null) return known
  return status === inBandStatus ? (numericKind(codes) ?? "server_error") : kindOfStatus(status)
}

const codeOf = (profile: ProviderProfile, body: unknown): string | null => {
  const codes = codesOf(profile, body)
  const word = codes.find((code) => typeof code === "string" && code !== "error")
  const first = word ?? codes[0]
  return first === undefined ? null : String(first)
}

const messagePlaces: ReadonlyArray<Pointer> = [
  "/error/message",
  "/error/error/message",
  "/message",
  "/error",
  "/detail",
  "/detail/message"
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

/** Hints in order of authority: retry-after-ms, Retry-After, the profile's reset headers, the body. */
const hintsOf = (profile: ProviderProfile, answer: Answer, body: unknown): ReadonlyArray<HintReading> => {
  const date = answer.headers["date"]
  const serverEpochMillis = date === undefined ? null : httpDate(date)
  return [...standardHints, ...profile.hints].flatMap((source): ReadonlyArray<HintReading> => {
    const raw = source.header === null ? valueAt(body, source.pointer ?? "") : answer.headers[source.header]
    if (raw === undefined || raw === null || typeof raw === "object") return []
    // A reset of a window that still has room is not a reason to wait.
    if (source.exhausted !== null && answer.headers[source.exhausted] !== "0") return []
    const name = source.header ?? `body ${source.pointer ?? ""}`
    const value = parseHint(source.format, String(raw))
    switch (value._tag) {
      case "Delay":
        return [{ _tag: "Delay", source: name, millis: value.millis }]
      case "At":
        return [{ _tag: "At", source: name, epochMillis: value.epochMillis, serverEpochMillis }]
      case "Invalid":
        return [{ _tag: "Invalid", source: name }]
    }
  })
}

const shouldRetryOf = (answer: Answer): boolean | null => {
  const value = answer.headers["x-should-retry"]
  return value === "true" ? true : value === "false" ? false : null
}

const requestIdOf = (answer: Answer): string | null =>
  answer.headers["x-request-id"] ?? answer.headers["request-id"] ?? answer.headers["apim-request-id"] ?? null

const verdictOf = (profile: ProviderProfile, answer: Answer, body: unknown): Verdict => ({
  kind: kindOf(profile, answer.status, body),
  status: answer.status,
  code: codeOf(profile, body),
  inBand: answer.status === inBandStatus,
  hints: hintsOf(profile, answer, body),
  shouldRetry: shouldRetryOf(answer),
  providerMessage: messageOf(body),
  requestId: requestIdOf(answer)
})

/** The verdict on an answer with a status outside 200 to 299. */
export const classifyAnswer = (profile: ProviderProfile, answer: Answer): Verdict =>
  verdictOf(profile, answer, unwrap(answer.body))

/** An error inside a 200, or inside one chunk of a stream (also inside a choice); null when there is none. */
export const inBandFault = (profile: ProviderProfile, answer: Answer): Verdict | null => {
  const body = unwrap(answer.body)
  if (!isObject(body)) return null
  const inBand: Answer = { ...answer, status: inBandStatus }
  if ((isObject(body["error"]) || typeof body["error"] === "string") && body["error"] !== "")
    return verdictOf(profile, inBand, body)
  if (body["object"] === "error" || body["type"] === "error") return verdictOf(profile, inBand, body)
  const choices = body["choices"]
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  return isObject(choice) && isObject(choice["error"]) ? verdictOf(profile, inBand, choice) : null
}

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
