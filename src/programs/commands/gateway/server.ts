/**
 * The gateway as an HTTP server. Every request is looked at from the outside in: its target, who asks, whether there is
 * room, its body, its route, its budget; then the one seam of native requests answers it.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import type { Answer } from "./Answer.ts"
import * as answers from "./answers.ts"
import type { AnswerWire } from "./answers.ts"
import type { Budgets } from "./budgets.ts"
import { endpointOf, targetOf, type Endpoint } from "./endpoints.ts"
import { makeFailedLately, type FailedLately } from "./failedLately.ts"
import type { GatewayParts } from "./GatewayParts.ts"
import { goneSignal, readRequestBody } from "./httpBridge.ts"
import { onNative } from "./nativeVisit.ts"
import { needsRoom, refusalOf } from "./refusal.ts"
import { rejoin } from "./rejoin.ts"
import { makeRuns, type Runs } from "./runs.ts"
import { onwardFor, type Visit } from "./Visit.ts"
import { writeAnswer } from "./writeAnswer.ts"

export interface GatewayServer {
  readonly address: string
  /** New requests are answered by these parts; those under way keep theirs. */
  readonly use: (parts: GatewayParts) => void
  readonly inFlight: () => number
  /** Bytes that are kept for clients that may come back. */
  readonly keptBytes: () => number
  /**
   * Refuses further requests, lets those under way end within so many milliseconds, then cuts them. It listens until the
   * last of them has ended, so that who asks whether it is ready is told that it is not.
   */
  readonly drain: (graceMillis: number) => Promise<void>
  /** Cuts what is under way. */
  readonly cut: () => void
}

export interface ServerOptions {
  readonly parts: GatewayParts
  readonly budgets: Budgets
  /** Told once per request that was answered. */
  readonly onServed?: (served: { readonly status: number; readonly tookMs: number }) => void
  /** Told of what broke, without what it was working on. */
  readonly onFault: (cause: unknown) => void
  /** Times for a request's headers and for its whole, milliseconds. Default: 20 s and 2 minutes. */
  readonly times?: { readonly headers: number; readonly whole: number }
}

/** Time for a request's headers and for its whole, in milliseconds: who is slower is told so and cut. */
const headersMillis = 20_000
const requestMillis = 120_000
/** Longest headers in all: clients send identifiers of a kilobyte and more. */
const maxHeaderBytes = 65_536

const wireOf = (endpoint: Endpoint, path: string): AnswerWire =>
  endpoint._tag === "Native" ? endpoint.wire : path.startsWith("/v1/messages") ? "messages" : "chat"

const onProxied = async (visit: Visit): Promise<Answer> => {
  const { parts, request, response, target, wire } = visit
  const method = request.method ?? "GET"
  const hasBody = method !== "GET" && method !== "HEAD"
  const body = hasBody ? await readRequestBody(request, parts.config.bodyBytes) : null
  if (body === "too_large") return answers.tooLarge(wire, parts.config.bodyBytes)
  if (body === "broken") return answers.badRequest(wire, "The body did not come whole.")
  return parts.proxy({
    method,
    key: visit.key?.name ?? null,
    target,
    headers: onwardFor(visit, null),
    body,
    signal: goneSignal(response)
  })
}

const answerTo = async (visit: Visit): Promise<Answer> => {
  const { endpoint, parts, target, wire, request } = visit
  switch (endpoint._tag) {
    case "Native":
      return onNative(visit, endpoint.wire)
    case "Proxied":
      return (await rejoin(visit)) ?? onProxied(visit)
    case "Models":
      // A gateway that serves what is asked for has no names of its own: its upstream has.
      return (await parts.page(endpoint)) ?? onProxied(visit)
    case "Unknown":
      return answers.notFound(wire, `There is nothing at ${request.method ?? "GET"} ${target.path.slice(0, 200)}.`)
    case "Crooked":
      return answers.badRequest(wire, "The path is written in a way that could mean another one.")
    default:
      return (await parts.page(endpoint)) ?? answers.notFound(wire, "There is no such page.")
  }
}

/** A whole answer where there is nothing to answer with but the connection. */
const wordsOnSocket = (status: string, words: string): string => {
  const body = JSON.stringify({ error: { message: words, type: "invalid_request_error", param: null, code: null } })
  return `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`
}

/** A fault of the HTTP itself is answered once, in words, and the connection is closed. */
const onClientFault = (
  error: Error,
  socket: { readonly writable: boolean; end: (text: string) => void; destroy: () => void }
): void => {
  if (!socket.writable) return socket.destroy()
  const code = Reflect.get(error, "code")
  const [status, words] =
    code === "HPE_HEADER_OVERFLOW"
      ? ["431 Request Header Fields Too Large", "The headers are too long."]
      : code === "ERR_HTTP_REQUEST_TIMEOUT"
        ? ["408 Request Timeout", "The request did not come in time."]
        : ["400 Bad Request", "The request is not HTTP as this gateway reads it."]
  socket.end(wordsOnSocket(status, words))
}

