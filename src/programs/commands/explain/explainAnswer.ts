/** What one recorded answer means: its kind, its wait hints, who would retry it, and what a person can do about it. */
import * as Result from "effect/Result"
import { parse } from "../../../domain/chat/json.ts"
import {
  classifyAnswer,
  finishFaultOf,
  inBandFault,
  type Answer,
  type Verdict
} from "../../../domain/provider/classify.ts"
import { inBandStatus } from "../../../domain/failure/FaultKind.ts"
import { guidanceFor, guidanceForValue } from "../../../domain/failure/Guidance.ts"
import type { ReplyValue } from "../../../domain/failure/words.ts"
import { makeModelError } from "../../../domain/failure/ModelError.ts"
import type { FinishReason, ModelReply } from "../../../domain/chat/ModelReply.ts"
import { isNative, nativeFinish, nativeStopWord } from "./nativeReply.ts"
import { generic } from "../../../domain/provider/profiles/generic.ts"
import { profileNamed } from "../../../domain/provider/Profiles.ts"
import type { ProviderProfile } from "../../../domain/provider/ProviderProfile.ts"
import { waitOf, type HintReading } from "../../../domain/failure/Hint.ts"
import { instantOf, parseRetryAfter } from "../../../domain/provider/RetryAfter.ts"
import { EventAssembler } from "../../../layers/provider/EventAssembler.ts"
import { eventReaderOf } from "../../../domain/wires/openAiReader.ts"
import { readBody } from "../../../domain/wires/openAiWire.ts"
import type { Flaw, ReadContext } from "../../../domain/wires/wireReply.ts"

/** One answer as recorded or pasted. */
export interface AnswerCase {
  readonly id: string
  readonly provider: string | null
  readonly status: number
  /** Names in lower case; a header sent twice is joined by a comma, as HTTP does. */
  readonly headers: Readonly<Record<string, string>>
  /** Parsed JSON or raw text; null when the answer is a stream. */
  readonly body: unknown
  /** Text of an event stream; null when the answer is a body. */
  readonly sse: string | null
  /** Only a body was given: its status is unknown and stands as 200, where codes alone decide. */
  readonly isBare?: boolean
  /** The clock for dates. */
  readonly wallMillis: number
}

export interface Explanation {
  readonly id: string
  readonly kind: string
  readonly code: string | null
  readonly retryAfterSeconds: number | null | "invalid"
  readonly hintSeconds: number | null
  readonly hintSource: string | null
  /** Where the wait that a retry keeps comes from; null = no hint can be read, or nobody retries. */
  readonly obeyed: string | null
  readonly retryable: { readonly strict: boolean; readonly broad: boolean }
  readonly error: string | null
  readonly profile: string
  readonly guidance: string
  /** What the reading had to assume. */
  readonly notes: ReadonlyArray<string>
}

/** A value of the reply, or what went wrong instead. */
type Reading = Verdict | Flaw | ReplyValue

const valueOf = (reason: FinishReason): ReplyValue => {
  switch (reason) {
    case "length":
    case "window_full":
      return "output_truncated"
    case "content_filter":
      return "content_filtered"
    case "refusal":
      return "refusal"
    default:
      return "ok"
  }
}

const valueOfReply = (reply: ModelReply): ReplyValue =>
  reply.refusal === null ? valueOf(reply.finishReason) : "refusal"

const flawOf = (kind: Flaw["kind"], code: string): Flaw => ({ kind, code, usage: null })

const faultWord = (profile: ProviderProfile, answer: Answer): Verdict | null => {
  const word = nativeStopWord(answer.body)
  const kind = word === null ? null : (finishFaultOf(profile, word) ?? finishFaultOf(generic, word))
  return kind === null || word === null
    ? null
    : { ...classifyAnswer(profile, { ...answer, status: inBandStatus }), kind, code: word }
}

const readNative = (profile: ProviderProfile, answer: Answer): Reading | null => {
  const fault = inBandFault(profile, answer) ?? faultWord(profile, answer)
  if (fault !== null) return fault
  const failed = nativeFailure(profile, answer)
  if (failed !== null) return failed
  const finish = nativeFinish(profile, answer.body)
  if (finish === null) return null
  return finish === "unknown" ? flawOf("malformed_response", "finish_reason_unknown") : valueOf(finish)
}

/** A failed response carries its error one level deeper. */
const nativeFailure = (profile: ProviderProfile, answer: Answer): Verdict | null => {
  const response: unknown =
    typeof answer.body === "object" && answer.body !== null ? Reflect.get(answer.body, "response") : null
  return typeof response === "object" && response !== null ? inBandFault(profile, { ...answer, body: response }) : null
}

/** `explain` judges by the letter of the API; what recovery reads all the same is told in a reply's warnings. */
const toTheLetter = (profile: ProviderProfile): ReadContext => ({
  profile: { ...profile, exact: true },
  model: "unknown",
  requestId: null
})

