/**
 * The exchange over Node's own fetch, as far as it is one: the same dispatcher, so the same connections, proxies, time-outs
 * and mocks, and the same headers, without a Request, a Response and a stream for each call. What it cannot say so goes
 * through the fetch itself: another platform, a fetch or an option of the caller's own, the first call of a process.
 */
import type { ByteSource } from "../../programs/request/ByteSource.ts"
import { sourceOf, streamOf } from "./byteStreams.ts"
import { exchangeOver, type Begun, type Exchange, type Outgoing, type RawAnswer } from "./exchange.ts"
import { DispatchedExchange, placeOf, type HeaderLines } from "./DispatchedExchange.ts"
import { isNode } from "./isNode.ts"
import type { Fetch } from "./undiciFetch.ts"

/** A name or a value of a header as the parser gives it. */
interface Latin1 {
  readonly toString: (encoding: "latin1") => string
}

/** The handler that every dispatcher understands which Node's fetch may be given. */
interface Handler {
  readonly onConnect: (abort: (reason: Error) => void) => void
  readonly onHeaders: (status: number, lines: ReadonlyArray<Latin1>, resume: () => void) => boolean
  readonly onData: (chunk: Uint8Array) => boolean
  readonly onComplete: () => void
  readonly onError: (cause: Error) => void
}

interface Dispatch {
  readonly dispatch: (options: object, handler: Handler) => unknown
}

/** Node's fetch loads undici when it is called: that no other function does. */
const isNodes = (send: unknown): boolean =>
  isNode() &&
  typeof send === "function" &&
  /\binternal\/deps\/undici\/undici\b/.test(Function.prototype.toString.call(send))

const known = new WeakMap<object, boolean>()

const isNodesFetch = (send: Fetch): boolean => {
  const found = known.get(send) ?? isNodes(send)
  known.set(send, found)
  return found
}

/** The dispatcher of Node's fetch, or what a program has put in its place; null = nothing was fetched yet. */
const dispatcher = (): Dispatch | null => {
  const found: unknown = Reflect.get(globalThis, Symbol.for("undici.globalDispatcher.1"))
  return typeof found === "object" && found !== null && "dispatch" in found ? (found as Dispatch) : null
}

/** What fetch adds to the headers of a call. */
const fetchHeaders = (headers: Outgoing["headers"]): Record<string, string> => ({
  accept: "*/*",
  "accept-language": "*",
  "sec-fetch-mode": "cors",
  "user-agent": "node",
  "accept-encoding": "gzip, deflate",
  ...headers
})

/** Lines of one name are joined, as fetch does. */
const headersOf = (raw: ReadonlyArray<Latin1>): HeaderLines => {
  // A server may give a header the name of what every object has.
  const headers: Record<string, string | Array<string>> = Object.create(null)
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at]?.toString("latin1").toLowerCase() ?? ""
    const value = raw[at + 1]?.toString("latin1") ?? ""
    const before = headers[name]
    if (before === undefined) headers[name] = value
    else if (name === "set-cookie") headers[name] = Array.isArray(before) ? [...before, value] : [before, value]
    else headers[name] = `${String(before)}, ${value}`
  }
  return headers
}

/** An exchange as the handler of a dispatcher. */
class PlatformHandler implements Handler {
  private readonly exchange: DispatchedExchange
  private isPaused = false
  private goOn: () => void = () => undefined
  private stop: (reason: Error) => void = () => undefined

  constructor(exchange: DispatchedExchange) {
    this.exchange = exchange
  }

  pause(): void {
    this.isPaused = true
  }

  resume(): void {
    this.isPaused = false
    this.goOn()
  }

  abort(reason: Error): void {
    this.stop(reason)
  }

  onConnect(abort: (reason: Error) => void): void {
    this.stop = abort
    this.exchange.onRequestStart(this)
  }

  onUpgrade(): void {
    this.exchange.onRequestUpgrade(this)
  }

  onHeaders(status: number, lines: ReadonlyArray<Latin1>, resume: () => void): boolean {
    this.goOn = resume
    this.exchange.onResponseStart(this, status, headersOf(lines))
    return true
  }

  onData(chunk: Uint8Array): boolean {
    this.exchange.onResponseData(this, chunk)
    return !this.isPaused
  }

  onComplete(): void {
    this.exchange.onResponseEnd()
  }

  onError(cause: Error): void {
    this.exchange.onResponseError(this, cause)
  }
}

const formats = new Map<string, "gzip" | "deflate">([
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"]
])

/** null = what is packed so was not asked for. */
const unpacked = (body: ByteSource, coding: string): ByteSource | null => {
  const format = formats.get(coding)
  if (format === undefined) return null
  const opened = sourceOf(streamOf(body).pipeThrough(new DecompressionStream(format) as never))
  return {
    ...opened,
    // The connection is the packed body's: leaving closes it.
    cancel: () => {
      void opened.cancel()
      return body.cancel()
    }
  }
}

const asFetched = (answer: RawAnswer): RawAnswer => {
  const coding = answer.lines
    .find(([name]) => name === "content-encoding")?.[1]
    .trim()
    .toLowerCase()
  if (coding === undefined || answer.body === null) return answer
  return coding
    .split(/\s*,\s*/)
    .toReversed()
    .reduce<RawAnswer>((packed, one) => {
      const body = packed.body === null ? null : unpacked(packed.body, one)
      return body === null ? packed : { ...packed, body }
    }, answer)
}

const send = (over: Dispatch, { url, method, headers, body }: Outgoing, told: (begun: Begun) => void) => {
  const exchange = new DispatchedExchange((begun) =>
    told("answer" in begun ? { answer: asFetched(begun.answer) } : begun)
  )
  try {
    over.dispatch({ ...placeOf(url), method, headers: fetchHeaders(headers), body }, new PlatformHandler(exchange))
  } catch (cause) {
    told({ cause })
  }
  return () => exchange.cancel() ?? Promise.resolve()
}

const isPlain = ({ init }: Outgoing): boolean => Object.keys(init).length === 0

/** `current`: the fetch that is called at that instant. */
export const platformExchange = (current: () => Fetch): Exchange => {
  const byFetch = exchangeOver((input, init) => current()(input, init))
  return (outgoing, told) => {
    const over = isPlain(outgoing) && isNodesFetch(current()) ? dispatcher() : null
    return over === null ? byFetch(outgoing, told) : send(over, outgoing, told)
  }
}
