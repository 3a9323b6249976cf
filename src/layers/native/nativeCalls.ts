/**
 * Native requests of one policy: where each goes, with which policy, under which name. What sends them and what their
 * answers become is the business of whoever asks.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Prices } from "../../domain/budget/Cost.ts"
import { anthropic } from "../../domain/provider/profiles/anthropic.ts"
import { generic } from "../../domain/provider/profiles/generic.ts"
import { profileForBaseUrl } from "../../domain/provider/Profiles.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import { RecoveryPolicy, type Route } from "../../domain/recovery/RecoveryPolicy.ts"
import { withModel, type NativeAddress } from "../../domain/wires/native/addresses.ts"
import { withIds } from "../../domain/wires/native/patch.ts"
import type { NativeWire, RequestView } from "../../domain/wires/native/NativeWire.ts"
import { nativePolicy, type NativePolicy } from "../../programs/request/nativePolicy.ts"
import { HealthStore } from "../../services/HealthStore.ts"
import { identityFor } from "../provider/clientIdentity.ts"
import { exchangeOver, type Exchange } from "../provider/exchange.ts"
import { remembered } from "../provider/remembered.ts"
import type { Target } from "../provider/nativeSender.ts"
import type { Fetch } from "../provider/undiciFetch.ts"
import * as HealthMemory from "../stores/HealthMemory.ts"
import { callNative, type NativeHooks, type NativeServices } from "./callNative.ts"
import { bad, type NativePolicyInput, type RecoveredFetchOptions, type Upstream } from "./fetchOptions.ts"
import { realIdOf } from "./realIds.ts"
import type { NativeResponse } from "./NativeResponse.ts"

/** Stands in for the model of each request where a policy names none. */
const anyModel = "*"

interface Routes {
  readonly base: RecoveryPolicy
  readonly named: ReadonlyArray<Route>
  readonly fallbacks: ReadonlyArray<Route>
}

const routesOf = (input: NativePolicyInput, options: RecoveredFetchOptions): Routes => {
  const { fallbacks = [], routes, ...fields } = input
  const all =
    routes === undefined || routes.length === 0 ? [{ model: anyModel }, ...fallbacks] : [...routes, ...fallbacks]
  const base = new RecoveryPolicy({ ...fields, routes: all })
  for (const [index, { client }] of base.routes.entries())
    if (client !== null && !Object.hasOwn(options.upstreams ?? {}, client))
      throw bad(`routes[${index}].client`, `names "${client}", which is no upstream`)
  return { base, named: base.routes, fallbacks: base.routes.slice(1) }
}

/** The routes of one request: its own model first, with what is known of it, then the one it brings along. */
const routesFor = (
  { named, fallbacks }: Routes,
  model: string,
  { prices = null, fallback = null }: Brought
): readonly [Route, ...Array<Route>] => {
  const [first] = named
  const unknown = (name: string): Route => ({
    model: name,
    client: null,
    outputLimit: null,
    contextWindow: null,
    prices: null,
    tools: true,
    thinking: first?.thinking ?? true
  })
  const isOf = (name: string | null) => (route: Route) => route.model === name && route.client === null
  const home = named.find(isOf(model)) ?? { ...unknown(model), prices }
  const own = fallback === null || fallback === model ? [] : [fallbacks.find(isOf(fallback)) ?? unknown(fallback)]
  return [home, ...own, ...fallbacks.filter((route) => !isOf(model)(route) && !isOf(fallback)(route))]
}

/** Headers that speak for one account. */
const credentials = [
  "authorization",
  "x-api-key",
  "api-key",
  "openai-organization",
  "openai-project",
  "cookie",
  "x-goog-api-key"
]

const keyOf = (upstream: Upstream): string | null =>
  upstream.apiKey === undefined
    ? null
    : Redacted.isRedacted(upstream.apiKey)
      ? Redacted.value(upstream.apiKey)
      : upstream.apiKey

/** Where the API's path begins below an upstream's address. */
const upstreamUrl = (upstream: Upstream, wire: NativeWire, search: string): string => {
  const url = new URL(String(upstream.baseUrl))
  const path = url.pathname.replace(/\/+$/, "")
  const own = {
    chat: "/chat/completions",
    responses: "/responses",
    messages: path.endsWith("/v1") ? "/messages" : "/v1/messages"
  }
  url.pathname = path + own[wire.name]
  if (url.search === "" && !search.includes("api-version")) url.search = search
  return String(url)
}

export const profileOf = (wire: NativeWire["name"], url: string, own: ProviderProfile | undefined): ProviderProfile => {
  if (own !== undefined) return own
  const claimed = profileForBaseUrl(url)
  return claimed === generic && wire === "messages" ? anthropic : claimed
}

/** Policies by what decides them: most requests of a program are alike. */
const mostPolicies = 256

/** Profiles by address. */
const rememberedProfiles = (): typeof profileOf => {
  const of = (wire: NativeWire["name"]) => remembered((url) => profileOf(wire, url, undefined))
  const known = { chat: of("chat"), responses: of("responses"), messages: of("messages") }
  return (wire, url, own) => own ?? known[wire](url)
}

/** What a request brings along beside what its API knows. */
export interface Brought {
  /** Prices of its own model, where the policy does not name that. */
  readonly prices?: Prices | null
  /** A model that may take over for this request, at the same provider. */
  readonly fallback?: string | null
}

/** A request of one of the three APIs, as it came. */
export interface NativeIncoming extends Brought {
  readonly url: string
  readonly address: NativeAddress
  readonly wire: NativeWire
  readonly view: RequestView
  readonly text: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Further fields of the caller's fetch. */
  readonly init: RequestInit
  readonly signal: AbortSignal | null
}

