/**
 * Words for failures that mean the same whoever says them. With an HTTP status only the few of `globalTable` count
 * beside it; inside a 200, where no status helps, every word that any profile knows does, unless two profiles disagree.
 */
import { isLegal, kindOfStatus, inBandStatus, type FaultKind } from "../failure/FaultKind.ts"
import { isCode, type Code, type Found } from "./AnswerPlaces.ts"
import { profiles } from "./Profiles.ts"
import type { CodeRow } from "./ProviderProfile.ts"

const table = (rows: ReadonlyArray<readonly [FaultKind, ReadonlyArray<string>]>): Readonly<Record<string, FaultKind>> =>
  Object.fromEntries(rows.flatMap(([kind, words]) => words.map((word) => [word, kind])))

const at = (words: Readonly<Record<string, FaultKind>>, code: Code): FaultKind | null =>
  typeof code === "string" && Object.hasOwn(words, code) ? (words[code] ?? null) : null

/** Exact words that mean the same everywhere, with every status their kind allows. */
const globalTable = table([
  ["prompt_too_long", ["context_length_exceeded", "max_context_window", "prompt_is_too_long", "prompt_too_long"]],
  ["prompt_too_long", ["model_max_prompt_tokens_exceeded", "exceed_context_size_error"]],
  ["quota_exhausted", ["insufficient_quota", "credit_balance_exhausted", "project_spend_limit_exceeded"]],
  ["quota_exhausted", ["organization_spend_limit_exceeded", "organization_usage_limit_exceeded"]],
  ["quota_exhausted", ["exceeded_current_quota_error"]],
  ["overloaded", ["overloaded_error", "server_is_overloaded", "engine_overloaded_error"]],
  // Azure's `innererror`, also behind a relay: learn.microsoft.com, Azure OpenAI, content filtering.
  ["content_filtered", ["content_filter", "ResponsibleAIPolicyViolation"]]
])

/** The kind a global word gives an answer of this status; null = none. */
export const globalKind = (status: number, codes: ReadonlyArray<Found>): FaultKind | null => {
  for (const { code } of codes) {
    const kind = at(globalTable, code)
    if (kind !== null && isLegal(kind, status)) return kind
  }
  return null
}

/** Spellings that no profile has as a row of its own: error classes and types of servers and relays. */
const spellings = table([
  [
    "overloaded",
    ["overloaded", "engine_overloaded", "service_unavailable_error", "ServerOverloaded", "OverloadedError"]
  ],
  ["overloaded", ["server_overloaded", "service_overloaded", "model_overloaded", "over_capacity"]],
  ["rate_limited", ["rate_limit_error", "rate_limit_exceeded", "rate_limited", "rate_limit", "RateLimitError"]],
  ["rate_limited", ["too_many_requests", "TooManyRequests", "RateLimitReached", "requests", "tokens"]],
  ["quota_exhausted", ["billing_error", "payment_required", "payment_required_error", "insufficient_balance"]],
  ["quota_exhausted", ["insufficient_credits", "insufficient_funds", "quota_exceeded", "credit_balance_too_low"]],
  ["auth", ["authentication_error", "AuthenticationError", "invalid_api_key", "unauthorized", "authentication"]],
  ["permission", ["permission_error", "PermissionDeniedError", "permission_denied", "forbidden", "request_forbidden"]],
  // developers.openai.com/api/docs/guides/error-codes: a country that is not served.
  ["permission", ["unsupported_country_region_territory"]],
  ["not_found", ["not_found_error", "NotFoundError", "model_not_found", "not_found"]],
  ["timeout", ["timeout_error", "timeout", "TimeoutError", "APITimeoutError", "request_timeout", "gateway_timeout"]],
  ["payload_too_large", ["request_too_large", "payload_too_large"]],
  ["prompt_too_long", ["context_window_exceeded", "ContextWindowExceededError"]],
  ["content_filtered", ["content_policy_violation", "ContentPolicyViolationError", "content_policy"]]
])

