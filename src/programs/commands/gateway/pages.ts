/** The gateway's own pages: what it serves, how its routes are, what it has done. */
import * as Effect from "effect/Effect"
import { PrometheusMetrics } from "effect/observability"
import type { RouteKey } from "../../../services/HealthStore.ts"
import { jsonAnswer, textAnswer, type Answer } from "./Answer.ts"
import { dashboardHeaders, dashboardPage } from "./dashboardPage.ts"
import type { Endpoint } from "./endpoints.ts"
import type { GatewayConfig, ResolvedRoute } from "./GatewayConfig.ts"
import type { Shared } from "./Shared.ts"
import type { RouteState } from "./WatchedHealth.ts"

/** null = no route has a name. */
const modelsOf = (config: GatewayConfig): Answer | null => {
  const names = [...config.routes.keys()].filter((name) => !name.startsWith("*"))
  if (names.length === 0) return null
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

const routeRows = (config: GatewayConfig, shared: Shared): ReadonlyArray<RouteRow> => {
  const routes = [...config.routes.values()]
  const named = new Set(routes.flatMap((route) => [route.model ?? "", ...route.fallbacks.map(({ model }) => model)]))
  return routes.flatMap((route) => rowsOf(route, named, shared))
}

const dashboardData = (config: GatewayConfig, shared: Shared): Answer => {
  return jsonAnswer(
    200,
    {
      inFlight: shared.inFlight(),
      minutes: shared.activity.minutes(),
      roads: shared.activity.roads(),
      latest: shared.activity.latest(100).map(({ moments: _moments, ...rest }) => rest),
      routes: routeRows(config, shared)
    },
    { "cache-control": "no-store" }
  )
}

/** Keys whose spending is told one by one, those that have spent the most; all others together are one. */
const toldKeys = 300

const spendingLines = (spending: ReadonlyMap<string, number>): ReadonlyArray<string> => {
  const all = [...spending].sort(([, left], [, right]) => right - left)
  const rest = all.slice(toldKeys).reduce((sum, [, usd]) => sum + usd, 0)
  const told = all.length > toldKeys ? [...all.slice(0, toldKeys), ["other", rest] as const] : all
  return told.map(([key, usd]) => `holdfast_reserved_usd{key=${JSON.stringify(key)}} ${usd}`)
}

const gauge = (name: string, help: string, lines: ReadonlyArray<string>): string =>
  lines.length === 0 ? "" : `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${lines.join("\n")}\n`

/** 0 = open, 1 = closed; between them it is tried again with a part of the requests. */
const healthOf: Readonly<Record<RouteState, number>> = { open: 0, ramp: 0.5, closed: 1 }

const routeLines = (config: GatewayConfig, shared: Shared): ReadonlyArray<string> => {
  const told = new Map<string, number>()
  for (const { upstream, model, state } of routeRows(config, shared))
    if (state !== "unknown")
      told.set(`upstream=${JSON.stringify(upstream)},gen_ai_request_model=${JSON.stringify(model)}`, healthOf[state])
  return [...told].map(([labels, value]) => `holdfast_route_state{${labels}} ${value}`)
}

/** What this process holds: whoever watches for a leak compares these over hours. */
const memoryLines = (shared: Shared): string => {
  const { rss, heapUsed } = process.memoryUsage()
  return [
    gauge("process_resident_memory_bytes", "Resident memory", [`process_resident_memory_bytes ${rss}`]),
    gauge("nodejs_heap_size_used_bytes", "Heap in use", [`nodejs_heap_size_used_bytes ${heapUsed}`]),
    gauge("holdfast_kept_bytes", "Bytes kept for clients that may come back", [
      `holdfast_kept_bytes ${shared.keptBytes()}`
    ])
  ].join("")
}

/** Effect's metrics beside the numbers that only this process knows. */
const metricsOf = async (config: GatewayConfig, shared: Shared): Promise<Answer> => {
  const text = await Effect.runPromise(Effect.provideContext(PrometheusMetrics.format(), shared.context))
  const body = [
    text.endsWith("\n") || text === "" ? text : `${text}\n`,
    gauge("holdfast_in_flight", "Requests under way", [`holdfast_in_flight ${shared.inFlight()}`]),
    memoryLines(shared),
    gauge("holdfast_route_state", "Routes as health last saw them: 1 closed, 0 open", routeLines(config, shared)),
    gauge(
      "holdfast_reserved_usd",
      "USD reserved or spent in the running day, by key",
      spendingLines(shared.budgets.spending())
    )
  ].join("")
  return textAnswer(200, body, { "content-type": "text/plain; version=0.0.4; charset=utf-8" })
}

export const pageOf = async (config: GatewayConfig, shared: Shared, endpoint: Endpoint): Promise<Answer | null> => {
  switch (endpoint._tag) {
    case "Health":
      return jsonAnswer(200, { alive: true })
    case "Ready":
      return jsonAnswer(200, { ready: true })
    case "Models":
      return modelsOf(config)
    case "Metrics":
      return metricsOf(config, shared)
    case "Trail": {
      const trail = shared.activity.trail(endpoint.id)
      return trail === null ? null : jsonAnswer(200, trail, { "cache-control": "no-store" })
    }
    case "Dashboard":
      if (endpoint.file === "data.json") return dashboardData(config, shared)
      return endpoint.file === "" ? textAnswer(200, dashboardPage, dashboardHeaders) : null
    default:
      return null
  }
}
