/**
 * A configuration put to work: a recovering fetch per route, the pages, the events of all requests. What outlives a reload
 * (health, budgets, activity, metrics) is made once; everything else is made anew from the configuration.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { PrometheusMetrics } from "effect/observability"
import { worstOf } from "../../../domain/budget/Budget.ts"
import { profileNamed } from "../../../domain/provider/Profiles.ts"
import type { RecoveryEvent } from "../../../domain/recovery/RecoveryEvent.ts"
import type { RouteInput } from "../../../domain/recovery/RecoveryPolicy.ts"
import { addressOf } from "../../../domain/wires/native/addresses.ts"
import { nativeFetch, type NativeFetch, type Upstream } from "../../../layers/native/recoveredFetch.ts"
import * as UndiciFetch from "../../../layers/provider/undiciFetch.ts"
import * as RecoveryMetrics from "../../../layers/RecoveryMetrics.ts"
import * as HealthMemory from "../../../layers/stores/HealthMemory.ts"
import { HealthStore, type HealthStoreShape, type RouteKey } from "../../../services/HealthStore.ts"
import { makeActivity, type Activity } from "./Activity.ts"
import type { Budgets } from "./budgets.ts"
import { dashboardHeaders, dashboardPage } from "./dashboardPage.ts"
import type { Endpoint } from "./endpoints.ts"
import type { GatewayConfig, ResolvedRoute, ResolvedUpstream } from "./GatewayConfig.ts"
import { jsonAnswer } from "./httpBridge.ts"
import { makeKeyCheck } from "./keys.ts"
import type { GatewayCall, GatewayParts, Wire } from "./server.ts"
import * as Redacted from "effect/Redacted"

/** What health last said of a model's route. */
export type RouteState = "closed" | "open" | "ramp"

/** What outlives a reload. */
export interface Shared {
  readonly activity: Activity
  readonly budgets: Budgets
  readonly context: Context.Context<never>
  readonly meter: (event: RecoveryEvent) => Effect.Effect<void>
  readonly states: ReadonlyMap<RouteKey, RouteState>
  readonly inFlight: () => number
  readonly keepAliveMillis: number
}

/** A store that remembers what it last said of each route. */
const watched = (store: HealthStoreShape, states: Map<RouteKey, RouteState>): HealthStoreShape => ({
  admit: (question, tick) =>
    Effect.map(store.admit(question, tick), (admission) => {
      const own = question.candidates[question.asker.own] ?? ""
      if (admission._tag === "Go") {
        const taken = question.candidates[admission.candidate] ?? ""
        states.set(taken, admission.ticket === null ? "closed" : "ramp")
        if (admission.left === "breaker") states.set(own, "open")
      } else if (admission._tag === "Shed" || admission.reason === "breaker") states.set(own, "open")
      return admission
    }),
  report: (report, tick) =>
    Effect.map(store.report(report, tick), (wayOut) => {
      if (wayOut !== null) states.set(report.candidates[report.reporter.own] ?? "", "open")
      return wayOut
    })
})

export const makeShared = (
  budgets: Budgets,
  inFlight: () => number,
  options: { readonly keepAliveMillis?: number } = {}
): Shared => {
  const states = new Map<RouteKey, RouteState>()
  const context = Context.make(HealthStore, watched(HealthMemory.make(), states)).pipe(
    Context.add(Metric.MetricRegistry, new Map())
  )
  return {
    activity: makeActivity(),
    budgets,
    context,
    meter: RecoveryMetrics.make(),
    states,
    inFlight,
    keepAliveMillis: options.keepAliveMillis ?? keepAliveMillis
  }
}

/** The address of an API below an upstream's. Anthropic's is often written without its version. */
const addressAt = (upstream: ResolvedUpstream, path: string, query: string): string => {
  const below = path.replace(/^\/v1/, "")
  const isVersioned = /\/v\d+[a-z]*(\/|$)/.test(new URL(upstream.baseUrl).pathname)
  return `${upstream.baseUrl}${isVersioned || !below.startsWith("/messages") ? "" : "/v1"}${below}${query}`
}

