/**
 * What a gateway listens on, whom it asks, and for whom. Everything is checked before it listens; a mistake names the
 * field with its line and column. Secrets stand in the environment and are named as `env:NAME`.
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { schemaFault } from "../../../domain/failure/schemaFault.ts"
import { keyFlaw } from "../../../domain/provider/address.ts"
import { profileNamed } from "../../../domain/provider/Profiles.ts"
import {
  presets,
  RecoveryPolicy,
  type PresetName,
  type RecoveryPolicyInput
} from "../../../domain/recovery/RecoveryPolicy.ts"
import type { ConfigText } from "./configText.ts"

const Positive = Schema.Finite.check(Schema.isGreaterThan(0))
const Whole = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))
const Secret = Schema.String.check(Schema.isPattern(/^env:[A-Za-z_][A-Za-z0-9_]*$/))
const opt = Schema.optionalKey

const Upstream = Schema.Struct({
  baseUrl: Schema.String,
  /** None: requests go without a key of their own. */
  apiKey: opt(Secret),
  profile: opt(Schema.String),
  headers: opt(Schema.Record(Schema.String, Schema.String))
})

/** USD per million tokens: what a budget in USD counts with. */
const Prices = Schema.Struct({
  inputPerM: Positive,
  outputPerM: Positive,
  cachedInputPerM: opt(Schema.Finite),
  cacheWritePerM: opt(Schema.Finite)
})

const Target = Schema.Struct({ upstream: Schema.String, model: Schema.NonEmptyString, prices: opt(Prices) })

const GatewayRoute = Schema.Struct({
  upstream: Schema.String,
  /** None: the model that was asked for. */
  model: opt(Schema.NonEmptyString),
  fallbacks: opt(Schema.Array(Target)),
  preset: opt(Schema.Literals(["strict", "broad", "unattended", "background"])),
  stream: opt(Schema.Literals(["live", "verified"])),
  truncation: opt(Schema.Literals(["uncapped", "always", "never"])),
  compaction: opt(Schema.Literals(["once", "off"])),
  policy: opt(Schema.Record(Schema.String, Schema.Unknown)),
  prices: opt(Prices)
})

const KeyBudget = Schema.Struct({
  usdPerDay: opt(Positive),
  tokensPerMinute: opt(Whole),
  requestsPerMinute: opt(Whole),
  /** Name of a route that serves this key when its budget in USD is used up. */
  cheaperRoute: opt(Schema.String)
})

const Limits = Schema.Struct({
  /** Most bytes of a request's body. */
  bodyBytes: opt(Whole),
  /** Requests under way at once; more are told to come back. */
  concurrent: opt(Whole)
})

/** Where budgets and the health of routes are kept, with all gateways that name the same place. */
const Store = Schema.Struct({
  sqlite: opt(Schema.NonEmptyString),
  redis: opt(Secret),
  postgres: opt(Secret),
  /** USD that this gateway may spend of each key's budget in a time without the store. None: nothing. */
  usdWhileAway: opt(Positive)
})

const File = Schema.Struct({
  listen: opt(
    Schema.Struct({
      host: opt(Schema.NonEmptyString),
      port: opt(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65_535 })))
    })
  ),
  keys: opt(Schema.Array(Secret)),
  upstreams: Schema.Record(Schema.String, Upstream),
  routes: Schema.Record(Schema.String, GatewayRoute),
  budgets: opt(Schema.Record(Schema.String, KeyBudget)),
  limits: opt(Limits),
  store: opt(Store)
})
type FileRoute = typeof GatewayRoute.Type

export interface ResolvedUpstream {
  readonly name: string
  /** Without a slash at its end. */
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted<string> | null
  readonly profile: string | null
  readonly headers: Readonly<Record<string, string>>
}

