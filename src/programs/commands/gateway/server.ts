/**
 * The gateway as an HTTP server. Every request is looked at from the outside in: its target, who asks, whether there is
 * room, its body, its route, its budget; then the one seam of native requests answers it.
 */
import { createHash } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo, Socket } from "node:net"
import { parsedObject } from "../../../domain/chat/json.ts"
import type { NativeReceipt } from "../../../layers/native/callNative.ts"
import * as answers from "./answers.ts"
import type { AnswerWire } from "./answers.ts"
import type { Budgets } from "./budgets.ts"
import { endpointOf, targetOf, type Endpoint, type Target } from "./endpoints.ts"
import { isLoopback, type GatewayConfig, type GatewayKey, type ResolvedRoute } from "./GatewayConfig.ts"
import { goneSignal, headersOnward, jsonAnswer, readRequestBody, writeAnswer } from "./httpBridge.ts"
import type { makeKeyCheck } from "./keys.ts"
import { makeFailedLately, type FailedLately } from "./failedLately.ts"
import { makeRuns, type Runs } from "./runs.ts"

export type Wire = NonNullable<AnswerWire>

/** One call of the three APIs, ready to be answered. */
export interface GatewayCall {
  readonly wire: Wire
  readonly route: ResolvedRoute
  /** Model that takes over for this request only; null = the route's own fallbacks alone. */
  readonly fallback: string | null
  readonly target: Target
  readonly headers: Record<string, string>
  readonly text: string
  readonly signal: AbortSignal
  readonly onEnd: (receipt: NativeReceipt) => void
}

/** What the server asks others to do. Everything in it is of one configuration: a reload brings a new one. */
export interface GatewayParts {
  readonly config: GatewayConfig
  readonly keyOf: ReturnType<typeof makeKeyCheck>
  readonly native: (call: GatewayCall) => Promise<Response>
  /** Any other call of the API. */
  readonly proxy: (call: {
    readonly method: string
    readonly target: Target
    readonly headers: Record<string, string>
    readonly body: Buffer | null
    readonly signal: AbortSignal
  }) => Promise<Response>
  /** The pages of the gateway itself; null = there is none of that kind. */
  readonly page: (endpoint: Endpoint, accept: string) => Promise<Response | null>
  readonly worstOf: (
    route: ResolvedRoute,
    text: string,
    body: Readonly<Record<string, unknown>>
  ) => { readonly tokens: number; readonly usd: number | null }
}

export interface GatewayServer {
  readonly address: string
  /** New requests are answered by these parts; those under way keep theirs. */
  readonly use: (parts: GatewayParts) => void
  readonly inFlight: () => number
  /** Takes no further request, lets those under way end within so many milliseconds, then cuts them. */
  readonly drain: (graceMillis: number) => Promise<void>
}

export interface ServerOptions {
  readonly parts: GatewayParts
  readonly budgets: Budgets
  /** Told once per request that was answered. */
  readonly onServed?: (served: { readonly status: number; readonly tookMs: number }) => void
  /** Told of what broke, without what it was working on. */
  readonly onFault: (cause: unknown) => void
}

/** Time for a request's headers and for its whole, in milliseconds: who is slower is told so and cut. */
const headersMillis = 20_000
const requestMillis = 120_000
/** Longest headers in all: clients send identifiers of a kilobyte and more. */
const maxHeaderBytes = 65_536

const wireOf = (endpoint: Endpoint, path: string): AnswerWire =>
  endpoint._tag === "Native" ? endpoint.wire : path.startsWith("/v1/messages") ? "messages" : "chat"

const routeFor = (config: GatewayConfig, wire: Wire, model: string | null): ResolvedRoute | null =>
  (model === null ? undefined : config.routes.get(model)) ??
  config.routes.get(`* ${wire}`) ??
  config.routes.get("*") ??
  null

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** The body of a call as text and as an object; or the refusal that says what is wrong with it. */
const readCall = (
  wire: Wire,
  body: Buffer
): { readonly text: string; readonly object: Readonly<Record<string, unknown>> } | Response => {
  let text: string
  try {
    text = utf8.decode(body)
  } catch {
    return answers.badRequest(wire, "The body is not UTF-8.")
  }
  const object = parsedObject(text)
  return object === null ? answers.badRequest(wire, "The body is not a JSON object.") : { text, object }
}