/** The upstream's own key and headers, in the form its API reads. */
const headersFor = (
  upstream: ResolvedUpstream,
  wire: Wire | null,
  onward: Record<string, string>
): Record<string, string> => {
  const headers = { ...onward, ...upstream.headers }
  if (upstream.apiKey === null) return headers
  const key = Redacted.value(upstream.apiKey)
  if (wire === "messages") return { "anthropic-version": "2023-06-01", ...headers, "x-api-key": key }
  return { ...headers, authorization: `Bearer ${key}` }
}

const upstreamOf = (upstream: ResolvedUpstream): Upstream => {
  const profile = upstream.profile === null ? null : profileNamed(upstream.profile)
  return {
    baseUrl: upstream.baseUrl,
    headers: upstream.headers,
    ...(upstream.apiKey === null ? {} : { apiKey: upstream.apiKey }),
    ...(profile === null ? {} : { profile })
  }
}

/** Silence of a stream from which the client is shown that it lives: a proxy with 60 s lets four signs pass. */
const keepAliveMillis = 15_000

/** Fetches that are kept: one per route, model and fallback that was asked for of late. */
const keptFetches = 200

const makeFetches = (shared: Shared) => {
  const transport = UndiciFetch.make()
  const kept = new Map<string, NativeFetch>()
  const make = (route: ResolvedRoute, wire: Wire, model: string, fallback: string | null): NativeFetch => {
    const { upstream, prices } = route
    const further: ReadonlyArray<RouteInput> = route.fallbacks
      .filter((target) => target.upstream.name !== upstream.name || target.model !== model)
      .map((target) => ({
        model: target.model,
        prices: target.prices,
        ...(target.upstream.name === upstream.name ? {} : { client: target.upstream.name })
      }))
    const own = fallback === null || fallback === model ? [] : [{ model: fallback, prices: null }]
    const others = new Map(route.fallbacks.map((target) => [target.upstream.name, upstreamOf(target.upstream)]))
    others.delete(upstream.name)
    const { profile } = upstreamOf(upstream)
    return nativeFetch(
      {
        ...route.policy,
        routes: [{ model, prices }, ...own, ...further.filter(({ model: one }) => one !== own[0]?.model)]
      },
      {
        fetch: transport,
        upstreams: Object.fromEntries(others),
        stream: route.stream,
        truncation: route.truncation,
        context: shared.context,
        onEvent: (event) => {
          shared.activity.see(event, route.name, wire)
          Effect.runSyncWith(shared.context)(shared.meter(event))
        },
        ...(profile === undefined ? {} : { profile })
      }
    )
  }
  return (route: ResolvedRoute, wire: Wire, model: string, fallback: string | null): NativeFetch => {
    const key = JSON.stringify([route.name, wire, model, fallback])
    const found = kept.get(key) ?? make(route, wire, model, fallback)
    kept.delete(key)
    kept.set(key, found)
    for (const oldest of kept.keys()) {
      if (kept.size <= keptFetches) break
      kept.delete(oldest)
    }
    return found
  }
}

/** The body with the model of the route in the place of the one that was asked for; unchanged where it is the same. */
const withModel = (
  url: string,
  text: string,
  model: string | null
): { readonly text: string; readonly model: string } => {
  const { wire } = addressOf(url)
  const view = wire === null ? null : wire.view(JSON.parse(text), text)
  if (wire === null || view === null) return { text, model: model ?? "" }
  const change = { maxOutputTokens: null, leavesHome: false, summary: null, fragments: [], continuationPrompt: "" }
  return { text: wire.patch(text, view, { ...change, model }), model: model ?? view.model ?? "" }
}

