/**
 * One HTTP exchange as the native sender needs it: what goes out, the head that comes back, and a body that is taken as it
 * comes. Two transports speak it: any `fetch`, and undici's dispatcher itself (`undiciExchange.ts`), which makes neither
 * Response nor Headers nor a stream.
 */
import type { ByteSource, HeadLines } from "../../programs/request/ByteSource.ts"
import { sourceOf } from "./byteStreams.ts"
import type { Fetch } from "./undiciFetch.ts"

export interface Outgoing {
  readonly url: string
  readonly method: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
  /** Further fields of the caller's fetch. */
  readonly init: RequestInit
}

export interface RawAnswer {
  readonly status: number
  readonly lines: HeadLines
  /** null = there is none. */
  readonly body: ByteSource | null
}

/** How it began: with an answer's head, or not at all. */
export type Begun = { readonly answer: RawAnswer } | { readonly cause: unknown }

/** Sends once and tells once how it began. What comes back takes the request back; it settles when that has happened. */
export type Exchange = (outgoing: Outgoing, told: (begun: Begun) => void) => () => Promise<unknown>

const sourceUnder = (stream: ReadableStream<Uint8Array>, controller: AbortController): ByteSource => {
  const source = sourceOf(stream)
  return {
    take: source.take,
    whenReady: source.whenReady,
    cancel: () => {
      const left = source.cancel()
      if (left !== null) controller.abort()
      return left
    }
  }
}

/** Fetches that can do without Response, Headers and a platform stream, and how. */
const exchanges = new WeakMap<Fetch, Exchange>()

/** A fetch that native requests go past: they use its exchange. */
export const withExchange = (send: Fetch, exchange: Exchange): Fetch => {
  exchanges.set(send, exchange)
  return send
}

export const exchangeOver = (send: Fetch): Exchange => exchanges.get(send) ?? overFetch(send)

const overFetch =
  (send: Fetch): Exchange =>
  ({ url, method, headers, body, init }, told) => {
    const controller = new AbortController()
    const settled = Promise.resolve()
      .then(() =>
        send(url, {
          redirect: "manual",
          ...init,
          method,
          headers: new Headers({ ...headers }),
          ...(body === null ? {} : { body }),
          signal: controller.signal
        })
      )
      .then(
        (response) =>
          told({
            answer: {
              status: response.status,
              lines: [...response.headers],
              body: response.body === null ? null : sourceUnder(response.body, controller)
            }
          }),
        (cause: unknown) => told({ cause })
      )
    return () => {
      controller.abort()
      return settled
    }
  }
