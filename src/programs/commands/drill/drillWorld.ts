/**
 * The provider of a drill: answers a script step by step, in process and in virtual time, or over loopback sockets in
 * real time. Records every request as it was sent and counts the connections that are open.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { expandSse, generatedBody, makeStepQueue, sseText, type ProviderStep, type Scenario } from "./Scenario.ts"
import type { Fetch } from "../../../layers/provider/undiciFetch.ts"
import type { VirtualClock } from "./VirtualClock.ts"

/** Private mark of a drill's requests: which queue answers. Never recorded. */
export const roleHeader = "x-drill-role"

export interface SentRequest {
  readonly n: number
  readonly atMs: number
  readonly role: string
  readonly model: string
  readonly maxOutputTokens: number | null
  readonly body: unknown
}

export interface DrillProvider {
  readonly requests: ReadonlyArray<SentRequest>
  readonly connectionsOpen: () => number
  /** A request found no scripted answer. */
  readonly hasRunOut: () => boolean
}

interface Book {
  readonly provider: DrillProvider
  readonly next: (role: string, body: unknown, atMs: number) => ProviderStep | null
  readonly open: () => () => void
  readonly bodyOf: (step: ProviderStep) => unknown
}

const numberAt = (body: unknown, key: string): number | null => {
  const value: unknown = typeof body === "object" && body !== null ? Reflect.get(body, key) : undefined
  return typeof value === "number" ? value : null
}

const makeBook = (scenario: Scenario): Book => {
  const queue = makeStepQueue(scenario.provider)
  const requests: Array<SentRequest> = []
  let open = 0
  let generated = 0
  let ranOut = false
  return {
    provider: { requests, connectionsOpen: () => open, hasRunOut: () => ranOut },
    next: (role, body, atMs) => {
      const model: unknown = typeof body === "object" && body !== null ? Reflect.get(body, "model") : undefined
      requests.push({
        n: requests.length + 1,
        atMs,
        role,
        model: typeof model === "string" ? model : "",
        maxOutputTokens:
          numberAt(body, "max_tokens") ??
          numberAt(body, "max_completion_tokens") ??
          numberAt(body, "max_output_tokens"),
        body
      })
      const step = queue.take(role)
      if (step === null) ranOut = true
      return step
    },
    open: () => {
      open += 1
      let isOpen = true
      return () => {
        if (isOpen) open -= 1
        isOpen = false
      }
    },
    bodyOf: (step) => {
      if (step.generate === undefined) return step.body
      generated += 1
      return generatedBody(step.generate, generated, scenario.adapter ?? "openai")
    }
  }
}

/** The answer to a request for which the script has none. Not retryable in any preset. */
const endOfScript = { status: 400, body: JSON.stringify({ error: { code: "script_ended" } }) }

const jsonHeaders = { "content-type": "application/json" }

/** Header values are bytes: characters beyond them travel as their UTF-8 bytes look. */
const headersOf = (step: ProviderStep, fallback: Readonly<Record<string, string>>): Headers => {
  const headers = new Headers(fallback)
  for (const [name, value] of Object.entries(step.headers ?? {})) headers.set(name, latin1(value))
  return headers
}

const latin1 = (value: string): string =>
  /^[\u0000-\u00ff]*$/.test(value) ? value : Buffer.from(value, "utf8").toString("latin1")

const networkError = (code: string): Error =>
  Object.assign(new TypeError("fetch failed"), { cause: Object.assign(new Error(code), { code }) })

const isBodiless = (status: number): boolean => status === 204 || status === 205 || status === 304

export interface InProcess extends DrillProvider {
  readonly fetch: Fetch
}

