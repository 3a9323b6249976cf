/**
 * The default transport of the adapters: a `fetch` over undici's request API. It skips what a model call never needs of
 * the Fetch standard (CORS, cookies, redirects, integrity) and has no time-outs of its own: recovery's timers rule.
 * Give an adapter your own `fetch`, client or proxy options to use something else.
 */
import { Agent, interceptors, request, type Dispatcher } from "undici"

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

/** One agent for all calls of a process: connections are kept alive and reused. */
let shared: Dispatcher | undefined
const agentOf = (): Dispatcher =>
  (shared ??= new Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 10_000,
    connect: { timeout: 30_000 }
    // Nothing compressed is asked for; some proxies send it all the same.
  }).compose(interceptors.decompress({ skipErrorResponses: false })))

const plainHeaders = (headers: RequestInit["headers"]): Record<string, string> => {
  const plain: Record<string, string> = {}
  const given = headers instanceof Headers ? headers : new Headers(headers ?? {})
  given.forEach((value, name) => {
    plain[name] = value
  })
  return plain
}

export const make =
  (dispatcher?: Dispatcher): Fetch =>
  async (input, init) => {
    const url = input instanceof Request ? input.url : input
    const body = init?.body
    // The SDKs send JSON texts; anything else is the platform fetch's business.
    if (body !== undefined && body !== null && typeof body !== "string") return fetch(input, init)
    const answer = await request(url, {
      method: init?.method ?? "GET",
      headers: plainHeaders(init?.headers),
      body: body ?? null,
      signal: init?.signal ?? null,
      dispatcher: dispatcher ?? agentOf()
    })
    const headers = headerLines(answer.headers)
    if (isBodiless(answer.statusCode)) {
      await answer.body.dump()
      return new Response(null, { status: answer.statusCode, headers })
    }
    const isWhole = answer.statusCode >= 400 || /\bjson\b/i.test(String(answer.headers["content-type"] ?? ""))
    const content = isWhole ? await answer.body.text().catch(brokenBody) : webStream(answer.body)
    return new Response(content, { status: answer.statusCode, headers })
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
