/**
 * The default transport of the adapters: a `fetch` over undici's request API. It skips what a model call never needs of
 * the Fetch standard (CORS, cookies, redirects, integrity) and has no time-outs of its own: recovery's timers rule.
 * Give an adapter your own `fetch`, client or proxy options to use something else.
 */
import type { Dispatcher } from "undici"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { proxiesOf, type Proxies } from "./proxies.ts"
import { environment } from "./runtime.ts"
import { undiciParts, type UndiciParts } from "./undiciParts.ts"

/** What the SDKs hand to a fetch and read of it. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>

/** Statuses that never have a body: `new Response` refuses one. */
const isBodiless = (status: number): boolean => status === 204 || status === 205 || status === 304

/** Name and value of every header line: what `new Response` reads at once. */
const headerLines = (raw: Dispatcher.ResponseData["headers"]): Array<[string, string]> => {
  const lines: Array<[string, string]> = []
  for (const [name, value] of Object.entries(raw)) {
    if (value === undefined) continue
    if (Array.isArray(value)) for (const one of value) lines.push([name, one])
    else lines.push([name, value])
  }
  return lines
}

const agentOptions = {
  headersTimeout: 0,
  bodyTimeout: 0,
  keepAliveTimeout: 10_000,
  connect: { timeout: 30_000 }
} as const

/** Nothing compressed is asked for; some proxies send it all the same. */
const agentOf = ({ Agent, EnvHttpProxyAgent, decompress }: UndiciParts, proxies: Proxies | null): Dispatcher =>
  (proxies === null ? new Agent(agentOptions) : new EnvHttpProxyAgent({ ...agentOptions, ...proxies })).compose(
    decompress({ skipErrorResponses: false })
  )

/** One agent for all calls of a process that go the same way: connections are kept alive and reused. */
const shared = new Map<string, Dispatcher>()
const sharedAgent = (parts: UndiciParts, proxies: Proxies | null): Dispatcher => {
  const way = JSON.stringify(proxies)
  const known = shared.get(way)
  if (known !== undefined) return known
  const agent = agentOf(parts, proxies)
  shared.set(way, agent)
  return agent
}

const plainHeaders = (headers: RequestInit["headers"]): Record<string, string> => {
  const plain: Record<string, string> = {}
  const given = headers instanceof Headers ? headers : new Headers(headers ?? {})
  given.forEach((value, name) => {
    plain[name] = value
  })
  return plain
}

const originOf = (url: URL): string => `${url.protocol}//${url.host}`

/** What an SDK's `fetchOptions` add to a call. */
const dispatcherIn = (init: RequestInit | undefined): unknown =>
  init === undefined ? undefined : Reflect.get(init, "dispatcher")

const isDispatcher = (value: unknown): value is Dispatcher =>
  typeof value === "object" && value !== null && typeof Reflect.get(value, "dispatch") === "function"

/** A dispatcher of an undici that speaks another dialect: it has refused the request before anything was sent. */
const isForeign = (cause: unknown): boolean =>
  cause instanceof Error && Reflect.get(cause, "code") === "UND_ERR_INVALID_ARG"

/** A caller's dispatcher, asked in our dialect first and in the platform's when it does not understand that. */
const requestOver = async (
  parts: UndiciParts,
  given: Dispatcher,
  url: URL,
  init: RequestInit
): Promise<Response | Dispatcher.ResponseData> => {
  try {
    return await parts.request(given, optionsOf(url, init))
  } catch (cause) {
    if (!isForeign(cause)) throw cause
    const foreign: RequestInit = { ...init }
    Reflect.set(foreign, "dispatcher", given)
    return fetch(url, foreign)
  }
}

const optionsOf = (url: URL, init: RequestInit | undefined) =>
  ({
    origin: originOf(url),
    path: `${url.pathname}${url.search}`,
    method: (init?.method ?? "GET") as Dispatcher.HttpMethod,
    headers: plainHeaders(init?.headers),
    body: typeof init?.body === "string" ? init.body : null,
    signal: init?.signal ?? null
  }) as const

/** The SDKs send JSON texts; anything else is the platform fetch's business. */
const isPlain = (body: RequestInit["body"]): boolean => body === undefined || body === null || typeof body === "string"

