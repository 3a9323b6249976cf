/** The other paths of the API: each goes to the upstream it belongs to, and is passed on as it is. */
import { isObject, parsedObject } from "../../../domain/chat/json.ts"
import { edited, setField } from "../../../domain/wires/native/JsonText.ts"
import { recoveredFetch } from "../../../layers/native/recoveredFetch.ts"
import * as UndiciFetch from "../../../layers/provider/undiciFetch.ts"
import { answerOf, type Answer } from "./Answer.ts"
import * as answers from "./answers.ts"
import type { GatewayConfig, ResolvedRoute, ResolvedUpstream } from "./GatewayConfig.ts"
import type { GatewayCall, ProxiedCall, Wire } from "./GatewayParts.ts"
import type { Shared } from "./Shared.ts"
import { addressAt, headersFor, upstreamOf } from "./upstreams.ts"

/** Paths that both APIs have are told apart by the header that Anthropic's clients send. */
const wireAt = ({ target: { path }, headers }: Pick<ProxiedCall, "target" | "headers">): Wire => {
  if (path.startsWith("/v1/messages")) return "messages"
  if (path.startsWith("/v1/responses")) return "responses"
  return headers["anthropic-version"] === undefined ? "chat" : "messages"
}

/** Other paths go where requests go that no route names. */
const homeOf = (config: GatewayConfig, wire: Wire): ResolvedRoute | null =>
  config.routes.get(`* ${wire}`) ?? config.routes.get("*") ?? [...config.routes.values()][0] ?? null

/** The only upstream there is may be of the other API: it is asked as its own clients ask it. */
const spokenAt = ({ name }: ResolvedRoute, wire: Wire): Wire => {
  if (name === "* messages") return "messages"
  return name === "* chat" && wire === "messages" ? "chat" : wire
}

/** Longer bodies are files: no model is looked for in them. */
const longestBody = 16 * 1024 * 1024

/** A body that names the model of a route is for that route's upstream, in the name it has there. */
const named = (config: GatewayConfig, { headers, body }: ProxiedCall) => {
  if (body === null || body.length > longestBody || !/\bjson\b/i.test(headers["content-type"] ?? "json")) return null
  const text = body.toString("utf8")
  const parsed = parsedObject(text)
  const model = isObject(parsed) ? parsed["model"] : null
  const route = typeof model === "string" ? config.routes.get(model) : undefined
  if (route === undefined) return null
  return {
    route,
    body:
      route.model === null ? body : Buffer.from(edited(text, [setField(text, "model", JSON.stringify(route.model))]))
  }
}

const responseId = (path: string): string | null => /^\/v1\/responses\/([^/]+)/.exec(path)?.[1] ?? null

type Found =
  | {
      readonly _tag: "To"
      readonly upstream: ResolvedUpstream
      readonly route: ResolvedRoute
      readonly body: Buffer | null
    }
  | { readonly _tag: "Not"; readonly answer: Answer }

const whereTo = (config: GatewayConfig, shared: Shared, call: ProxiedCall, wire: Wire): Found => {
  const home = homeOf(config, wire)
  if (home === null) return { _tag: "Not", answer: answers.notFound(wire, "There is no upstream.") }
  const to = (route: ResolvedRoute, body: Buffer | null, upstream = route.upstream): Found => ({
    _tag: "To",
    upstream,
    route,
    body
  })
  const id = responseId(call.target.path)
  const owner = id === null ? null : shared.owners.of(id)
  if (owner !== null) {
    // Another key's response is none of this caller's: it is told what an unknown one is told.
    if (owner.key !== call.key) return { _tag: "Not", answer: answers.notFound(wire, "There is no such response.") }
    const upstream = config.upstreams.find(({ name }) => name === owner.upstream)
    if (upstream !== undefined) return to(home, call.body, upstream)
  }
  const other = named(config, call)
  return other === null ? to(home, call.body) : to(other.route, other.body)
}

/** What is sent once or repeated, as its address says, to one upstream. */
const makeSending = (shared: Shared) => {
  const transport = UndiciFetch.make()
  const fetches = new Map<string, typeof fetch>()
  return (route: ResolvedRoute, upstream: ResolvedUpstream): typeof fetch => {
    const key = `${route.name}\u0000${upstream.name}`
    const { profile } = upstreamOf(upstream)
    const known =
      fetches.get(key) ??
      recoveredFetch(route.policy, {
        fetch: transport,
        context: shared.context,
        ...(profile === undefined ? {} : { profile })
      })
    fetches.set(key, known)
    return known
  }
}

export const makePassing = (config: GatewayConfig, shared: Shared) => {
  const sending = makeSending(shared)
  const send = async (
    route: ResolvedRoute,
    upstream: ResolvedUpstream,
    wire: Wire,
    call: Omit<ProxiedCall, "key">
  ): Promise<Answer> => {
    const { method, target, headers, body, signal } = call
    const address = addressAt(upstream, wire, target)
    const init = { method, headers: headersFor(upstream, wire, headers), signal }
    const answer = await sending(route, upstream)(
      address,
      body === null ? init : { ...init, body: new Uint8Array(body) }
    )
    return answerOf(answer)
  }
  return {
    proxy: (call: ProxiedCall): Promise<Answer> => {
      const wire = wireAt(call)
      const found = whereTo(config, shared, call, wire)
      if (found._tag === "Not") return Promise.resolve(found.answer)
      return send(found.route, found.upstream, spokenAt(found.route, wire), { ...call, body: found.body })
    },
    /** A call of one of the three APIs that holds nothing that could be recovered: sent once, as it is. */
    asItIs: ({ wire, route, text, target, headers, signal }: GatewayCall): Promise<Answer> =>
      send(route, route.upstream, wire, { method: "POST", target, headers, signal, body: Buffer.from(text) })
  }
}
