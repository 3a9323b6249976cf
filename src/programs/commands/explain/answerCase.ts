/** One answer as recorded or pasted: from cases of a file, from a body, from what curl prints. */
import * as Result from "effect/Result"
import { parse } from "../../../domain/chat/json.ts"
import { inBandStatus } from "../../../domain/failure/FaultKind.ts"
import { instantOf } from "../../../domain/provider/RetryAfter.ts"

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

export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
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
