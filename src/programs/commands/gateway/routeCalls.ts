/**
 * Calls of the three APIs over the routes of one configuration: native requests with the route's policy. A few are made
 * per route, however many models and fallbacks callers name.
 */
import type { Json } from "../../../domain/chat/json.ts"
import type { Trail } from "../../../domain/failure/Trail.ts"
import { requestsText } from "../../../domain/failure/wording.ts"
import { addressOf } from "../../../domain/wires/native/addresses.ts"
import type { NativeWire, RequestView } from "../../../domain/wires/native/NativeWire.ts"
import {
  makeNativeCalls,
  profileOf,
  sendingOver,
  type NativeCalls,
  type Sending
} from "../../../layers/native/nativeCalls.ts"
import { checkOptions, type RecoveredFetchOptions } from "../../../layers/native/fetchOptions.ts"
import { undiciExchange } from "../../../layers/provider/undiciExchange.ts"
import { withLine } from "../../request/ByteSource.ts"
import type { RouteInput } from "../../../domain/recovery/RecoveryPolicy.ts"
import * as UndiciFetch from "../../../layers/provider/undiciFetch.ts"
import type { Answer } from "./Answer.ts"
import type { ResolvedRoute } from "./GatewayConfig.ts"
import type { GatewayCall, Wire } from "./GatewayParts.ts"
import type { Shared } from "./Shared.ts"
import { addressAt, headersFor, upstreamOf } from "./upstreams.ts"

const sending = (): Sending => {
  const exchange = undiciExchange()
  return exchange === null ? sendingOver(UndiciFetch.make()) : { exchange, own: null }
}

const optionsOf = (route: ResolvedRoute, wire: Wire, shared: Shared): RecoveredFetchOptions => {
  const { upstream } = route
  const others = new Map(route.fallbacks.map((target) => [target.upstream.name, upstreamOf(target.upstream)]))
  others.delete(upstream.name)
  const { profile } = upstreamOf(upstream)
  return {
    upstreams: Object.fromEntries(others),
    stream: route.stream,
    truncation: route.truncation,
    context: shared.context,
    onEvent: (event) => {
      shared.activity.see(event, route.name, wire)
      shared.meter(event)
    },
    // Looked up once, not for each request.
    profile: profileOf(wire, upstream.baseUrl, profile)
  }
}

const callsOf = (route: ResolvedRoute, wire: Wire, shared: Shared, home: Sending): NativeCalls => {
  const { upstream, policy } = route
  const fallbacks: ReadonlyArray<RouteInput> = route.fallbacks.map((target) => ({
    model: target.model,
    prices: target.prices,
    ...(target.upstream.name === upstream.name ? {} : { client: target.upstream.name })
  }))
  const options = optionsOf(route, wire, shared)
  checkOptions(options)
  return makeNativeCalls({ ...policy, fallbacks }, options, home)
}

/** The body as the upstream is to read it. null = it holds nothing that could be recovered. */
const seen = (
  wire: NativeWire,
  text: string,
  body: Json,
  model: string | null
): { readonly text: string; readonly view: RequestView } | null => {
  const view = wire.view(body, text)
  if (view === null || model === null || model === view.model) return view === null ? null : { text, view }
  const change = { maxOutputTokens: null, leavesHome: false, summary: null, fragments: [], continuationPrompt: "" }
  const changed = wire.patch(text, view, { ...change, model })
  const viewed = wire.view(JSON.parse(changed), changed)
  return viewed === null ? null : { text: changed, view: viewed }
}

/** What all requests used; null when no provider told. A header of an answer that was no stream. */
const billedTokens = (trail: Trail): number | null =>
  trail.reduce<number | null>(
    (sum, { usage: { promptTokens, completionTokens } }) =>
      promptTokens === null && completionTokens === null
        ? sum
        : (sum ?? 0) + (promptTokens ?? 0) + (completionTokens ?? 0),
    null
  )

/** The same as a comment before the last event of a stream. */
const billedText = (trail: Trail): string =>
  `holdfast billed ${billedTokens(trail) ?? "an unknown number of"} tokens in ${requestsText(trail.length)}`

/** `pass`: sends what holds nothing that could be recovered once, as it is. */
export const makeRouteCalls = (shared: Shared, pass: (call: GatewayCall) => Promise<Answer>) => {
  const home = sending()
  const made = new Map<string, NativeCalls>()
  const callsFor = (route: ResolvedRoute, wire: Wire): NativeCalls => {
    const key = `${wire} ${route.name}`
    const known = made.get(key) ?? callsOf(route, wire, shared, home)
    made.set(key, known)
    return known
  }
  return async (call: GatewayCall): Promise<Answer> => {
    const { route, target, signal, fallback } = call
    const url = addressAt(route.upstream, call.wire, target)
    const address = addressOf(url)
    const found = address.wire === null ? null : seen(address.wire, call.text, call.body, route.model)
    if (address.wire === null || found === null) return pass(call)
    const calls = callsFor(route, call.wire)
    const headers = headersFor(route.upstream, call.wire, call.headers)
    const incoming = {
      url,
      address,
      wire: address.wire,
      ...found,
      headers,
      init: {},
      signal,
      prices: route.prices,
      fallback
    }
    let billed: number | null = null
    const id = calls.nextId()
    const answered = await calls.call(incoming, id, {
      onEnd: (receipt) => {
        billed = billedTokens(receipt.trail)
        call.onEnd(receipt)
      },
      onFailed: call.onFailed,
      keepAlive: { afterMillis: shared.keepAliveMillis },
      closing: billedText
    })
    // The name under which `/trail/ID` tells what became of it.
    const answer = { ...answered, lines: withLine(answered.lines, "x-holdfast-request-id", id) }
    // The head of a stream leaves before its end: there the number stands in a comment.
    const told =
      billed === null
        ? answer
        : { ...answer, lines: withLine(answer.lines, "x-holdfast-billed-tokens", String(billed)) }
    if (call.wire !== "responses") return told
    return shared.owners.noted(told, { upstream: answer.client ?? route.upstream.name, key: call.key })
  }
}