/** Words that say whose fault it was and no more: a status beside them says more. */
const serverWords: ReadonlySet<string> = new Set([
  "server_error",
  "internal_error",
  "internal_server_error",
  "InternalServerError",
  "api_error",
  "APIError",
  "upstream_error",
  "upstream",
  "service_unavailable",
  "ServiceUnavailable",
  "ServiceUnavailableError",
  "bad_gateway",
  "provider_error"
])

const requestWords: ReadonlySet<string> = new Set([
  "invalid_request_error",
  "invalid_request",
  "BadRequestError",
  "BadRequest",
  "bad_request",
  "bad_request_error",
  "validation_error",
  "not_supported_error",
  "conflict_error",
  "UnprocessableEntityError"
])

/** A name for a failure: letters, no blanks. Numbers and sentences mean nothing outside their own profile. */
const isWord = (value: CodeRow["value"]): boolean =>
  typeof value === "string" && /^(?=.*[A-Za-z])[\w.:/-]+$/.test(value)

const rows = profiles.flatMap((profile) => profile.rows.filter((row) => row.at === null && isWord(row.value)))

const isVague = (code: string): boolean => serverWords.has(code) || requestWords.has(code)

/** What all profiles that know the word say; null when none does or two disagree. */
const kindInProfiles = (code: string): FaultKind | null => {
  const kinds = new Set(
    rows
      .filter((row) => {
        const value = String(row.value)
        if (row.match === "prefix") return code.startsWith(value)
        return row.match === "part" ? code.includes(value) : code === value
      })
      .map((row) => row.kind)
  )
  const [only] = kinds
  return kinds.size === 1 && only !== undefined ? only : null
}

const wordKind = (code: Code): FaultKind | null => {
  if (typeof code === "number" || isVague(code)) return null
  const kind = at(spellings, code) ?? kindInProfiles(code)
  return kind !== null && isLegal(kind, inBandStatus) ? kind : null
}

/** A number that is a status of a failure, as the kind of that status; null = it is none. */
const numberKind = (code: Code): FaultKind | null => {
  const number = typeof code === "number" ? code : /^[45]\d\d$/.test(code) ? Number(code) : 0
  if (!Number.isInteger(number) || number < 400 || number > 599) return null
  const kind = kindOfStatus(number)
  return isLegal(kind, inBandStatus) ? kind : null
}

/** A number or a word that names a side; a type that only blames the request waits for a number. */
const plainKind = ({ code, isType }: Found): FaultKind | null => {
  if (typeof code === "string" && serverWords.has(code)) return "server_error"
  if (typeof code === "string" && requestWords.has(code)) return isType ? null : "invalid_request"
  return numberKind(code)
}

const firstOf = <A>(values: ReadonlyArray<A>, kind: (value: A) => FaultKind | null): FaultKind | null => {
  for (const value of values) {
    const found = kind(value)
    if (found !== null) return found
  }
  return null
}

/**
 * The kind of an error inside a 200 by its words and numbers: a word that names a failure, then a code (a number is read
 * like a status), then a status beside it, then a type that blames the request. null = nobody knows it.
 */
export const inBandKind = (codes: ReadonlyArray<Found>, statuses: ReadonlyArray<Code>): FaultKind | null =>
  firstOf(codes, ({ code }) => wordKind(code)) ??
  firstOf(codes, plainKind) ??
  firstOf(statuses, numberKind) ??
  firstOf(codes, ({ code }) => (isCode(code) && requestWords.has(String(code)) ? "invalid_request" : null))

/** Words that only say that something failed. */
const emptyWords: ReadonlySet<string> = new Set(["error", "invalid_request_error", ""])

/** A word, not a sentence: what stands at a code's place may be prose, a prompt or an address with a key in it. */
const codeShape = /^[\w.:/#+-]{1,80}$/

/** The code to tell: the first word that says something, else the first code at all. Sentences only where `isKnown`. */
export const toldCode = (found: ReadonlyArray<Found>, isKnown: (code: Code) => boolean): string | null => {
  const codes = found
    .map(({ code }) => code)
    .filter((code) => typeof code === "number" || codeShape.test(code) || isKnown(code))
  const word = codes.find((code) => typeof code === "string" && !emptyWords.has(code) && !/^\d+$/.test(code))
  const first = word ?? codes.find((code) => code !== "error" && code !== "")
  return first === undefined ? null : String(first)
}
