/**
 * A `fetch` that recovers. A POST to one of the three APIs goes through the loop; what only reads is repeated; everything
 * else passes through as it is.
 */
import { parsedObject } from "../../domain/chat/json.ts"
import { profileForBaseUrl } from "../../domain/provider/Profiles.ts"
import { RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"
import { addressOf } from "../../domain/wires/native/addresses.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import type { Fetch } from "../provider/undiciFetch.ts"
import { remember } from "./failureStore.ts"
import { checkOptions, type NativePolicyInput, type RecoveredFetchOptions } from "./fetchOptions.ts"
import { makeNativeCalls, sendingOver, type NativeCalls, type NativeIncoming } from "./nativeCalls.ts"
import { withRealId } from "./realIds.ts"
import { withExchange } from "../provider/exchange.ts"
import { platformExchange } from "../provider/platformExchange.ts"
import { remembered } from "../provider/remembered.ts"
import { toResponse } from "./NativeResponse.ts"
import { passThrough } from "./passThrough.ts"

export type { NativePolicyInput, RecoveredFetchOptions, Upstream } from "./fetchOptions.ts"

interface Incoming {
  readonly url: string
  readonly method: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal | null
  readonly init: RequestInit
  /** null = not a text that can be looked at. */
  readonly text: string | null
}

const decoder = new TextDecoder()

const textOf = (body: unknown): string | null => {
  if (typeof body === "string") return body
  if (body instanceof Uint8Array || body instanceof ArrayBuffer) return decoder.decode(body)
  return null
}

const plainHeaders = (given: RequestInit["headers"]): Record<string, string> => {
  const headers = given instanceof Headers ? given : new Headers(given)
  const plain: Record<string, string> = {}
  headers.forEach((value, name) => {
    plain[name] = value
  })
  return plain
}

/** The call as one shape, whatever was given to fetch. */
const incomingOf = async (input: string | URL | Request, init: RequestInit = {}): Promise<Incoming> => {
  const request = input instanceof Request ? input : null
  const { body, headers, method, signal, ...rest } = init
  const given = body ?? null
  const text =
    given !== null ? textOf(given) : request === null || request.body === null ? null : await request.clone().text()
  return {
    url: request === null ? String(input) : request.url,
    method: (method ?? request?.method ?? "GET").toUpperCase(),
    headers: plainHeaders(headers ?? request?.headers),
    signal: signal ?? request?.signal ?? null,
    init: rest,
    text
  }
}

/** An SDK's own time-out that was lifted says nothing to a server. */
const withoutLifted = (headers: Incoming["headers"]): Incoming["headers"] => {
  if (!(Number(headers["x-stainless-timeout"]) >= 2_147_483)) return headers
  const { "x-stainless-timeout": _, ...others } = headers
  return others
}

const knownAddress = remembered(addressOf)

/** An answer as a Response whose failure can be found by its headers, also one that comes behind them. */
const respond = async (
  calls: NativeCalls,
  incoming: NativeIncoming,
  { onEnd }: RecoveredFetchOptions
): Promise<Response> => {
  const id = calls.nextId()
  let failure: RequestFailure | null = null
  let headers: Headers | null = null
  const onFailed = (found: RequestFailure): void => {
    failure = found
    remember(found, headers, id)
  }
  const answer = await calls.call(incoming, id, { onFailed, ...(onEnd === undefined ? {} : { onEnd }) })
  const response = toResponse(answer)
  headers = response.headers
  if (failure !== null) remember(failure, headers, id)
  return response
}

/** As it came, but for the id of an answer that its provider knows under another. */
const send = (inner: Fetch, input: string | URL | Request, init: RequestInit | undefined): Promise<Response> => {
  const shown = input instanceof Request ? input.url : String(input)
  const real = withRealId(shown)
  if (real === shown) return inner(input, init)
  return inner(input instanceof Request ? new Request(real, input) : real, init)
}

/** The platform's fetch as it is when a call is made: a program may put another in its place. */
const platformFetch = (): Fetch =>
  withExchange(
    (input, init) => fetch(input, init),
    platformExchange(() => fetch)
  )

export const recoveredFetch = (
  policy: NativePolicyInput = RecoveryPolicy.broad,
  options: RecoveredFetchOptions = {}
): Fetch => {
  checkOptions(options)
  const inner = options.fetch ?? platformFetch()
  const calls = makeNativeCalls(policy, options, sendingOver(inner))
  const own = options.baseUrl === undefined ? null : new URL(options.baseUrl).origin
  const isOurs = remembered((url) => own === null || new URL(url).origin === own)

  return async (input, init) => {
    const shown = input instanceof Request ? input.url : String(input)
    if (!/^https?:/i.test(shown) || !isOurs(shown)) return inner(input, init)
    const incoming = await incomingOf(input, init)
    const { text, headers, url, signal } = incoming
    const address = knownAddress(shown)
    const { wire } = address
    const body = wire !== null && incoming.method === "POST" && text !== null ? parsedObject(text) : null
    const view = wire === null || body === null || text === null ? null : wire.view(body, text)
    const isSigned = (headers["authorization"] ?? "").startsWith("AWS4-")
    if (wire === null || view === null || text === null || isSigned)
      return passThrough({
        services: calls.services,
        policy: calls.base,
        incoming,
        send: () => send(inner, input, init),
        profile: options.profile ?? profileForBaseUrl(shown),
        isRepeatable: incoming.method === "GET" || incoming.method === "HEAD" || address.isRepeatable,
        requestId: calls.nextId()
      })
    const native = { url, address, wire, view, text, headers: withoutLifted(headers), init: incoming.init, signal }
    return respond(calls, native, options)
  }
}