const modelIn = (object: Readonly<Record<string, unknown>>): string | null => {
  const { model } = object
  return typeof model === "string" && model !== "" ? model : null
}

/** Whether the other end of a connection is this machine. */
const isLocal = (socket: Socket): boolean => {
  const address = (socket.remoteAddress ?? "").replace(/^::ffff:/, "")
  return isLoopback(address)
}

/** One request on its way through the gateway. */
interface Visit {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly parts: GatewayParts
  readonly budgets: Budgets
  readonly runs: Runs
  readonly failedLately: FailedLately
  readonly key: GatewayKey | null
  readonly endpoint: Endpoint
  readonly target: Target
  readonly wire: AnswerWire
}

const onNative = async (visit: Visit, wire: Wire): Promise<Response> => {
  const { parts, request, response } = visit
  const { config } = parts
  const encoding = request.headers["content-encoding"]
  if (encoding !== undefined && encoding !== "identity")
    return answers.refuse(wire, {
      status: 415,
      type: "invalid_request_error",
      anthropicType: "invalid_request_error",
      code: "unsupported_encoding",
      message: "Send the body as it is, without a content-encoding."
    })
  const body = await readRequestBody(request, config.bodyBytes)
  if (body === "too_large") return answers.tooLarge(wire, config.bodyBytes)
  if (body === "broken") return answers.badRequest(wire, "The body did not come whole.")
  const read = readCall(wire, body)
  if (read instanceof Response) return read
  const model = modelIn(read.object)
  if (model === null)
    return answers.badRequest(wire, "The field model is missing: it names the model to ask.", "model_required")
  const asked = routeFor(config, wire, model)
  if (asked === null)
    return answers.notFound(
      wire,
      `No route serves the model ${JSON.stringify(model.slice(0, 200))}.`,
      "model_not_found"
    )
  const id = request.headers["x-holdfast-run-id"]
  if (id === undefined || id === "") return askOnce(visit, { wire, asked, ...read }, goneSignal(response))
  return onRun(visit, { wire, asked, ...read }, String(id))
}

/** A request that has been read and has a route. */
interface ReadCall {
  readonly wire: Wire
  readonly asked: ResolvedRoute
  readonly text: string
  readonly object: Readonly<Record<string, unknown>>
}

/** A run is its caller's: the id of another key is another run. */
const onRun = async (visit: Visit, call: ReadCall, id: string): Promise<Response> => {
  const { wire } = call
  const { request, runs, key, target } = visit
  if (!/^[\w.:-]{1,128}$/.test(id))
    return answers.badRequest(wire, "The header x-holdfast-run-id is not 1 to 128 letters, digits or any of _ . : -")
  const given = String(request.headers["x-holdfast-offset"] ?? "0")
  if (!/^\d{1,15}$/.test(given))
    return answers.badRequest(wire, "The header x-holdfast-offset is not a number of bytes.")
  const digest = createHash("sha256").update(`${target.path}\n${call.text}`).digest("hex")
  // Leaving does not end it: that is what the id is there for.
  const goesOn = new AbortController().signal
  const attached = await runs.attach(`${key?.name ?? ""}\u0000${id}`, digest, Number(given), () =>
    askOnce(visit, call, goesOn)
  )
  switch (attached._tag) {
    case "Answer":
      return attached.answer
    case "Other":
      return answers.runRefused(wire, 409, "The x-holdfast-run-id is that of another request.")
    case "Gone":
      return answers.runRefused(wire, 410, "The bytes at x-holdfast-offset are not kept any more.")
    case "Beyond":
      return answers.runRefused(wire, 416, "The answer ended before x-holdfast-offset.")
  }
}

/** What is asked of whom; not the body as it is, since agents write a new turn's number into each repetition. */
const digestOf = ({ key, target, request }: Visit, { object }: ReadCall): string => {
  const fallback = request.headers["x-holdfast-fallback"] ?? ""
  const asked = [key?.name ?? "", target.path, fallback, object["model"], object["messages"] ?? object["input"]]
  return createHash("sha256").update(JSON.stringify(asked)).digest("hex")
}