/** A comment before the last event of a stream, and a header of an answer that had none: what all requests used. */
const billedTokens = (receipt: {
  readonly trail: ReadonlyArray<{
    readonly usage: { readonly promptTokens: number | null; readonly completionTokens: number | null }
  }>
}): number =>
  receipt.trail.reduce((sum, { usage }) => sum + (usage.promptTokens ?? 0) + (usage.completionTokens ?? 0), 0)

const onNative =
  (fetches: ReturnType<typeof makeFetches>, shared: Shared) =>
  async (call: GatewayCall): Promise<Response> => {
    const { route, wire, target } = call
    let billed: number | null = null
    const url = addressAt(route.upstream, target.path, target.query)
    const { text, model } = withModel(url, call.text, route.model)
    const fetch = fetches(route, wire, model, call.fallback)
    const answer = await fetch(
      url,
      { method: "POST", headers: headersFor(route.upstream, wire, call.headers), body: text, signal: call.signal },
      {
        onEnd: (receipt) => {
          billed = billedTokens(receipt)
          call.onEnd(receipt)
        },
        keepAlive: { afterMillis: shared.keepAliveMillis },
        closing: (trail) => `holdfast billed ${billedTokens({ trail })} tokens in ${trail.length} requests`
      }
    )
    // The head of a stream leaves before its end: there the number stands in a comment.
    if (billed !== null) answer.headers.set("x-holdfast-billed-tokens", String(billed))
    return answer
  }

const modelsOf = (config: GatewayConfig): Response => {
  const names = [...config.routes.keys()].filter((name) => !name.startsWith("*"))
  const data = names.map((id) => ({
    id,
    object: "model",
    type: "model",
    display_name: id,
    created: 0,
    created_at: "1970-01-01T00:00:00Z",
    owned_by: "holdfast"
  }))
  return jsonAnswer(200, {
    object: "list",
    data,
    has_more: false,
    first_id: names[0] ?? null,
    last_id: names.at(-1) ?? null
  })
}

interface RouteRow {
  readonly name: string
  readonly upstream: string
  readonly model: string
  readonly state: RouteState | "unknown"
}

const modelOf = (key: RouteKey): string => key.slice(key.indexOf("\u0000") + 1)

/** Of several accounts with one model the one that is worst off is told. */
const stateOf = (shared: Shared, model: string): RouteRow["state"] => {
  const found = [...shared.states].filter(([key]) => modelOf(key) === model).map(([, state]) => state)
  return found.includes("open") ? "open" : (found.at(-1) ?? "unknown")
}

/** Models of a route for all: those that were asked for of late, at the most so many. */
const shownModels = 20

const rowsOf = (route: ResolvedRoute, named: ReadonlySet<string>, shared: Shared): ReadonlyArray<RouteRow> => {
  const row = (name: string, upstream: string, model: string): RouteRow => ({
    name,
    upstream,
    model,
    state: stateOf(shared, model)
  })
  const asked = [...new Set([...shared.states.keys()].map(modelOf))]
    .filter((model) => !named.has(model))
    .slice(-shownModels)
  const models = route.model === null ? asked : [route.model]
  const own: ReadonlyArray<RouteRow> =
    models.length === 0
      ? [{ name: route.name, upstream: route.upstream.name, model: "as asked", state: "unknown" }]
      : models.map((model) => row(route.name, route.upstream.name, model))
  return [
    ...own,
    ...route.fallbacks.map((target) => row(`${route.name}, fallback`, target.upstream.name, target.model))
  ]
}

const dashboardData = (config: GatewayConfig, shared: Shared): Response => {
  const routes = [...config.routes.values()]
  const named = new Set(routes.flatMap((route) => [route.model ?? "", ...route.fallbacks.map(({ model }) => model)]))
  return jsonAnswer(
    200,
    {
      inFlight: shared.inFlight(),
      minutes: shared.activity.minutes(),
      roads: shared.activity.roads(),
      latest: shared.activity.latest(100).map(({ moments: _moments, ...rest }) => rest),
      routes: routes.flatMap((route) => rowsOf(route, named, shared))
    },
    { "cache-control": "no-store" }
  )
}

