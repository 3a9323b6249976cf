/** An answer onto Node's response: whole ones in one write, streams as they come, with back-pressure. */
import type { ServerResponse } from "node:http"
import type { ByteSource, HeadLines } from "../../request/ByteSource.ts"
import { isSource, type Answer } from "./Answer.ts"
import { hopByHop } from "./httpBridge.ts"

type Headers = Record<string, string | Array<string>>

const headersOf = (lines: HeadLines): Headers => {
  const headers: Headers = {}
  for (const [name, value] of lines) {
    if (hopByHop.has(name)) continue
    const before = headers[name]
    headers[name] = before === undefined ? value : Array.isArray(before) ? [...before, value] : [before, value]
  }
  return headers
}

/** How long a client that does not read may keep the last words of a failed stream waiting. */
const lastWordsMillis = 5_000

/**
 * A body that has failed is cut, never ended: a clean end would be a success to half of the clients. What was written
 * before goes out first, since it says what failed.
 */
const cut = (response: ServerResponse): void => {
  const { socket } = response
  if (socket === null || socket.destroyed) return void response.destroy()
  const timer = setTimeout(() => response.destroy(), lastWordsMillis)
  setImmediate(() =>
    socket.write(Buffer.alloc(0), () => {
      clearTimeout(timer)
      response.destroy()
    })
  )
}

/** Bytes that go out in one write at most, beside the last chunk of them. */
const writeBytes = 64 * 1024

type Behind = "end" | "failure" | "more" | "nothing yet"

/** Takes what is there; what stands behind it. */
const gather = (source: ByteSource, ready: Array<Uint8Array>): Behind => {
  let size = 0
  try {
    for (let bytes = source.take(); bytes !== undefined; bytes = source.take()) {
      if (bytes === null) return "end"
      ready.push(bytes)
      size += bytes.length
      if (size >= writeBytes) return "more"
    }
  } catch {
    return "failure"
  }
  return "nothing yet"
}

const pump = (source: ByteSource, response: ServerResponse, done: () => void): void => {
  const next = (): void => {
    if (response.destroyed) return
    const ready: Array<Uint8Array> = []
    const behind = gather(source, ready)
    const hasRoom = ready.length === 0 || response.write(ready.length === 1 ? ready[0] : Buffer.concat(ready))
    if (behind === "end") response.end()
    if (behind === "failure") cut(response)
    if (behind === "end" || behind === "failure") return done()
    // A client that does not read stops the reads of the provider.
    if (!hasRoom) return void response.once("drain", next)
    if (behind === "more") return void setImmediate(next)
    if (!response.headersSent) response.flushHeaders()
    // Events that came in one read go out in one write.
    source.whenReady(() => queueMicrotask(next))
  }
  response.once("close", () => {
    // Harmless when all of it was written.
    void source.cancel()
    done()
  })
  next()
}

/** Resolves when the client has been given all of it, or is gone. */
export const writeAnswer = (answer: Answer, response: ServerResponse): Promise<void> => {
  const { status, lines, body } = answer
  if (response.destroyed) {
    if (isSource(body)) void body.cancel()
    return Promise.resolve()
  }
  // What was not read of the request is not read as the next one.
  if (lines.some(([name, value]) => name === "connection" && value === "close")) response.shouldKeepAlive = false
  const headers = headersOf(lines)
  if (isSource(body)) {
    response.writeHead(status, headers)
    return new Promise((resolve) => pump(body, response, resolve))
  }
  headers["content-length"] ??= String(Buffer.byteLength(body))
  response.writeHead(status, headers)
  response.end(body)
  return Promise.resolve()
}