/** Recovery has tried for as long as it may: the same request at once would only do it all again. */
const isExhausted = (answer: Response, began: number): boolean =>
  (answer.status >= 500 || answer.status === 408) &&
  answer.headers.get("x-should-retry") === "false" &&
  answer.headers.has("x-holdfast-trail") &&
  performance.now() - began > worthKeepingMillis

/** A failure that came at once costs little to come by again. */
const worthKeepingMillis = 1_000

/** Asks; or tells again what the very same request was told a moment ago, when its client does not read what it is told. */
const askOnce = async (visit: Visit, call: ReadCall, signal: AbortSignal): Promise<Response> => {
  const { failedLately } = visit
  const told = failedLately.again(() => digestOf(visit, call))
  if (told !== null)
    return new Response(told.body, {
      status: told.status,
      headers: [
        ...told.headers.map(([name, value]): [string, string] => [name, value]),
        ["x-holdfast-repeated", "true"]
      ]
    })
  const began = performance.now()
  const answer = await askNative(visit, call, signal)
  if (!isExhausted(answer, began)) return answer
  const body = await answer.clone().text()
  failedLately.keep(digestOf(visit, call), { status: answer.status, headers: [...answer.headers], body })
  return answer
}

const askNative = async (visit: Visit, call: ReadCall, signal: AbortSignal): Promise<Response> => {
  const { wire, asked, text, object } = call
  const { parts, request, budgets, key, target } = visit
  const { config } = parts
  const admitted = budgets.admit(key, parts.worstOf(asked, text, object))
  const route = admitted._tag === "Admitted" ? asked : cheaperOf(config, key)
  if (route === null || (admitted._tag === "Refused" && route === asked))
    return admitted._tag === "Refused"
      ? answers.overBudget(wire, admitted.limit, admitted.seconds)
      : answers.broken(wire)
  const fallback = request.headers["x-holdfast-fallback"]
  return parts.native({
    wire,
    route,
    fallback: typeof fallback === "string" && fallback !== "" ? fallback : null,
    target,
    headers: onwardFor(visit, route),
    text,
    signal,
    onEnd: ({ billed, trail }) => {
      if (admitted._tag !== "Admitted") return
      const usd = trail.reduce<number | null>(
        (sum, { costUsd }) => (sum === null || costUsd === null ? null : sum + costUsd),
        0
      )
      admitted.settle({ tokens: (billed.promptTokens ?? 0) + (billed.completionTokens ?? 0), usd })
    }
  })
}

/** The route that serves a key whose budget in USD is used up; null = none does. */
const cheaperOf = (config: GatewayConfig, key: GatewayKey | null): ResolvedRoute | null => {
  const name = key?.budget?.cheaperRoute
  return name === undefined ? null : (config.routes.get(name) ?? null)
}

/** A gateway without keys and an upstream without one pass the caller's own on: that is what it is there for. */
const onwardFor = (visit: Visit, route: ResolvedRoute | null): Record<string, string> => {
  const headers = headersOnward(visit.request)
  if (visit.parts.config.keys.length > 0 || (route !== null && route.upstream.apiKey !== null)) return headers
  for (const name of ["authorization", "x-api-key", "api-key"]) {
    const value = visit.request.headers[name]
    if (typeof value === "string") headers[name] = value
  }
  return headers
}

const onProxied = async (visit: Visit): Promise<Response> => {
  const { parts, request, response, target, wire } = visit
  const method = request.method ?? "GET"
  const hasBody = method !== "GET" && method !== "HEAD"
  const body = hasBody ? await readRequestBody(request, parts.config.bodyBytes) : null
  if (body === "too_large") return answers.tooLarge(wire, parts.config.bodyBytes)
  if (body === "broken") return answers.badRequest(wire, "The body did not come whole.")
  return parts.proxy({ method, target, headers: onwardFor(visit, null), body, signal: goneSignal(response) })
}

const answerTo = async (visit: Visit): Promise<Response> => {
  const { endpoint, parts, target, wire, request } = visit
  switch (endpoint._tag) {
    case "Native":
      return onNative(visit, endpoint.wire)
    case "Proxied":
      return onProxied(visit)
    case "Unknown":
      return answers.notFound(wire, `There is nothing at ${request.method ?? "GET"} ${target.path.slice(0, 200)}.`)
    case "Crooked":
      return answers.badRequest(wire, "The path is written in a way that could mean another one.")
    default:
      return (
        (await parts.page(endpoint, request.headers.accept ?? "")) ?? answers.notFound(wire, "There is no such page.")
      )
  }
}