interface State {
  parts: GatewayParts
  inFlight: number
  isDraining: boolean
  /** What waits for the last request under way. */
  onIdle: (() => void) | null
  readonly runs: Runs
  readonly failedLately: FailedLately
}

/** A call of the API is under way until its answer is out or its client gone. */
const count = (state: State, response: ServerResponse): void => {
  state.inFlight += 1
  response.on("close", () => {
    state.inFlight -= 1
    if (state.inFlight === 0) state.onIdle?.()
  })
}

const serve = async (
  state: State,
  options: ServerOptions,
  request: IncomingMessage,
  response: ServerResponse
): Promise<void> => {
  const { parts, runs, failedLately } = state
  const { budgets } = options
  const target = targetOf(request.url ?? "")
  if (target === null) return writeAnswer(answers.badRequest(null, "The target of the request is no path."), response)
  const endpoint = endpointOf(request.method ?? "GET", target.path)
  if (needsRoom(endpoint)) count(state, response)
  const wire = wireOf(endpoint, target.path)
  const key = parts.keyOf(request.headers)
  const refusal = refusalOf(state, { request, endpoint, wire, key })
  if (refusal !== null) {
    if (state.isDraining) response.setHeader("connection", "close")
    return writeAnswer(refusal, response)
  }
  const visit: Visit = { request, response, parts, budgets, runs, failedLately, key, endpoint, target, wire }
  const answer = await answerTo(visit).catch((cause: unknown) => {
    // A client that has left is no fault of the gateway.
    if (!response.destroyed) options.onFault(cause)
    return answers.broken(wire)
  })
  return writeAnswer(answer, response)
}

/** Who asks before it sends its body is told to send it, unless it is too large as it is told. */
const onExpected = (
  bodyBytes: number,
  request: IncomingMessage,
  response: ServerResponse,
  handle: (request: IncomingMessage, response: ServerResponse) => void
): void => {
  if (!(Number(request.headers["content-length"] ?? 0) > bodyBytes)) response.writeContinue()
  handle(request, response)
}

const openOn = (server: Server, host: string, port: number): Promise<AddressInfo> =>
  new Promise((resolve, reject) => {
    server.once("error", reject)
    server.listen(port, host, () => {
      server.off("error", reject)
      const address = server.address()
      if (address !== null && typeof address === "object") resolve(address)
    })
  })

/** Listens; rejects when it cannot. */
export const startServer = async (options: ServerOptions): Promise<GatewayServer> => {
  const state: State = {
    parts: options.parts,
    inFlight: 0,
    isDraining: false,
    onIdle: null,
    runs: makeRuns(() => Date.now()),
    failedLately: makeFailedLately(() => Date.now())
  }
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const began = performance.now()
    response.on("close", () => {
      // A connection that is kept for a next request would hold the gateway up.
      if (state.isDraining) setImmediate(() => server.closeIdleConnections())
      options.onServed?.({ status: response.statusCode, tookMs: performance.now() - began })
    })
    serve(state, options, request, response).catch((cause: unknown) => {
      options.onFault(cause)
      response.destroy()
    })
  }
  const server = createServer(
    {
      headersTimeout: options.times?.headers ?? headersMillis,
      requestTimeout: options.times?.whole ?? requestMillis,
      maxHeaderSize: maxHeaderBytes,
      // Node's own answer to its absence has no words.
      requireHostHeader: false,
      keepAliveTimeout: 75_000,
      connectionsCheckingInterval: Math.min(1_000, options.times?.headers ?? headersMillis)
    },
    handle
  )
  server.on("checkContinue", (request, response) => onExpected(state.parts.config.bodyBytes, request, response, handle))
  server.on("checkExpectation", (_request, response) => void writeAnswer(answers.unexpected("chat"), response))
  server.on("connect", (_request, socket) => socket.end(wordsOnSocket("405 Method Not Allowed", "This is no proxy.")))
  server.on("clientError", (error, socket) => onClientFault(error, socket))
  const { host, port } = options.parts.config
  const address = await openOn(server, host.replace(/^\[|\]$/g, ""), port)
  return {
    address: `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${address.port}`,
    use: (parts) => {
      state.parts = parts
    },
    inFlight: () => state.inFlight,
    keptBytes: () => state.runs.bytes(),
    drain: (graceMillis) =>
      new Promise((resolve) => {
        const cut = setTimeout(() => server.closeAllConnections(), graceMillis)
        const close = (): void => {
          state.onIdle = null
          server.close(() => {
            clearTimeout(cut)
            resolve()
          })
          server.closeIdleConnections()
        }
        state.isDraining = true
        state.onIdle = close
        if (state.inFlight === 0) close()
      }),
    cut: () => server.closeAllConnections()
  }
}
