/**
 * A `fetch` that recovers. A POST to one of the three APIs goes through the loop; what only reads is repeated; everything
 * else passes through as it is.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { parsedObject } from "../../domain/chat/json.ts"
import { checkedProfile } from "../../domain/provider/ownProfile.ts"
import { anthropic } from "../../domain/provider/profiles/anthropic.ts"
import { generic } from "../../domain/provider/profiles/generic.ts"
import { profileForBaseUrl } from "../../domain/provider/Profiles.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import type { RecoveryEvent } from "../../domain/recovery/RecoveryEvent.ts"
import {
  RecoveryPolicy,
  type RecoveryPolicyInput,
  type Route,
  type RouteInput
} from "../../domain/recovery/RecoveryPolicy.ts"
import { addressOf, withModel, type NativeAddress } from "../../domain/wires/native/addresses.ts"
import type { NativeWire, RequestView } from "../../domain/wires/native/NativeWire.ts"
import { nativePolicy, type NativePolicy, type TruncationMode } from "../../programs/request/nativePolicy.ts"
import type { LedgerShape } from "../../services/BudgetLedger.ts"
import { HealthStore } from "../../services/HealthStore.ts"
import type { Fetch, Target } from "../provider/nativeSender.ts"
import * as HealthMemory from "../stores/HealthMemory.ts"
import { callNative, type NativeHooks, type NativeReceipt, type NativeServices } from "./callNative.ts"
import { passThrough } from "./passThrough.ts"

/** A second provider of the same API. A route names it as its `client`. */
export interface Upstream {
  /** http or https, up to the part that the API's own path follows. */
  readonly baseUrl: string | URL
  readonly apiKey?: Redacted.Redacted<string> | string
  /** Set on every request to it. */
  readonly headers?: Readonly<Record<string, string>>
  /** How it reports failures. Default: the profile that claims its address. */
  readonly profile?: ProviderProfile
  /** Default: the fetch of the primary. */
  readonly fetch?: Fetch
}

/** A policy, or its fields. Without routes the model is each request's own; `fallbacks` name others. */
export type NativePolicyInput = Partial<RecoveryPolicyInput> & { readonly fallbacks?: ReadonlyArray<RouteInput> }

export interface RecoveredFetchOptions {
  /** What sends. Default: the platform's fetch. */
  readonly fetch?: Fetch
  /** Other providers, by the name that a route gives as `client`. */
  readonly upstreams?: Readonly<Record<string, Upstream>>
  /** `live` (default): parts are shown as they come. `verified`: nothing is shown before the answer is whole. */
  readonly stream?: "live" | "verified"
  /** Default: uncapped. */
  readonly truncation?: TruncationMode
  /** How the primary reports failures. Default: the profile that claims its address. */
  readonly profile?: ProviderProfile
  /** Told about everything recovery does. What it throws fails no request. */
  readonly onEvent?: (event: RecoveryEvent) => void
  /** Told once per recovered request, when it has ended. */
  readonly onEnd?: (receipt: NativeReceipt) => void
  /** The session's budget. */
  readonly ledger?: LedgerShape
  /** Route health: `shared` by the process (default), or this fetch's `own`. */
  readonly health?: "shared" | "own"
  /** Services of Effect for every request: a clock, chance, an estimate of tokens. */
  readonly context?: Context.Context<never>
  /** Only requests below this address are recovered; others pass through. Default: every address. */
  readonly baseUrl?: string | URL
}

const known: ReadonlyArray<keyof RecoveredFetchOptions> = [
  "fetch",
  "upstreams",
  "stream",
  "truncation",
  "profile",
  "onEvent",
  "onEnd",
  "ledger",
  "health",
  "context",
  "baseUrl"
]

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

const oneOf = (field: string, value: string | undefined, words: ReadonlyArray<string>): void => {
  if (value !== undefined && !words.includes(value)) throw bad(field, `is none of ${words.join(", ")}`)
}

const checkAddress = (field: string, value: string | URL): void => {
  const url = URL.canParse(String(value)) ? new URL(String(value)) : null
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw bad(field, "is not an http or https address")
}