const readWhole = (profile: ProviderProfile, given: AnswerCase): Reading => {
  const { headers } = given
  const text = typeof given.body === "string" ? given.body : JSON.stringify(given.body ?? null)
  const parsed = parse(text)
  const answer: Answer = { status: inBandStatus, headers, body: Result.isSuccess(parsed) ? parsed.success : text }
  if (isNative(answer.body)) return readNative(profile, answer) ?? flawOf("malformed_response", "finish_reason_missing")
  const reply = readBody(toTheLetter(profile), text, headers)
  return Result.isSuccess(reply) ? valueOfReply(reply.success) : reply.failure
}

/** The JSON payloads of a stream, read leniently: only to see which format it is. */
const payloadsOf = (sse: string): ReadonlyArray<unknown> =>
  sse
    .split(/\r\n|\n|\r/)
    .filter((line) => line.startsWith("data:"))
    .map((line) => parse(line.slice("data:".length)))
    .flatMap((payload) => (Result.isSuccess(payload) ? [payload.success] : []))

const readStream = (profile: ProviderProfile, given: AnswerCase, sse: string): Reading => {
  const payloads = payloadsOf(sse)
  if (payloads.some(isNative)) {
    let last: Reading = flawOf("interrupted", "no_finish_reason")
    for (const body of payloads) {
      const reading = readNative(profile, { status: inBandStatus, headers: given.headers, body })
      if (reading === null) continue
      last = reading
      if (typeof reading !== "string") break
    }
    return last
  }
  const assembler = new EventAssembler(eventReaderOf(toTheLetter(profile), given.headers))
  const parts = [...assembler.feed(sse), ...(assembler.done || assembler.fault !== null ? [] : assembler.end())]
  if (assembler.fault !== null) return assembler.fault
  const end = parts.find((part) => part._tag === "End")
  return end === undefined ? flawOf("interrupted", "no_finish_reason") : valueOfReply(end.reply)
}

/** Kinds that a later attempt can cure. */
const transientKinds: ReadonlySet<string> = new Set([
  "rate_limited",
  "overloaded",
  "server_error",
  "timeout",
  "connection",
  "interrupted",
  "empty_reply"
])

const retryableOf = (
  kind: string,
  status: number,
  shouldRetry: boolean | null
): { readonly strict: boolean; readonly broad: boolean } => {
  if (shouldRetry === false) return { strict: false, broad: false }
  return {
    // strict: the status alone decides, except for a quota
    strict: (status === 429 || status === 529) && kind !== "quota_exhausted",
    broad: transientKinds.has(kind) || (shouldRetry === true && kind !== "quota_exhausted")
  }
}

const retryAfterOf = (given: AnswerCase, serverEpochMillis: number | null): number | null | "invalid" => {
  const raw = given.headers["retry-after"]
  if (raw === undefined) return null
  const value = parseRetryAfter(raw)
  if (value._tag === "Invalid") return "invalid"
  const hint: HintReading =
    value._tag === "Delay"
      ? { ...value, source: "retry-after" }
      : { ...value, source: "retry-after", serverEpochMillis }
  return (waitOf(hint, given.wallMillis) ?? 0) / 1000
}

const isReply = (body: unknown): boolean => isNative(body) || (isRecord(body) && "choices" in body)

const readingOf = (profile: ProviderProfile, given: AnswerCase): Reading => {
  const isOk = given.status >= 200 && given.status <= 299
  if (!isOk || (given.isBare === true && !isReply(given.body))) return classifyAnswer(profile, given)
  return given.sse === null ? readWhole(profile, given) : readStream(profile, given, given.sse)
}

const notesOf = (profile: ProviderProfile, given: AnswerCase): ReadonlyArray<string> => [
  ...(given.isBare === true
    ? ["the status is not known: only codes in the body were read, and strict goes by the status"]
    : []),
  ...(given.provider !== null && profileNamed(given.provider) === null && profile.name === generic.name
    ? [`there is no profile ${JSON.stringify(given.provider)}: read as ${generic.name}`]
    : [])
]

