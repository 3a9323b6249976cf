/** What comes in over Node's HTTP server: bodies with a bound, headers that travel on, clients that go away. */
import type { IncomingMessage, ServerResponse } from "node:http"

/** A body that was larger than allowed, or that never came whole. */
export type BodyFault = "too_large" | "broken"

/** The whole body of a request, at most `limit` bytes; what is longer is not read on. */
export const readRequestBody = (request: IncomingMessage, limit: number): Promise<Buffer | BodyFault> =>
  new Promise((resolve) => {
    if (Number(request.headers["content-length"] ?? 0) > limit) return resolve("too_large")
    const chunks: Array<Buffer> = []
    let length = 0
    const onData = (chunk: Buffer): void => {
      length += chunk.length
      if (length <= limit) return void chunks.push(chunk)
      request.off("data", onData)
      request.pause()
      resolve("too_large")
    }
    request.on("data", onData)
    request.once("end", () => resolve(request.complete ? Buffer.concat(chunks, length) : "broken"))
    request.once("error", () => resolve("broken"))
    request.once("close", () => resolve("broken"))
  })

/** Headers of a connection, not of a message: they end here. */
export const hopByHop: ReadonlySet<string> = new Set([
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