const check = (options: RecoveredFetchOptions): void => {
  const unknown = Object.keys(options).find((key) => !known.some((name) => name === key))
  if (unknown !== undefined) throw bad(unknown, `is not an option: there are ${known.join(", ")}`)
  oneOf("stream", options.stream, ["live", "verified"])
  oneOf("truncation", options.truncation, ["uncapped", "always", "never"])
  oneOf("health", options.health, ["shared", "own"])
  if (options.fetch !== undefined && typeof options.fetch !== "function") throw bad("fetch", "is not a function")
  if (options.baseUrl !== undefined) checkAddress("baseUrl", options.baseUrl)
  if (options.profile !== undefined) checkedProfile(options.profile)
  for (const [name, upstream] of Object.entries(options.upstreams ?? {})) {
    checkAddress(`upstreams.${name}.baseUrl`, upstream.baseUrl)
    if (upstream.profile !== undefined) checkedProfile(upstream.profile)
  }
}

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

/** The routes of one request: its own model first, with what is known of it. */
const routesFor = ({ named, fallbacks }: Routes, model: string): readonly [Route, ...Array<Route>] => {
  const isOwn = (route: Route): boolean => route.model === model && route.client === null
  const [first] = named
  const home = named.find(isOwn) ?? {
    model,
    client: null,
    outputLimit: null,
    contextWindow: null,
    prices: null,
    tools: true,
    thinking: first?.thinking ?? true
  }
  return [home, ...fallbacks.filter((route) => !isOwn(route))]
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

/** An SDK's own time-out that was lifted says nothing to a server. */
const withoutLifted = (headers: Headers): Headers => {
  if (Number(headers.get("x-stainless-timeout")) >= 2_147_483) headers.delete("x-stainless-timeout")
  return headers
}

const profileOf = (wire: NativeWire, url: string, own: ProviderProfile | undefined): ProviderProfile => {
  if (own !== undefined) return own
  const claimed = profileForBaseUrl(url)
  return claimed === generic && wire.name === "messages" ? anthropic : claimed
}

interface Incoming {
  readonly url: string
  readonly method: string
  readonly headers: Headers
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
    headers: new Headers(headers ?? request?.headers),
    signal: signal ?? request?.signal ?? null,
    init: rest,
    text
  }
}

/** What every call of one fetch shares. */
interface Seam {
  readonly options: RecoveredFetchOptions
  readonly routes: Routes
  /** Sends what goes to the primary. */
  readonly inner: Fetch
  readonly services: NativeServices
  readonly policyFor: (view: RequestView, model: string) => NativePolicy
  readonly nextId: () => string
}

/** Policies by what decides them: most requests of a program are alike. */
const remembered = 256

const policiesOf = (routes: Routes, truncation: TruncationMode): Seam["policyFor"] => {
  const policies = new Map<string, NativePolicy>()
  return (view, model) => {
    const key = [
      model,
      view.cap,
      view.streams,
      view.hasTools,
      view.only,
      view.pins.join(),
      view.isStructured,
      view.isBackground
    ].join("|")
    const found = policies.get(key)
    if (found !== undefined) return found
    const made = nativePolicy(routes.base, routesFor(routes, model), view, truncation)
    if (policies.size >= remembered) policies.clear()
    policies.set(key, made)
    return made
  }
}

/** Names that are unique in the process; they carry no meaning. */
const namesOf = (): Seam["nextId"] => {
  const prefix = Math.floor(Math.random() * 36 ** 6).toString(36)
  let count = 0
  return () => {
    count += 1
    return `${prefix}-${count}`
  }
}

const servicesOf = ({ context = Context.empty(), health, ledger, onEvent }: RecoveredFetchOptions): NativeServices => ({
  context: health === "own" ? Context.add(context, HealthStore, HealthMemory.make()) : context,
  emit: onEvent === undefined ? null : (event) => Effect.ignoreCause(Effect.sync(() => onEvent(event))),
  ledger: ledger ?? null
})

const seamOf = (policy: NativePolicyInput, options: RecoveredFetchOptions): Seam => {
  check(options)
  const routes = routesOf(policy, options)
  return {
    options,
    routes,
    inner: options.fetch ?? ((input, init) => fetch(input, init)),
    services: servicesOf(options),
    policyFor: policiesOf(routes, options.truncation ?? "uncapped"),
    nextId: namesOf()
  }
}

/** A call that is one of the three APIs. */
interface NativePost {
  readonly incoming: Incoming
  readonly text: string
  readonly address: NativeAddress
  readonly wire: NativeWire
  readonly view: RequestView
  readonly model: string
}