const over =
  (parts: UndiciParts, agent: Dispatcher, isOurs: boolean, isTextKept = false): Fetch =>
  async (input, init) => {
    if (!isPlain(init?.body)) return fetch(input, init)
    const url = new URL(input instanceof Request ? input.url : input)
    const given = dispatcherIn(init)
    if (given !== undefined && !isDispatcher(given))
      throw new ConfigurationError({ field: "fetchOptions.dispatcher", reason: "is no dispatcher of undici" })
    const answer =
      given === undefined && isOurs
        ? await parts.request(agent, optionsOf(url, init))
        : await requestOver(parts, given ?? agent, url, init ?? {})
    return answer instanceof Response ? answer : responseOf(answer, isTextKept)
  }

/** Read at once, it costs less; a body that names no length, or was compressed, is read as far as its limit goes. */
const isSmallJson = ({ statusCode, headers }: Dispatcher.ResponseData): boolean =>
  statusCode < 400 &&
  /\bjson\b/i.test(String(headers["content-type"] ?? "")) &&
  headers["content-encoding"] === undefined &&
  Number(headers["content-length"] ?? Number.POSITIVE_INFINITY) <= smallBytes

const smallBytes = 1_048_576

const texts = new WeakMap<Response, string>()

/** The body of an answer that came over `makeWithTexts` and was small; null = it is in the answer itself. */
export const textOf = (response: Response): string | null => texts.get(response) ?? null

const responseOf = async (answer: Dispatcher.ResponseData, isTextKept: boolean): Promise<Response> => {
  const headers = headerLines(answer.headers)
  if (isBodiless(answer.statusCode)) {
    await answer.body.dump()
    return new Response(null, { status: answer.statusCode, headers })
  }
  const content = isSmallJson(answer) ? await answer.body.text().catch(brokenBody) : webStream(answer.body)
  const isKept = isTextKept && typeof content === "string"
  const response = new Response(isKept ? null : content, { status: answer.statusCode, headers })
  if (isKept) texts.set(response, content)
  return response
}

/** The platform's fetch, read at call time: a program may replace it. */
const platform: Fetch = (input, init) => fetch(input, init)

/**
 * Over a dispatcher of the caller's, or over the process's shared agent, which goes through the proxies of the
 * environment. Where undici is not to be had it is the platform's fetch.
 */
export const make = (dispatcher?: Dispatcher): Fetch => {
  // Read also where undici is not: a bad address is told before the first request.
  const proxies = proxiesOf(environment())
  const parts = undiciParts()
  if (parts === null) return platform
  return dispatcher === undefined ? over(parts, sharedAgent(parts, proxies), true) : over(parts, dispatcher, false)
}

/** The process's shared agent itself; null = undici is not here. */
export const processDispatcher = (): Dispatcher | null => {
  const proxies = proxiesOf(environment())
  const parts = undiciParts()
  return parts === null ? null : sharedAgent(parts, proxies)
}

/** The same for who asks `textOf`: a small JSON body is not made a stream and read out of it again. */
export const makeWithTexts = (): Fetch => {
  const proxies = proxiesOf(environment())
  const parts = undiciParts()
  return parts === null ? platform : over(parts, sharedAgent(parts, proxies), true, true)
}

/** Without any proxy: for servers of our own on loopback. */
export const makeDirect = (): Fetch => {
  const parts = undiciParts()
  return parts === null ? platform : over(parts, sharedAgent(parts, null), true)
}

/** A body that broke off: the answer's status and headers stand, and who reads the body is told. */
const brokenBody = (cause: unknown): ReadableStream<Uint8Array> =>
  new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(cause) }, { highWaterMark: 0 })

/** One chunk per network read, pulled: nothing is read that nobody takes. */
const webStream = (body: Dispatcher.ResponseData["body"]): ReadableStream<Uint8Array> => {
  const iterator: AsyncIterator<Uint8Array> = body[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const next = await iterator.next()
        if (next.done === true) controller.close()
        else controller.enqueue(next.value)
      },
      cancel: () => {
        body.on("error", () => undefined)
        body.destroy()
      }
    },
    { highWaterMark: 0 }
  )
}