export interface ResolvedRoute {
  readonly name: string
  readonly upstream: ResolvedUpstream
  /** Null = the model that was asked for. */
  readonly model: string | null
  readonly fallbacks: ReadonlyArray<{
    readonly upstream: ResolvedUpstream
    readonly model: string
    readonly prices: typeof Prices.Type | null
  }>
  readonly stream: "live" | "verified"
  readonly truncation: "uncapped" | "always" | "never"
  readonly compaction: "once" | "off"
  /** Everything but the routes: they come with the request's model. */
  readonly policy: Partial<RecoveryPolicyInput>
  readonly prices: typeof Prices.Type | null
}

export interface GatewayKey {
  /** The name of the variable: safe to show. */
  readonly name: string
  readonly secret: Redacted.Redacted<string>
  readonly budget: typeof KeyBudget.Type | null
}

/** A file, or a server at an address that may hold a password. */
export type StorePlace =
  | { readonly kind: "sqlite"; readonly path: string }
  | { readonly kind: "redis" | "postgres"; readonly url: Redacted.Redacted<string> }

export interface ResolvedStore {
  readonly place: StorePlace
  /** null = no USD is spent while the store is away. */
  readonly usdWhileAway: number | null
}

export interface GatewayConfig {
  readonly host: string
  readonly port: number
  /** Empty: no key is asked for, and only the loopback is listened on. */
  readonly keys: ReadonlyArray<GatewayKey>
  readonly upstreams: ReadonlyArray<ResolvedUpstream>
  /** By the model that is asked for; `*` is for all others. */
  readonly routes: ReadonlyMap<string, ResolvedRoute>
  readonly bodyBytes: number
  readonly concurrent: number
  /** null = this process keeps its budgets and the health of its routes itself. */
  readonly store: ResolvedStore | null
}

export type Environment = Readonly<Record<string, string | undefined>>

/** 32 MiB: what the largest providers take at most, with some room for images. */
const defaultBodyBytes = 33_554_432
/** As many as a process of some 150 MB can hold open with a buffer each. */
const defaultConcurrent = 1_000

export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || host === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(host)

type Path = ReadonlyArray<string | number>

const pathText = (path: Path): string => path.map(String).join(".")

/** Throws every mistake as a sentence that names the field and its place. */
const makeComplain =
  (name: string, text: ConfigText) =>
  (path: Path, reason: string): ConfigurationError => {
    const place = text.placeOf(path)
    return new ConfigurationError({ field: `${name}${place === null ? "" : `, ${place}`}: ${pathText(path)}`, reason })
  }

type Complain = ReturnType<typeof makeComplain>

/** `routes[0].model` or `routes.large.policy` as the steps of a path. */
const stepsOf = (field: string): Path =>
  field.split(/[.[\]]+/).flatMap((part): Path => (part === "" ? [] : [/^\d+$/.test(part) ? Number(part) : part]))

const variableOf = (environment: Environment, complain: Complain, path: Path, reference: string): string => {
  const name = reference.slice("env:".length)
  const value = environment[name]?.trim() ?? ""
  if (value === "") throw complain(path, `names ${name}, which is not set in the environment`)
  return value
}

const secretOf = (
  environment: Environment,
  complain: Complain,
  path: Path,
  reference: string
): Redacted.Redacted<string> => {
  const name = reference.slice("env:".length)
  const value = variableOf(environment, complain, path, reference)
  const flaw = keyFlaw(value)
  if (flaw !== null) throw complain(path, `names ${name}, which ${flaw}`)
  return Redacted.make(value, { label: name })
}

const addresses = {
  redis: { form: /^rediss?:\/\/./, example: "redis://HOST:PORT" },
  postgres: { form: /^postgres(ql)?:\/\/./, example: "postgres://USER@HOST:PORT/DATABASE" }
}

const storeOf = (environment: Environment, complain: Complain, given: typeof Store.Type): ResolvedStore => {
  const named = (["sqlite", "redis", "postgres"] as const).filter((kind) => given[kind] !== undefined)
  const [kind] = named
  if (kind === undefined || named.length > 1) throw complain(["store"], "names one of sqlite, redis and postgres")
  const usdWhileAway = given.usdWhileAway ?? null
  if (kind === "sqlite") return { place: { kind, path: given.sqlite ?? "" }, usdWhileAway }
  const path = ["store", kind]
  const url = variableOf(environment, complain, path, given[kind] ?? "")
  const { form, example } = addresses[kind]
  if (!form.test(url) || !URL.canParse(url)) throw complain(path, `names a variable that holds no address ${example}`)
  return { place: { kind, url: Redacted.make(url) }, usdWhileAway }
}

const upstreamOf = (
  environment: Environment,
  complain: Complain,
  name: string,
  given: typeof Upstream.Type
): ResolvedUpstream => {
  const url = URL.canParse(given.baseUrl) ? new URL(given.baseUrl) : null
  if (url === null || !["http:", "https:"].includes(url.protocol))
    throw complain(["upstreams", name, "baseUrl"], "is not an http or https address")
  if (url.username !== "" || url.password !== "")
    throw complain(["upstreams", name, "baseUrl"], "holds a password: give it as apiKey, from the environment")
  if (given.profile !== undefined && profileNamed(given.profile) === null)
    throw complain(["upstreams", name, "profile"], `names "${given.profile}", which is no profile`)
  return {
    name,
    baseUrl: given.baseUrl.replace(/\/+$/, ""),
    apiKey:
      given.apiKey === undefined ? null : secretOf(environment, complain, ["upstreams", name, "apiKey"], given.apiKey),
    profile: given.profile ?? null,
    headers: given.headers ?? {}
  }
}

type Upstreams = ReadonlyMap<string, ResolvedUpstream>

const upstreamNamed = (upstreams: Upstreams, complain: Complain, path: Path, name: string): ResolvedUpstream => {
  const found = upstreams.get(name)
  if (found === undefined)
    throw complain(path, `names "${name}", which is none of the upstreams (${[...upstreams.keys()].join(", ")})`)
  return found
}

/**
 * Clients of a gateway cannot choose another model by themselves: a route with a fallback leaves a silent, cut, limited
 * or too small primary early. Presets that know no fallback keep to that.
 */
const fallbackAfterOf = ({ fallbackAfter }: (typeof presets)[PresetName]): Partial<RecoveryPolicyInput> =>
  fallbackAfter?.serverError === undefined
    ? {}
    : { fallbackAfter: { ...fallbackAfter, serverError: 2, silent: 1, cut: 2, rateLimit: 3, overflow: 1 } }

/** A gateway serves many clients: whatever keeps a route from answering closes it for all of them. */
const routeHealthOf = (given: unknown): unknown =>
  given === null || (given !== undefined && (typeof given !== "object" || Array.isArray(given)))
    ? given
    : { counts: ["overload", "serverError", "silent", "cut", "connection"], ...given }

/** The policy of a route is checked as a whole with stand-ins for its models. */
const checkedPolicy = (complain: Complain, name: string, given: FileRoute): Partial<RecoveryPolicyInput> => {
  const preset = presets[given.preset ?? "broad"]
  const own = given.policy ?? {}
  const fields: Readonly<Record<string, unknown>> = {
    ...preset,
    ...fallbackAfterOf(preset),
    // Many agents compact themselves when they are told that their input is too long.
    compaction: { mode: given.compaction ?? "off" },
    ...own,
    ...(preset.routeHealth === null ? {} : { routeHealth: routeHealthOf(own["routeHealth"]) })
  }
  if ("routes" in (given.policy ?? {}))
    throw complain(["routes", name, "policy", "routes"], "is made of model and fallbacks")
  const models = [
    { model: given.model ?? "*" },
    ...(given.fallbacks ?? []).map(({ model }) => ({ model: `${model} ` }))
  ]
  const checked = Result.try(() => new RecoveryPolicy({ ...fields, routes: models }))
  if (Result.isSuccess(checked)) {
    const { routes: _routes, ...rest } = checked.success
    return rest
  }
  if (!(checked.failure instanceof ConfigurationError)) throw checked.failure
  const { field, reason } = checked.failure
  throw complain(["routes", name, "policy", ...stepsOf(field)], reason)
}

const routeOf = (upstreams: Upstreams, complain: Complain, name: string, given: FileRoute): ResolvedRoute => {
  const path = ["routes", name]
  const fallbacks = (given.fallbacks ?? []).map((target, index) => ({
    upstream: upstreamNamed(upstreams, complain, [...path, "fallbacks", index, "upstream"], target.upstream),
    model: target.model,
    prices: target.prices ?? null
  }))
  const same = fallbacks.findIndex(
    ({ upstream, model }) => upstream.name === given.upstream && model === (given.model ?? name)
  )
  if (same !== -1) throw complain([...path, "fallbacks", same], "is the route itself")
  return {
    name,
    upstream: upstreamNamed(upstreams, complain, [...path, "upstream"], given.upstream),
    model: given.model ?? null,
    fallbacks,
    stream: given.stream ?? "live",
    truncation: given.truncation ?? "uncapped",
    compaction: given.compaction ?? "off",
    policy: checkedPolicy(complain, name, given),
    prices: given.prices ?? null
  }
}

/** A budget in USD needs the price of everything that may be asked; null = all have one. */
const firstUnpriced = (file: typeof File.Type): Path | null => {
  for (const [name, route] of Object.entries(file.routes)) {
    if (route.prices === undefined) return ["routes", name]
    const index = (route.fallbacks ?? []).findIndex(({ prices }) => prices === undefined)
    if (index !== -1) return ["routes", name, "fallbacks", index]
  }
  return null
}

const keysOf = (environment: Environment, complain: Complain, file: typeof File.Type): ReadonlyArray<GatewayKey> => {
  const names = file.keys ?? []
  for (const [name, budget] of Object.entries(file.budgets ?? {})) {
    if (!names.includes(name)) throw complain(["budgets", name], "is a budget for none of the keys")
    const { cheaperRoute } = budget
    if (cheaperRoute !== undefined && !Object.hasOwn(file.routes, cheaperRoute))
      throw complain(["budgets", name, "cheaperRoute"], `names "${cheaperRoute}", which is none of the routes`)
    const unpriced = budget.usdPerDay === undefined ? null : firstUnpriced(file)
    if (unpriced !== null) throw complain(unpriced, `has no prices: the budget of ${name} in USD needs them`)
  }
  return names.map((name, index) => ({
    name: name.slice("env:".length),
    secret: secretOf(environment, complain, ["keys", index], name),
    budget: file.budgets?.[name] ?? null
  }))
}

/** `name` is the file's, for messages. Throws a ConfigurationError. */
export const resolveConfig = (name: string, text: ConfigText, environment: Environment): GatewayConfig => {
  const complain = makeComplain(name, text)
  const decoded = Schema.decodeUnknownResult(File)(text.value, { onExcessProperty: "error" })
  if (Result.isFailure(decoded)) {
    const { field, reason } = schemaFault(decoded.failure)
    const isSecret = /apiKey$|^keys|^store\.(?:redis|postgres)$/.test(field)
    throw complain(stepsOf(field), isSecret ? "must name a variable of the environment: env:NAME" : reason)
  }
  const file = decoded.success
  if (Object.keys(file.routes).length === 0) throw complain(["routes"], "is empty: name a model, or * for all")
  const upstreams: Upstreams = new Map(
    Object.entries(file.upstreams).map(([key, given]) => [key, upstreamOf(environment, complain, key, given)])
  )
  const host = file.listen?.host ?? "127.0.0.1"
  const keys = keysOf(environment, complain, file)
  if (keys.length === 0 && !isLoopback(host))
    throw complain(["listen", "host"], "is open to others: without keys only the loopback is served")
  return {
    host,
    port: file.listen?.port ?? 8_080,
    keys,
    upstreams: [...upstreams.values()],
    routes: new Map(Object.entries(file.routes).map(([key, given]) => [key, routeOf(upstreams, complain, key, given)])),
    bodyBytes: file.limits?.bodyBytes ?? defaultBodyBytes,
    concurrent: file.limits?.concurrent ?? defaultConcurrent,
    store: file.store === undefined ? null : storeOf(environment, complain, file.store)
  }
}
