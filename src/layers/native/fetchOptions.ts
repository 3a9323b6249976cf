/** What a recovering fetch is made with, and how it is checked: a mistake is told before the first request. */
import type * as Context from "effect/Context"
import type * as Redacted from "effect/Redacted"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { checkedProfile } from "../../domain/provider/ownProfile.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import type { RecoveryEvent } from "../../domain/recovery/RecoveryEvent.ts"
import type { RecoveryPolicyInput, RouteInput } from "../../domain/recovery/RecoveryPolicy.ts"
import type { TruncationMode } from "../../programs/request/nativePolicy.ts"
import type { LedgerShape } from "../../services/BudgetLedger.ts"
import type { Fetch } from "../provider/undiciFetch.ts"
import type { NativeReceipt } from "./callNative.ts"

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

export const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

const oneOf = (field: string, value: string | undefined, words: ReadonlyArray<string>): void => {
  if (value !== undefined && !words.includes(value)) throw bad(field, `is none of ${words.join(", ")}`)
}

const checkAddress = (field: string, value: string | URL): void => {
  const url = URL.canParse(String(value)) ? new URL(String(value)) : null
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw bad(field, "is not an http or https address")
}

export const checkOptions = (options: RecoveredFetchOptions): void => {
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