export interface NativeCalls {
  readonly services: NativeServices
  /** The policy without a request's own. */
  readonly base: RecoveryPolicy
  /** The next request's name in events. */
  readonly nextId: () => string
  readonly call: (incoming: NativeIncoming, requestId: string, hooks: NativeHooks) => Promise<NativeResponse>
}

/** What sends to the primary, and what tells it apart from others when it is no network of everybody's. */
export interface Sending {
  readonly exchange: Exchange
  readonly own: object | null
}

export const sendingOver = (send: Fetch): Sending => ({
  exchange: exchangeOver(send),
  own: send === globalThis.fetch ? null : send
})

const servicesOf = (options: RecoveredFetchOptions): NativeServices => {
  const base = options.context ?? Context.empty()
  const { onEvent } = options
  return {
    context: options.health === "own" ? Context.add(base, HealthStore, HealthMemory.make()) : base,
    emit: onEvent === undefined ? null : (event) => Effect.ignoreCause(Effect.sync(() => onEvent(event))),
    ledger: options.ledger ?? null
  }
}

const policyKey = (view: RequestView, model: string, fallback: string | null): string =>
  [
    model,
    fallback,
    view.cap,
    view.streams,
    view.hasTools,
    view.only,
    view.pins.join(),
    view.isStructured,
    view.isBackground
  ].join("|")

const originOf = remembered((url) => new URL(url).origin)

const targetOf = (
  url: string,
  headers: Readonly<Record<string, string>>,
  sending: Sending,
  profile: ProviderProfile
): Target => {
  let identity: string | null = null
  const account = headers["authorization"] ?? headers["x-api-key"] ?? headers["api-key"] ?? null
  return {
    url,
    headers,
    exchange: sending.exchange,
    profile,
    identity: () => (identity ??= identityFor({ baseUrl: originOf(url), account, own: sending.own }))
  }
}

/** Headers for another account: the caller's without its credentials. */
const headersFor = (
  headers: Readonly<Record<string, string>>,
  upstream: Upstream,
  wire: NativeWire
): Record<string, string> => {
  const others = Object.fromEntries(Object.entries(headers).filter(([name]) => !credentials.includes(name)))
  const apiKey = keyOf(upstream)
  if (apiKey !== null) {
    if (wire.name === "messages") others["x-api-key"] = apiKey
    else others["authorization"] = `Bearer ${apiKey}`
  }
  for (const [name, value] of Object.entries(upstream.headers ?? {})) others[name.toLowerCase()] = value
  return others
}

/** Where the requests of one call go, by route. */
const targetsOf = (
  incoming: NativeIncoming,
  model: string,
  home: Sending,
  sendings: Readonly<Record<string, Sending>>,
  options: RecoveredFetchOptions,
  profileFor: typeof profileOf
) => {
  const { url, headers, wire, address } = incoming
  const profile = profileFor(wire.name, url, options.profile)
  const own = targetOf(url, headers, home, profile)
  const made = new Map<string, Target>()
  const make = (route: Route): Target => {
    const name = route.client ?? ""
    const upstream = route.client === null ? undefined : options.upstreams?.[name]
    if (upstream === undefined) {
      const other = withModel(url, address, route.model)
      return other === url ? own : targetOf(other, headers, home, profile)
    }
    const elsewhere = upstreamUrl(upstream, wire, new URL(url).search)
    const sending = sendings[name] ?? home
    return targetOf(
      elsewhere,
      headersFor(headers, upstream, wire),
      sending,
      profileFor(wire.name, elsewhere, upstream.profile)
    )
  }
  return (route: Route): Target => {
    if (route.client === null && route.model === model) return own
    const key = `${route.client ?? ""} ${route.model}`
    const known = made.get(key) ?? make(route)
    made.set(key, known)
    return known
  }
}

/** `options` have been checked. Throws when a route names an upstream that is not there. */
export const makeNativeCalls = (
  policy: NativePolicyInput,
  options: RecoveredFetchOptions,
  home: Sending
): NativeCalls => {
  const routes = routesOf(policy, options)
  const sendings: Record<string, Sending> = {}
  for (const [name, upstream] of Object.entries(options.upstreams ?? {}))
    if (upstream.fetch !== undefined) sendings[name] = sendingOver(upstream.fetch)
  const truncation = options.truncation ?? "uncapped"
  const services = servicesOf(options)
  const prefix = Math.floor(Math.random() * 36 ** 6).toString(36)
  let count = 0
  const profileFor = rememberedProfiles()
  const policies = new Map<string, NativePolicy>()
  const policyFor = (incoming: NativeIncoming, model: string): NativePolicy => {
    const { view } = incoming
    const key = policyKey(view, model, incoming.fallback ?? null)
    const found = policies.get(key)
    if (found !== undefined) return found
    const made = nativePolicy(routes.base, routesFor(routes, model, incoming), view, truncation)
    if (policies.size >= mostPolicies) policies.clear()
    policies.set(key, made)
    return made
  }
  return {
    services,
    base: routes.base,
    nextId: () => {
      count += 1
      return `${prefix}-${count}`
    },
    call: (incoming, requestId, hooks) => {
      const { wire, view, init, signal } = incoming
      const text = view.pins.length === 0 ? incoming.text : withIds(incoming.text, wire.references, realIdOf)
      const model = view.model ?? incoming.address.model ?? anyModel
      const { policy: own, passTruncated, off } = policyFor(incoming, model)
      return callNative(
        services,
        {
          wire,
          view,
          text,
          policy: own,
          passTruncated,
          isVerified: options.stream === "verified",
          targetOf: targetsOf(incoming, model, home, sendings, options, profileFor),
          isHome: (route) => route.client === null && route.model === model,
          init,
          signal,
          off,
          requestId
        },
        hooks
      )
    }
  }
}
