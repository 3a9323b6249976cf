/**
 * From an answer to a verdict. Reads structure only: status, allowed headers, codes and types at fixed places; never a
 * message text. Order: error inside a 200, profile, global table, status class.
 */
import { inBandStatus, isLegal, kindOfStatus, type FaultKind } from "../failure/FaultKind.ts"
import { isObject, isText, type Json } from "../chat/json.ts"
import type { FinishReason } from "../chat/ModelReply.ts"
import { type HintReading } from "../failure/Hint.ts"
import { hintsOf } from "./answerHints.ts"
import {
  codesOf,
  innerStatuses,
  isCode,
  readAt,
  unwrap,
  readerAt,
  valueAt,
  valuesAt,
  type Answer,
  type Code,
  type Found
} from "./AnswerPlaces.ts"
import { failureBeside, hasError, hasFailed } from "./FailureShape.ts"
import { globalKind, inBandKind, toldCode } from "./KnownWords.ts"
import type { CodeRow, Pointer, ProviderProfile } from "./ProviderProfile.ts"
import { refusedField, refusesPromptLength } from "./RefusedField.ts"

export type { Answer } from "./AnswerPlaces.ts"

export interface Verdict {
  readonly kind: FaultKind
  /** 200 for a failure inside a 200. */
  readonly status: number
  readonly code: string | null
  /** The field of the request that the refusal names; null = none. */
  readonly param: string | null
  readonly inBand: boolean
  readonly hints: ReadonlyArray<HintReading>
  readonly shouldRetry: boolean | null
  /** For people; no decision reads it. */
  readonly providerMessage: string | null
  readonly providerRequestId: string | null
  /** Epoch milliseconds when a used-up quota is full again; null = not said. */
  readonly resetAt: number | null
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

const rowMatches = (row: CodeRow, answer: Answer, body: unknown, codes: ReadonlyArray<Found>): boolean =>
  (row.status === null || row.status === answer.status) &&
  isLegal(row.kind, answer.status) &&
  (row.at === null ? codes.map(({ code }) => code) : readAt(answer, body, row.at)).some((value) =>
    valueMatches(row, value)
  )

/** Statuses with which servers refuse one field of a request. */
const refusalStatuses: ReadonlyArray<number> = [inBandStatus, 400, 413, 422]

/** The server itself says that the prompt is too long: by its own counts, or by the field it refuses. */
const showsOverflow = (profile: ProviderProfile, status: number, body: unknown): boolean => {
  if (refusalStatuses.includes(status) && refusesPromptLength(body)) return true
  if (profile.overflowEvidence === null || !isLegal("prompt_too_long", status)) return false
  const prompt = valueAt(body, profile.overflowEvidence.prompt)
  const window = valueAt(body, profile.overflowEvidence.window)
  return typeof prompt === "number" && typeof window === "number" && prompt > window
}

/** An error inside a 200 whose code nobody knows is an answer that cannot be read: it may be a page of something else. */
const kindOf = (profile: ProviderProfile, answer: Answer, body: unknown, codes: ReadonlyArray<Found>): FaultKind => {
  const { status } = answer
  for (const row of profile.rows) if (rowMatches(row, answer, body, codes)) return row.kind
  if (showsOverflow(profile, status, body)) return "prompt_too_long"
  const known = globalKind(status, codes)
  if (known !== null) return known
  if (status === inBandStatus) return inBandKind(codes, innerStatuses(body)) ?? "malformed_response"
  const own = Object.hasOwn(profile.statuses, status) ? profile.statuses[status] : undefined
  return own !== undefined && isLegal(own, status) ? own : kindOfStatus(status)
}

const messagePlaces: ReadonlyArray<Pointer> = [
  "/error/message",
  "/error/error/message",
  "/message",
  "/error",
  "/detail",
  "/detail/message",
  "/errors/0/message",
  "/errors/0",
  "/error/0/message",
  "/error_msg",
  "/msg",
  "/fault/faultstring",
  "/base_resp/status_msg",
  "/x_groq/error"
]

const messageOf = (body: unknown): string | null => {
  for (const place of messagePlaces) {
    const text = valueAt(body, place)
    if (typeof text === "string" && text !== "") return text
  }
  return null
}

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

/** A number beside no code at all is told as the code: the status inside the 200. */
const codeOf = (
  profile: ProviderProfile,
  answer: Answer,
  body: unknown,
  codes: ReadonlyArray<Found>
): string | null => {
  const isKnown = (code: Code): boolean => profile.rows.some(({ value }) => value === code)
  const told = toldCode(codes, isKnown)
  if (told !== null || answer.status !== inBandStatus) return told
  const [status] = innerStatuses(body)
  return typeof status === "number" ? String(status) : null
}

const verdictOf = (profile: ProviderProfile, answer: Answer, body: unknown, known?: FaultKind): Verdict => {
  const codes = codesOf(profile, answer, body)
  const kind = known ?? kindOf(profile, answer, body, codes)
  const hints = hintsOf(
    profile,
    answer,
    body,
    kind,
    codes.map(({ code }) => code)
  )
  return {
    kind,
    status: answer.status,
    code: codeOf(profile, answer, body, codes),
    param: refusedField(body),
    inBand: answer.status === inBandStatus,
    hints,
    shouldRetry: shouldRetryOf(answer),
    providerMessage: messageOf(body),
    providerRequestId: requestIdOf(answer),
    resetAt: resetAtOf(kind, hints)
  }
}

/** The verdict on an answer with a status outside 200 to 299. */
export const classifyAnswer = (profile: ProviderProfile, answer: Answer): Verdict =>
  verdictOf(profile, answer, unwrap(answer.body))

/**
 * Where an error inside a 200 stands. A whole body that nobody can read may be a page of something else. In an event there
 * is no such page: what reports a failure there is one of the server, whatever its code.
 */
export type InBandPlace = "body" | "event"

/** A failure for certain: one of the server when its code says nothing. */
const certain = (profile: ProviderProfile, answer: Answer, body: unknown): Verdict => {
  const verdict = verdictOf(profile, answer, body)
  return verdict.kind === "malformed_response" ? verdictOf(profile, answer, body, "server_error") : verdict
}

/** Where the wires say why they stopped. */
const finishWordsAt = ["/choices/0/finish_reason", "/delta/stop_reason", "/stop_reason"].map(readerAt)

const firstChoice = readerAt("/choices/0")

/** A finish reason that reports a failure. */
const finishFault = (profile: ProviderProfile, inBand: Answer, body: Json): Verdict | null => {
  for (const wordAt of finishWordsAt) {
    const raw = wordAt(body)
    if (!isText(raw)) continue
    const code = knownWord(profile, raw, profile.finishFaults)
    const kind = code === null ? null : finishFaultOf(profile, code)
    if (kind !== null) return { ...verdictOf(profile, inBand, body, kind), code }
  }
  return null
}

/** An error of its own in a choice. */
const choiceFault = (profile: ProviderProfile, inBand: Answer, body: Json, place: InBandPlace): Verdict | null => {
  const choice = firstChoice(body)
  if (!isObject(choice) || !hasError({ error: choice["error"] })) return null
  return place === "event" ? certain(profile, inBand, choice) : verdictOf(profile, inBand, choice)
}

/** A failure that does not call itself an error: a word that is known, or a shape that only failures have. */
const faultBeside = (profile: ProviderProfile, inBand: Answer, body: Json, place: InBandPlace): Verdict | null => {
  const shape = failureBeside(body)
  if (shape === null) return null
  const verdict = verdictOf(profile, inBand, body)
  if (verdict.kind !== "malformed_response") return verdict
  return shape === "plain" && place === "event" ? certain(profile, inBand, body) : null
}

/** An error inside a 200, or inside one event of a stream (also inside a choice); null when there is none. */
export const inBandFault = (profile: ProviderProfile, answer: Answer, place: InBandPlace = "body"): Verdict | null => {
  const body = unwrap(answer.body)
  if (!isObject(body)) return null
  const inBand: Answer = answer.status === inBandStatus ? answer : { ...answer, status: inBandStatus }
  // A response that says it failed is read well, whatever its code.
  if (hasError(body))
    return place === "event" || hasFailed(body) ? certain(profile, inBand, body) : verdictOf(profile, inBand, body)
  for (const { at, unless } of profile.inBandAt)
    if (valuesAt(body, at).some((value) => value !== null && value !== "" && !isSame(value, unless)))
      return certain(profile, inBand, body)
  return (
    choiceFault(profile, inBand, body, place) ??
    finishFault(profile, inBand, body) ??
    faultBeside(profile, inBand, body, place)
  )
}

/** A finish word, and the words of one that names a filter first: `function_call_filter: MALFORMED_FUNCTION_CALL`. */
const finishWords = (profile: ProviderProfile, raw: string): ReadonlyArray<string> => {
  if (profile.exact || !/[:\s]/.test(raw)) return [raw]
  const [filter = "", ...reasons] = raw.split(":").map((word) => word.trim())
  return [raw, ...reasons, filter]
}

const knownWord = (profile: ProviderProfile, raw: string, table: Readonly<Record<string, unknown>>): string | null =>
  finishWords(profile, raw).find((word) => Object.hasOwn(table, word)) ?? null

/** The failure that a finish reason reports; null when it reports none. */
export const finishFaultOf = (profile: ProviderProfile, raw: string): FaultKind | null =>
  profile.finishFaults[knownWord(profile, raw, profile.finishFaults) ?? ""] ?? null

const finishReasons: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool_calls",
  function_call: "tool_calls",
  content_filter: "content_filter"
}

/** null = not known to the profile: the reply is malformed. */
export const finishReasonOf = (profile: ProviderProfile, raw: string): FinishReason | null => {
  const own = profile.finishReasons
  const word = finishWords(profile, raw).find((one) => Object.hasOwn(own, one) || Object.hasOwn(finishReasons, one))
  return word === undefined ? null : (own[word] ?? finishReasons[word] ?? null)
}
