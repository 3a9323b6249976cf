/** Between Node's HTTP server and answers as the platform's `fetch` gives them: bodies with a bound, streams with back-pressure. */
import { once } from "node:events"
import type { IncomingMessage, ServerResponse } from "node:http"
import type { ReadableStreamDefaultReader } from "node:stream/web"

/** A body that was larger than allowed, or that never came whole. */
export type BodyFault = "too_large" | "broken"

/** The whole body of a request, at most `limit` bytes; what is longer is not read on. */
export const readRequestBody = async (request: IncomingMessage, limit: number): Promise<Buffer | BodyFault> => {
  if (Number(request.headers["content-length"] ?? 0) > limit) return "too_large"
  const chunks: Array<Buffer> = []
  let length = 0
  try {
    for await (const chunk of request) {
      if (!Buffer.isBuffer(chunk)) return "broken"
      length += chunk.length
      if (length > limit) return "too_large"
      chunks.push(chunk)
    }
  } catch {
    return "broken"
  }
  return request.complete ? Buffer.concat(chunks, length) : "broken"
}

/** Headers of a connection, not of a message: they end here. */
const hopByHop: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade"
])

/** Headers of the caller that go to nobody else: its key, its host, and what the transport says anew. */
const callers: ReadonlySet<string> = new Set([
  "authorization",
  "x-api-key",
  "api-key",
  "cookie",
  "host",
  "content-length",
  "accept-encoding",
  "expect"
])

/** What of a request's headers travels on, with names in lower case; several values of one name are joined. */
export const headersOnward = (request: IncomingMessage): Record<string, string> => {
  const named = String(request.headers.connection ?? "")
    .toLowerCase()
    .split(/\s*,\s*/)
  const onward: Record<string, string> = {}
  for (const [name, value] of Object.entries(request.headers)) {
    if (value === undefined || hopByHop.has(name) || callers.has(name) || named.includes(name)) continue
    if (name.startsWith("x-holdfast-")) continue
    onward[name] = Array.isArray(value) ? value.join(", ") : value
  }
  return onward
}

/** Aborted when the client goes away before its answer is whole. Its reason never looks like a fault of the provider. */
export const goneSignal = (response: ServerResponse): AbortSignal => {
  const controller = new AbortController()
  response.on("close", () => {
    if (!response.writableFinished) controller.abort(new DOMException("the client went away", "AbortError"))
  })
  return controller.signal
}

const headersOf = (answer: Response): Record<string, string | ReadonlyArray<string>> => {
  const headers: Record<string, string | ReadonlyArray<string>> = {}
  for (const [name, value] of answer.headers) if (!hopByHop.has(name) && name !== "set-cookie") headers[name] = value
  const cookies = answer.headers.getSetCookie()
  if (cookies.length > 0) headers["set-cookie"] = cookies
  return headers
}

const pump = async (
  reader: ReadableStreamDefaultReader<Uint8Array>,
  response: ServerResponse,
  seen: (bytes: number) => void
): Promise<void> => {
  while (true) {
    const { done, value } = await reader.read()
    if (done) return
    seen(value.byteLength)
    // A client that does not read stops the reads of the provider.
    if (!response.write(value)) await Promise.race([once(response, "drain"), once(response, "close")])
    if (response.destroyed) return
  }
}

/**
 * Writes an answer. A body that fails is cut, never ended: a clean end would be a success to half of the clients. Resolves
 * when the client has all of it or is gone; `seen` is told of every write.
 */
export const writeAnswer = async (
  answer: Response,
  response: ServerResponse,
  seen: (bytes: number) => void = () => undefined
): Promise<void> => {
  if (response.destroyed) return void (await answer.body?.cancel().catch(() => undefined))
  // What was not read of the request is not read as the next one.
  if (answer.headers.get("connection") === "close") response.shouldKeepAlive = false
  response.writeHead(answer.status, headersOf(answer) as Record<string, string | Array<string>>)
  if (answer.body === null) return void response.end()
  const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream") === true
  if (isStream) response.flushHeaders()
  const reader = answer.body.getReader() as ReadableStreamDefaultReader<Uint8Array>
  try {
    await pump(reader, response, seen)
    response.end()
  } catch {
    response.destroy()
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** One JSON answer of the gateway's own. */
export const jsonAnswer = (status: number, body: unknown, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } })
