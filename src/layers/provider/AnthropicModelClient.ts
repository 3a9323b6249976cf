/** ModelClient over the `@anthropic-ai/sdk` package. */
import Anthropic, { APIError, type ClientOptions } from "@anthropic-ai/sdk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { refuseUnknown } from "../../domain/failure/unknownOptions.ts"
import { AnthropicResponseError } from "../../domain/failure/ModelError.ts"
import type { WireRequest } from "../../domain/chat/ModelRequest.ts"
import { checkedProfile } from "../../domain/provider/ownProfile.ts"
import { anthropic } from "../../domain/provider/profiles/anthropic.ts"
import type { CacheTtl } from "../../domain/chat/PromptCache.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import { ModelClient } from "../../services/ModelClient.ts"
import { PromptCacheTtl } from "../../services/PromptCacheTtl.ts"
import { eventReaderOf } from "../../domain/wires/anthropicReader.ts"
import { readBody } from "../../domain/wires/anthropicReply.ts"
import { toBody } from "../../domain/wires/anthropicWire.ts"
import { sdkKey, type KeySource } from "./apiKey.ts"
import { identityFor } from "./clientIdentity.ts"
import { clientOver, type Send, type Thrown } from "./clientOver.ts"
import { repeatHeader } from "./repeatHeader.ts"
import { checkedBaseUrl, fetchOf, keepingErrors, sdkTimeoutMillis, type Exchanges } from "./providerAnswer.ts"
import { environment } from "./runtime.ts"
import * as UndiciFetch from "./undiciFetch.ts"

export interface AnthropicOptions {
  /** Default: the environment's ANTHROPIC_API_KEY. A function is asked before every request. Not needed with `client`. */
  readonly apiKey?: KeySource
  /** http or https; anything else is a ConfigurationError. */
  readonly baseUrl?: string | URL
  /** A client of your own (proxy, Bedrock or Vertex credentials): its retries are switched off for our calls. */
  readonly client?: Anthropic
  /** A fetch of your own instead of the default transport. Not used with `client`. */
  readonly fetch?: UndiciFetch.Fetch
  /** Passed to every call of fetch. A `dispatcher` goes into the default transport; with anything else the platform's fetch is used. */
  readonly fetchOptions?: NonNullable<ClientOptions["fetchOptions"]>
  /** How the provider reports failures. Default: anthropic. */
  readonly profile?: ProviderProfile
  /** Lifetime of prompt cache markers where the caller (an agent's session) says none; null = no markers. Default: null. */
  readonly cacheTtl?: CacheTtl | null
  /** Further headers per request. */
  readonly headers?: (request: WireRequest) => Readonly<Record<string, string>>
}

const optionNames: ReadonlyArray<string> = [
  "apiKey",
  "baseUrl",
  "client",
  "fetch",
  "fetchOptions",
  "profile",
  "cacheTtl",
  "headers"
] satisfies ReadonlyArray<keyof AnthropicOptions>

/** Only a dispatcher is the default transport's; the other options of a fetch are the platform's. */
const transportOf = ({ fetch: own, fetchOptions }: AnthropicOptions): UndiciFetch.Fetch =>
  own ?? (fetchOptions === undefined || "dispatcher" in fetchOptions ? UndiciFetch.makeWithTexts() : fetch)

const sdkOf = (options: AnthropicOptions, exchanges: Exchanges): Anthropic => {
  if (options.client !== undefined)
    return options.client.withOptions({
      maxRetries: 0,
      timeout: sdkTimeoutMillis,
      fetch: keepingErrors(fetchOf(options.client), exchanges)
    })
  const baseURL = checkedBaseUrl(options.baseUrl)
  const key = sdkKey(options.apiKey ?? environment()["ANTHROPIC_API_KEY"])
  if (key === undefined)
    throw new ConfigurationError({ field: "apiKey", reason: "is missing: give `apiKey`, or set ANTHROPIC_API_KEY" })
  return new Anthropic({
    apiKey: key,
    ...(baseURL === undefined ? {} : { baseURL }),
    maxRetries: 0,
    timeout: sdkTimeoutMillis,
    ...(options.fetchOptions === undefined ? {} : { fetchOptions: options.fetchOptions }),
    fetch: keepingErrors(transportOf(options), exchanges)
  })
}

/**
 * A failed connection is an APIError too, without a status. The SDK wraps whatever a fetch rejects with: anything else was
 * thrown before there was a request to send.
 */
const thrownBy = (cause: unknown): Thrown => {
  if (!(cause instanceof APIError)) return "not built"
  return cause.status === undefined ? "no answer" : { status: cause.status, headers: cause.headers, error: cause.error }
}

/** The client as a value, for a second provider: `RecoveryLive.layer(policy, { clients: { backup: make(...) } })`. */
export const make = (options: AnthropicOptions = {}): (typeof ModelClient)["Service"] => {
  refuseUnknown(options, optionNames)
  const exchanges: Exchanges = new WeakMap()
  const sdk = sdkOf(options, exchanges)
  const profile = options.profile === undefined ? anthropic : checkedProfile(options.profile)

  /** What the session has settled wins; a profile without markers gets none. */
  const cacheTtl = Effect.map(PromptCacheTtl, (settled) =>
    profile.capabilities.cacheMarkers ? (settled ?? options.cacheTtl ?? null) : null
  )

  const sendWith =
    (ttl: CacheTtl | null): Send =>
    (request, isStream, signal) =>
      sdk
        .post("/v1/messages", {
          body: toBody(request, profile, ttl, isStream),
          signal,
          headers: { ...options.headers?.(request), ...repeatHeader(request) }
        })
        .asResponse()

  const secrets = typeof sdk.apiKey === "string" ? [sdk.apiKey] : []

  return clientOver({
    identity: identityFor({
      baseUrl: sdk.baseURL,
      account: secrets[0] ?? null,
      own:
        options.fetch ??
        options.fetchOptions ??
        (options.client === undefined && secrets.length > 0 ? null : (options.client ?? sdk))
    }),
    address: sdk.baseURL,
    profile,
    requestIdHeader: "request-id",
    malformed: AnthropicResponseError,
    exchanges,
    thrownBy,
    sender: Effect.map(cacheTtl, sendWith),
    readBody,
    eventReaderOf
  })
}

/** A ModelClient for Anthropic's messages API. Bad options are a ConfigurationError. */
export const layer = (options: AnthropicOptions = {}): Layer.Layer<ModelClient, ConfigurationError> =>
  Layer.effect(
    ModelClient,
    Effect.try({
      try: () => make(options),
      catch: (cause) =>
        cause instanceof ConfigurationError
          ? cause
          : new ConfigurationError({ field: "configuration", reason: "the client cannot be made" })
    })
  )