/** Effect's metrics beside the numbers that only this process knows. */
const metricsOf = async (shared: Shared): Promise<Response> => {
  const text = await Effect.runPromise(Effect.provideContext(PrometheusMetrics.format(), shared.context))
  const gauge = (name: string, help: string, lines: ReadonlyArray<string>): string =>
    lines.length === 0 ? "" : `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${lines.join("\n")}\n`
  const spending = [...shared.budgets.spending()].map(
    ([key, usd]) => `holdfast_reserved_usd{key=${JSON.stringify(key)}} ${usd}`
  )
  const body = [
    text.endsWith("\n") || text === "" ? text : `${text}\n`,
    gauge("holdfast_in_flight", "Requests under way", [`holdfast_in_flight ${shared.inFlight()}`]),
    gauge("holdfast_reserved_usd", "USD reserved or spent in the running day, by key", spending)
  ].join("")
  return new Response(body, { status: 200, headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } })
}

const pageOf = async (config: GatewayConfig, shared: Shared, endpoint: Endpoint): Promise<Response | null> => {
  switch (endpoint._tag) {
    case "Health":
      return jsonAnswer(200, { alive: true })
    case "Ready":
      return jsonAnswer(200, { ready: true })
    case "Models":
      return modelsOf(config)
    case "Metrics":
      return metricsOf(shared)
    case "Trail": {
      const trail = shared.activity.trail(endpoint.id)
      return trail === null ? null : jsonAnswer(200, trail, { "cache-control": "no-store" })
    }
    case "Dashboard":
      if (endpoint.file === "data.json") return dashboardData(config, shared)
      return endpoint.file === ""
        ? new Response(dashboardPage, { status: 200, headers: { ...dashboardHeaders } })
        : null
    default:
      return null
  }
}

/** Output tokens a request may use when it says nothing of a cap: what is reserved for it. */
const uncappedTokens = 8_000
/** Characters of a body for one token: prompts are counted by the provider, this is what is reserved before. */
const charactersPerToken = 4

const capIn = (body: Readonly<Record<string, unknown>>): number => {
  for (const field of ["max_output_tokens", "max_completion_tokens", "max_tokens"]) {
    const value = body[field]
    if (typeof value === "number" && Number.isFinite(value) && value > 0) return value
  }
  return uncappedTokens
}

export const makeParts = (config: GatewayConfig, shared: Shared): GatewayParts => {
  const fetches = makeFetches(shared)
  /** Other paths go where requests go that no route names. */
  const home = (wire: Wire): ResolvedRoute | null =>
    config.routes.get(`* ${wire}`) ?? config.routes.get("*") ?? [...config.routes.values()][0] ?? null
  return {
    config,
    keyOf: makeKeyCheck(config.keys),
    native: onNative(fetches, shared),
    proxy: ({ method, target, headers, body, signal }) => {
      const wire: Wire = target.path.startsWith("/v1/messages") ? "messages" : "chat"
      const route = home(wire)
      if (route === null) return Promise.resolve(jsonAnswer(404, { error: { message: "There is no upstream." } }))
      const fetch = fetches(route, wire, route.model ?? "-", null)
      return fetch(
        addressAt(route.upstream, target.path, target.query),
        {
          method,
          headers: headersFor(route.upstream, wire, headers),
          signal,
          ...(body === null ? {} : { body: new Uint8Array(body) })
        },
        {}
      )
    },
    page: (endpoint) => pageOf(config, shared, endpoint),
    worstOf: (route, text, body) => {
      const worst = worstOf(route.prices, Math.ceil(text.length / charactersPerToken), capIn(body))
      return { tokens: worst.tokens, usd: worst.costUsd }
    }
  }
}