/** An in-process fetch that answers in virtual time. */
export const inProcess = (scenario: Scenario, time: VirtualClock): InProcess => {
  const book = makeBook(scenario)
  const sse = (
    step: ProviderStep,
    signal: AbortSignal | null | undefined,
    close: () => void
  ): ReadableStream<Uint8Array> => {
    const items = expandSse(step.sse ?? [])
    const encoder = new TextEncoder()
    let at = 0
    let hasFailed = false
    const fail = (controller: ReadableStreamDefaultController<Uint8Array>, reason: unknown): void => {
      if (hasFailed) return
      hasFailed = true
      close()
      time.touch()
      controller.error(reason)
    }
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          signal?.addEventListener("abort", () => fail(controller, signal.reason), { once: true })
        },
        pull: async (controller) => {
          time.touch()
          for (;;) {
            const item = items[at]
            at += 1
            if (hasFailed) return
            if (item === undefined) {
              if (step.end === "hang") return new Promise<void>(() => undefined)
              if (step.end === "reset") return fail(controller, networkError("ECONNRESET"))
              close()
              hasFailed = true
              return controller.close()
            }
            if (item.waitMs !== undefined) {
              const isCut = await time.sleep(item.waitMs, signal).then(
                () => false,
                () => true
              )
              if (isCut) return
              continue
            }
            return controller.enqueue(encoder.encode(sseText(item)))
          }
        },
        cancel: () => {
          hasFailed = true
          close()
          time.touch()
        }
      },
      { highWaterMark: 0 }
    )
  }

  const answer = async (role: string, body: unknown, signal: AbortSignal | null | undefined): Promise<Response> => {
    const step = book.next(role, body, time.now())
    if (step === null) return new Response(endOfScript.body, { status: endOfScript.status, headers: jsonHeaders })
    const close = book.open()
    const aborted = (): never => {
      close()
      throw signal?.reason
    }
    if (step.delayMs !== undefined && step.delayMs > 0) await time.sleep(step.delayMs, signal).catch(aborted)
    if (step.network === "hang") {
      await new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve(), { once: true }))
      time.touch()
      return aborted()
    }
    if (step.network !== undefined) {
      close()
      throw networkError(step.network)
    }
    const status = step.http ?? 200
    if (step.sse !== undefined)
      return new Response(sse(step, signal, close), {
        status,
        headers: headersOf(step, { "content-type": "text/event-stream" })
      })
    close()
    const text = step.rawBody ?? JSON.stringify(book.bodyOf(step))
    return new Response(isBodiless(status) ? null : text, { status, headers: headersOf(step, jsonHeaders) })
  }

  return {
    ...book.provider,
    requests: book.provider.requests,
    fetch: async (_input, init) => {
      time.touch()
      const headers = new Headers(init?.headers)
      const role = headers.get(roleHeader) ?? "main"
      const text = init?.body
      const body: unknown = typeof text === "string" ? JSON.parse(text) : null
      if (init?.signal?.aborted === true) throw init.signal.reason
      const response = await answer(role, body, init?.signal)
      time.touch()
      return response
    }
  }
}

export interface Loopback extends DrillProvider {
  readonly baseUrl: string
  readonly close: () => Promise<void>
}

const readBody = async (request: IncomingMessage): Promise<unknown> => {
  const parts: Array<Buffer> = []
  for await (const part of request) parts.push(part)
  const text = Buffer.concat(parts).toString("utf8")
  return text === "" ? null : JSON.parse(text)
}

const pause = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

/** The same script behind a real server on 127.0.0.1, in real time. */
export const loopback = async (scenario: Scenario): Promise<Loopback> => {
  const book = makeBook(scenario)
  const startedAt = performance.now()
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const role = request.headers[roleHeader]
    const body = await readBody(request)
    const step = book.next(typeof role === "string" ? role : "main", body, performance.now() - startedAt)
    if (step === null) {
      response.writeHead(endOfScript.status, jsonHeaders).end(endOfScript.body)
      return
    }
    const close = book.open()
    response.once("close", close)
    if (step.delayMs !== undefined) await pause(step.delayMs)
    if (step.network === "hang") return
    if (step.network !== undefined) {
      request.socket.destroy()
      return
    }
    const status = step.http ?? 200
    const headers = Object.fromEntries(
      headersOf(step, step.sse === undefined ? jsonHeaders : { "content-type": "text/event-stream" })
    )
    response.writeHead(status, headers)
    if (step.sse === undefined) {
      response.end(step.rawBody ?? JSON.stringify(book.bodyOf(step)))
      return
    }
    response.flushHeaders()
    const closed = new Promise<void>((resolve) => response.once("close", resolve))
    for (const item of expandSse(step.sse)) {
      if (response.destroyed) return
      if (item.waitMs !== undefined) await Promise.race([pause(item.waitMs), closed])
      else response.write(sseText(item))
    }
    if (step.end === "reset") {
      // What was written must arrive before the reset.
      await pause(5)
      request.socket.resetAndDestroy()
    } else if (step.end !== "hang") response.end()
  }
  const server: Server = createServer((request, response) => {
    respond(request, response).catch(() => request.socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address() as AddressInfo
  return {
    ...book.provider,
    requests: book.provider.requests,
    baseUrl: `http://127.0.0.1:${address.port}/v1`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      })
  }
}
