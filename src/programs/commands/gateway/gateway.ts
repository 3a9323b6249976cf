/** A configuration put to work. What outlives a reload (`Shared`) comes in; everything else is made anew. */
import * as UndiciFetch from "../../../layers/provider/undiciFetch.ts"
import { recoveredFetch } from "../../../layers/native/recoveredFetch.ts"
import { answerOf, jsonAnswer } from "./Answer.ts"
import type { GatewayConfig, ResolvedRoute } from "./GatewayConfig.ts"
import type { GatewayParts, ProxiedCall, Wire } from "./GatewayParts.ts"
import { makeKeyCheck } from "./keys.ts"
import { pageOf } from "./pages.ts"
import { makeRouteCalls } from "./routeCalls.ts"
import type { Shared } from "./Shared.ts"
import { addressAt, headersFor, upstreamOf } from "./upstreams.ts"
import { worstOf } from "./worst.ts"

export { makeShared, type Shared } from "./Shared.ts"

type Passing = (wire: Wire, route: ResolvedRoute | null, call: ProxiedCall) => ReturnType<GatewayParts["proxy"]>

/** Other paths go where requests go that no route names. */
const homeOf = (config: GatewayConfig, wire: Wire): ResolvedRoute | null =>
  config.routes.get(`* ${wire}`) ?? config.routes.get("*") ?? [...config.routes.values()][0] ?? null

const makePassing = (shared: Shared): Passing => {
  const transport = UndiciFetch.make()
  const fetches = new Map<ResolvedRoute, typeof fetch>()
  const fetchFor = (route: ResolvedRoute): typeof fetch => {
    const { profile } = upstreamOf(route.upstream)
    const known =
      fetches.get(route) ??
      recoveredFetch(route.policy, {
        fetch: transport,
        context: shared.context,
        ...(profile === undefined ? {} : { profile })
      })
    fetches.set(route, known)
    return known
  }
  return async (wire, route, { method, target, headers, body, signal }) => {
    if (route === null) return jsonAnswer(404, { error: { message: "There is no upstream." } })
    const address = addressAt(route.upstream, target.path, target.query)
    const init = { method, headers: headersFor(route.upstream, wire, headers), signal }
    return answerOf(await fetchFor(route)(address, body === null ? init : { ...init, body: new Uint8Array(body) }))
  }
}

export const makeParts = (config: GatewayConfig, shared: Shared): GatewayParts => {
  const passing = makePassing(shared)
  return {
    config,
    keyOf: makeKeyCheck(config.keys),
    native: makeRouteCalls(shared, ({ wire, route, text, ...call }) =>
      passing(wire, route, { ...call, method: "POST", body: Buffer.from(text) })
    ),
    proxy: (call) => {
      const wire: Wire = call.target.path.startsWith("/v1/messages") ? "messages" : "chat"
      return passing(wire, homeOf(config, wire), call)
    },
    page: (endpoint) => pageOf(config, shared, endpoint),
    worstOf
  }
}