const isOpenToAll = (endpoint: Endpoint): boolean => endpoint._tag === "Health" || endpoint._tag === "Ready"

/** Pages of the gateway are for this machine, and for those who have a key; its API is for those who have a key. */
const mayEnter = (endpoint: Endpoint, config: GatewayConfig, key: GatewayKey | null, socket: Socket): boolean => {
  if (isOpenToAll(endpoint)) return true
  if (config.keys.length === 0) return isLocal(socket)
  const isOwnPage = ["Metrics", "Trail", "Dashboard"].includes(endpoint._tag)
  return key !== null || (isOwnPage && isLocal(socket))
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
  const body = JSON.stringify({ error: { message: words, type: "invalid_request_error", param: null, code: null } })
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`
  )
}

interface State {
  parts: GatewayParts
  inFlight: number
  isDraining: boolean
  readonly runs: Runs
  readonly failedLately: FailedLately
}

const serve = async (
  state: State,
  options: ServerOptions,
  request: IncomingMessage,
  response: ServerResponse
): Promise<void> => {
  const { parts } = state
  const target = targetOf(request.url ?? "")
  if (target === null) return writeAnswer(answers.badRequest(null, "The target of the request is no path."), response)
  const endpoint = endpointOf(request.method ?? "GET", target.path)
  const wire = wireOf(endpoint, target.path)
  const key = parts.keyOf(request.headers)
  if (!mayEnter(endpoint, parts.config, key, request.socket)) return writeAnswer(answers.unauthorized(wire), response)
  if (state.isDraining && !isOpenToAll(endpoint)) {
    response.setHeader("connection", "close")
    return writeAnswer(answers.busy(wire, 1, "The gateway is about to stop."), response)
  }
  if (endpoint._tag === "Ready" && state.isDraining) return writeAnswer(jsonAnswer(503, { ready: false }), response)
  if (endpoint._tag === "Native" && state.inFlight > parts.config.concurrent)
    return writeAnswer(answers.busy(wire, 1, "The gateway has as many requests under way as it takes."), response)
  const visit: Visit = {
    request,
    response,
    parts,
    budgets: options.budgets,
    runs: state.runs,
    failedLately: state.failedLately,
    key,
    endpoint,
    target,
    wire
  }
  const answer = await answerTo(visit).catch((cause: unknown) => {
    // A client that has left is no fault of the gateway.
    if (!response.destroyed) options.onFault(cause)
    return answers.broken(wire)
  })
  return writeAnswer(answer, response)
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
    runs: makeRuns(() => Date.now()),
    failedLately: makeFailedLately(() => Date.now())
  }
  const server = createServer(
    {
      headersTimeout: headersMillis,
      requestTimeout: requestMillis,
      maxHeaderSize: maxHeaderBytes,
      keepAliveTimeout: 75_000,
      connectionsCheckingInterval: 1_000
    },
    (request, response) => {
      const began = performance.now()
      state.inFlight += 1
      response.on("close", () => {
        state.inFlight -= 1
        // A connection that is kept for a next request would hold the gateway up.
        if (state.isDraining) setImmediate(() => server.closeIdleConnections())
        options.onServed?.({ status: response.statusCode, tookMs: performance.now() - began })
      })
      serve(state, options, request, response).catch((cause: unknown) => {
        options.onFault(cause)
        response.destroy()
      })
    }
  )
  server.on("clientError", (error, socket) => onClientFault(error, socket))
  const { host, port } = options.parts.config
  const address = await openOn(server, host.replace(/^\[|\]$/g, ""), port)
  return {
    address: `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${address.port}`,
    use: (parts) => {
      state.parts = parts
    },
    inFlight: () => state.inFlight,
    drain: (graceMillis) =>
      new Promise((resolve) => {
        state.isDraining = true
        const cut = setTimeout(() => server.closeAllConnections(), graceMillis)
        server.close(() => {
          clearTimeout(cut)
          resolve()
        })
        server.closeIdleConnections()
      })
  }
}