/** Everything about one answer. Reads structure only. */
export const explainAnswer = (profile: ProviderProfile, given: AnswerCase): Explanation => {
  const isOk = given.status >= 200 && given.status <= 299
  const reading = readingOf(profile, given)
  // The hints of an answer that is no verdict: only for their report.
  const hints = typeof reading === "string" || !("hints" in reading) ? [] : reading.hints
  const hint = hints.find(({ source, _tag }) => source !== "retry-after" && _tag !== "Invalid")
  const dated = classifyAnswer(profile, given).hints.find((one) => one._tag === "At")
  const wait = hint === undefined ? null : waitOf(hint, given.wallMillis)
  const common = {
    id: given.id,
    retryAfterSeconds: retryAfterOf(given, dated?._tag === "At" ? dated.serverEpochMillis : null),
    hintSeconds: wait === null ? null : wait / 1000,
    hintSource: hint?.source ?? null,
    profile: profile.name,
    notes: notesOf(profile, given)
  }
  if (typeof reading === "string")
    return {
      ...common,
      obeyed: null,
      kind: reading,
      code: null,
      retryable: { strict: false, broad: false },
      error: null,
      guidance: guidanceForValue(reading)
    }
  const { kind, code } = reading
  const status = isOk ? inBandStatus : given.status
  const resetAt = "resetAt" in reading ? reading.resetAt : null
  const retryable = retryableOf(kind, status, "shouldRetry" in reading ? reading.shouldRetry : null)
  // The order of the hints is their authority; strict fails on a bad one instead of going on to the next.
  const obeyed = hints.find((one) => waitOf(one, given.wallMillis) !== null)
  return {
    ...common,
    kind: kind === "interrupted" || kind === "empty_reply" ? "malformed_response" : kind,
    code,
    obeyed: retryable.strict || retryable.broad ? (obeyed?.source ?? null) : null,
    retryable,
    error: makeModelError({ kind, status: kind === "interrupted" ? null : status, code })._tag,
    guidance: guidanceFor({ kind, code, status, resetAtEpochMillis: resetAt, inBand: isOk })
  }
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const headersOf = (raw: unknown): Readonly<Record<string, string>> =>
  isRecord(raw)
    ? Object.fromEntries(
        Object.entries(raw).map(([name, value]) => [
          name.toLowerCase(),
          Array.isArray(value) ? value.map(String).join(", ") : String(value)
        ])
      )
    : {}

/** Recorded events as the text of a stream: comments and event names keep their lines, all else is data. */
const sseOf = (events: ReadonlyArray<unknown>): string =>
  events
    .map((event) => {
      const text = typeof event === "string" ? event : JSON.stringify(event)
      if (text.startsWith("event: ")) return `${text}\n`
      return text.startsWith(":") ? `${text}\n\n` : `data: ${text}\n\n`
    })
    .join("")

/** A case in the recorded format; null = it is none (no status and no body or events). */
export const caseOf = (raw: unknown, ordinal: number, wallMillis: number): AnswerCase | null => {
  if (!isRecord(raw)) return null
  const events = Array.isArray(raw["events"]) ? raw["events"] : null
  const status = typeof raw["status"] === "number" ? raw["status"] : events === null ? null : inBandStatus
  if (status === null) return null
  return {
    id: typeof raw["id"] === "string" ? raw["id"] : String(ordinal),
    provider: typeof raw["provider"] === "string" ? raw["provider"] : null,
    status,
    headers: headersOf(raw["headers"]),
    body: raw["body"] ?? "",
    sse: events === null ? null : sseOf(events),
    wallMillis: typeof raw["nowIso"] === "string" ? (instantOf(raw["nowIso"]) ?? wallMillis) : wallMillis
  }
}

/** A body without its status, as an SDK prints it; null = it has fields of a recorded case. */
export const bareCase = (raw: unknown, ordinal: number, wallMillis: number): AnswerCase | null => {
  if (!isRecord(raw) || ["status", "headers", "body", "events"].some((name) => name in raw)) return null
  return {
    id: String(ordinal),
    provider: null,
    status: inBandStatus,
    headers: {},
    body: raw,
    sse: null,
    isBare: true,
    wallMillis
  }
}

/** Lines that `curl -v` writes beside the answer: notes, the request (with its key), sizes and the progress meter. */
const chatter = /^(?:[*>] |[<>]\s*$|[{}] \[\d+ bytes data\]|\s*% Total\b|\s*Dload\b|.*--:--:--)/

/** What `curl -v` printed, as `curl -i` would have; other text stays as it is. */
const withoutChatter = (text: string): string => {
  const lines = text.split(/\r?\n/)
  const start = lines.findLastIndex((line) => line.startsWith("< HTTP/"))
  if (start < 0) return text
  const rest = lines.slice(start)
  const head = rest.filter((line) => line.startsWith("< ")).map((line) => line.slice(2).trimEnd())
  const body = rest
    .filter((line) => !line.startsWith("< ") && !chatter.test(line))
    .map((line) => line.replace(/\* Connection #\d+ to host .*$/, ""))
  return `${head.join("\n")}\n\n${body.join("\n")}`
}

const statusLine = /^HTTP\/[\d.]+ (\d{3})/

/** An answer as `curl -i` or `curl -v` prints it; informational and proxy heads before it are skipped. */
export const pastedCase = (text: string, wallMillis: number): AnswerCase | null => {
  const [head = "", ...rest] = withoutChatter(text)
    .trimStart()
    .split(/\r?\n\r?\n/)
  const found = statusLine.exec(head)
  if (found === null) return null
  const remainder = rest.join("\n\n")
  if (statusLine.test(remainder)) return pastedCase(remainder, wallMillis)
  const headers: Record<string, string> = {}
  for (const line of head.split(/\r?\n/).slice(1)) {
    const colon = line.indexOf(":")
    if (colon < 1) continue
    const name = line.slice(0, colon).trim().toLowerCase()
    const value = line.slice(colon + 1).trim()
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`
  }
  const isStream = (headers["content-type"] ?? "").includes("event-stream") && found[1] === "200"
  const parsed = parse(remainder)
  return {
    id: "1",
    provider: null,
    status: Number(found[1]),
    headers,
    body: Result.isSuccess(parsed) ? parsed.success : remainder.trim(),
    sse: isStream ? remainder : null,
    wallMillis
  }
}