/** null = it is none of them, or signed as a whole: another body or address would be refused. */
const nativePost = (incoming: Incoming, address: NativeAddress): NativePost | null => {
  const { text } = incoming
  const { wire } = address
  const isSigned = (incoming.headers.get("authorization") ?? "").startsWith("AWS4-")
  if (wire === null || incoming.method !== "POST" || text === null || isSigned) return null
  const body = parsedObject(text)
  const view = body === null ? null : wire.view(body, text)
  return view === null ? null : { incoming, text, address, wire, view, model: view.model ?? address.model ?? anyModel }
}

/** The caller's headers without its account, with the upstream's own. */
const upstreamHeaders = (upstream: Upstream, wire: NativeWire, home: Headers): Headers => {
  const headers = new Headers(home)
  for (const name of credentials) headers.delete(name)
  const apiKey = keyOf(upstream)
  if (apiKey !== null)
    headers.set(
      wire.name === "messages" ? "x-api-key" : "authorization",
      wire.name === "messages" ? apiKey : `Bearer ${apiKey}`
    )
  for (const [name, value] of Object.entries(upstream.headers ?? {})) headers.set(name, value)
  return headers
}

/** Where one call goes, by route; each is made once. */
const targetsOf = ({ options, inner }: Seam, { incoming, address, wire, model }: NativePost) => {
  const home: Target = {
    url: incoming.url,
    headers: withoutLifted(incoming.headers),
    fetch: inner,
    profile: profileOf(wire, incoming.url, options.profile)
  }
  const make = (route: Route): Target => {
    const upstream = route.client === null ? undefined : options.upstreams?.[route.client]
    if (upstream === undefined)
      return route.model === model ? home : { ...home, url: withModel(incoming.url, address, route.model) }
    const url = upstreamUrl(upstream, wire, new URL(incoming.url).search)
    return {
      url,
      headers: upstreamHeaders(upstream, wire, home.headers),
      fetch: upstream.fetch ?? inner,
      profile: profileOf(wire, url, upstream.profile)
    }
  }
  const made = new Map<string, Target>()
  return (route: Route): Target => {
    const key = `${route.client ?? ""} ${route.model}`
    const target = made.get(key) ?? make(route)
    made.set(key, target)
    return target
  }
}

const recovered = (seam: Seam, post: NativePost, hooks: NativeHooks | undefined): Promise<Response> => {
  const { onEnd, stream } = seam.options
  const { policy, passTruncated, off } = seam.policyFor(post.view, post.model)
  return callNative(
    seam.services,
    {
      wire: post.wire,
      view: post.view,
      text: post.text,
      policy,
      passTruncated,
      isVerified: stream === "verified",
      targetOf: targetsOf(seam, post),
      isHome: (route) => route.client === null && route.model === post.model,
      init: post.incoming.init,
      signal: post.incoming.signal,
      off,
      requestId: seam.nextId()
    },
    { ...(onEnd === undefined ? {} : { onEnd }), ...hooks }
  )
}

/** A fetch that takes hooks with each call: what a server in front of it needs to know. */
export type NativeFetch = (input: string | URL | Request, init?: RequestInit, hooks?: NativeHooks) => Promise<Response>

export const recoveredFetch = (policy?: NativePolicyInput, options?: RecoveredFetchOptions): Fetch => {
  const native = nativeFetch(policy, options)
  return (input, init) => native(input, init)
}

export const nativeFetch = (
  policy: NativePolicyInput = RecoveryPolicy.broad,
  options: RecoveredFetchOptions = {}
): NativeFetch => {
  const seam = seamOf(policy, options)
  const { inner, services, routes } = seam
  const isOurs = (url: string): boolean =>
    options.baseUrl === undefined || new URL(url).origin === new URL(options.baseUrl).origin

  return async (input, init, hooks) => {
    const shown = input instanceof Request ? input.url : String(input)
    if (!/^https?:/i.test(shown) || !isOurs(shown)) return inner(input, init)
    const incoming = await incomingOf(input, init)
    const address = addressOf(shown)
    const post = nativePost(incoming, address)
    if (post !== null) return recovered(seam, post, hooks)
    return passThrough({
      services,
      policy: routes.base,
      incoming,
      send: () => inner(input, init),
      profile: options.profile ?? profileForBaseUrl(shown),
      isRepeatable: incoming.method === "GET" || incoming.method === "HEAD" || address.isRepeatable,
      requestId: seam.nextId()
    })
  }
}
