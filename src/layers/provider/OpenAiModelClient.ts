/** ModelClient over the `openai` package. */
import OpenAI, { APIError, type ClientOptions } from "openai"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { refuseUnknown } from "../../domain/failure/unknownOptions.ts"
import { OpenAIResponseError } from "../../domain/failure/ModelError.ts"
import type { WireRequest } from "../../domain/chat/ModelRequest.ts"
import { checkedProfile } from "../../domain/provider/ownProfile.ts"
import { profileForBaseUrl } from "../../domain/provider/Profiles.ts"
import type { BudgetParam, ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import { ModelClient } from "../../services/ModelClient.ts"
import { sdkKey, type KeySource } from "./apiKey.ts"
import { identityFor } from "./clientIdentity.ts"
import { clientOver, type Send, type Thrown } from "./clientOver.ts"
import { inGateway, repeatHeader } from "./repeatHeader.ts"
import * as chatReader from "../../domain/wires/openAiReader.ts"
import * as chat from "../../domain/wires/openAiWire.ts"
import * as responsesReader from "../../domain/wires/responsesReader.ts"
import * as responsesReply from "../../domain/wires/responsesReply.ts"
import * as responses from "../../domain/wires/responsesWire.ts"
import { checkedBaseUrl, fetchOf, keepingErrors, sdkTimeoutMillis, type Exchanges } from "./providerAnswer.ts"
import * as UndiciFetch from "./undiciFetch.ts"

/** OpenAI's two APIs for one and the same thing. */
export type OpenAiApi = "chat" | "responses"

export interface OpenAiOptions {
  /** Which API is spoken. Default: chat, which every compatible server has. */
  readonly api?: OpenAiApi
  /** Default: the environment's OPENAI_API_KEY, by the SDK. A function is asked before every request. Not needed with `client`. */
  readonly apiKey?: KeySource
  /** http or https; anything else is a ConfigurationError. */
  readonly baseUrl?: string | URL
  /** A client of your own: its fetch, proxy and headers stay; its retries are switched off for our calls. */
  readonly client?: OpenAI
  /** A fetch of your own instead of the default transport. */
  readonly fetch?: UndiciFetch.Fetch
  /** Passed to every call of fetch. A `dispatcher` goes into the default transport; with anything else the platform's fetch is used. */
  readonly fetchOptions?: NonNullable<ClientOptions["fetchOptions"]>
  /** How the provider reports failures. Default: the profile that claims the base URL, else generic. */
  readonly profile?: ProviderProfile
  /** Wire name of the output budget by model; the profile decides for the others. */
  readonly budgetParam?: Readonly<Record<string, BudgetParam>>
  /** Further headers per request. */
  readonly headers?: (request: WireRequest) => Readonly<Record<string, string>>
}

const optionNames: ReadonlyArray<string> = [
  "api",
  "apiKey",
  "baseUrl",
  "client",
  "fetch",
  "fetchOptions",
  "profile",
  "budgetParam",
  "headers"
] satisfies ReadonlyArray<keyof OpenAiOptions>

/** Only a dispatcher is the default transport's; the other options of a fetch are the platform's. */
const transportOf = ({ fetch: own, fetchOptions }: OpenAiOptions): UndiciFetch.Fetch =>
  own ?? (fetchOptions === undefined || "dispatcher" in fetchOptions ? UndiciFetch.makeWithTexts() : fetch)

const sdkOf = (options: OpenAiOptions, exchanges: Exchanges): OpenAI => {
  if (options.client !== undefined)
    return options.client.withOptions({
      maxRetries: 0,
      timeout: sdkTimeoutMillis,
      fetch: keepingErrors(fetchOf(options.client), exchanges)
    })
  const baseURL = checkedBaseUrl(options.baseUrl)
  const key = sdkKey(options.apiKey)
  return new OpenAI({
    ...(key === undefined ? {} : { apiKey: key }),
    ...(baseURL === undefined ? {} : { baseURL }),
    ...(options.fetchOptions === undefined ? {} : { fetchOptions: options.fetchOptions }),
    maxRetries: 0,
    timeout: sdkTimeoutMillis,
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

/** Clients that ask one function for their key share an account. */
const keyFunction = (given: KeySource | undefined): object | null => (typeof given === "function" ? given : null)

/** What the caller has put in the network's place; null = the network. */
const ownTransport = (options: OpenAiOptions): object | null => {
  if (options.client === undefined) return options.fetch ?? options.fetchOptions ?? null
  const own: unknown = Reflect.get(options.client, "fetch")
  return typeof own === "function" && own !== globalThis.fetch ? own : null
}

/** Chosen by address, never by an answer. The environment may have named the address, too. */
const defaultProfile = (options: OpenAiOptions, sdk: OpenAI): ProviderProfile =>
  options.baseUrl === undefined ? profileForBaseUrl(sdk.baseURL) : profileForBaseUrl(options.baseUrl)

const apiOf = ({ api = "chat" }: OpenAiOptions): OpenAiApi => {
  if (api !== "chat" && api !== "responses")
    throw new ConfigurationError({ field: "api", reason: 'is neither "chat" nor "responses"' })
  return api
}

/** The client as a value, for a second provider: `RecoveryLive.layer(policy, { clients: { backup: make(...) } })`. */
export const make = (options: OpenAiOptions = {}): (typeof ModelClient)["Service"] => {
  refuseUnknown(options, optionNames)
  const exchanges: Exchanges = new WeakMap()
  const sdk = sdkOf(options, exchanges)
  const profile = options.profile === undefined ? defaultProfile(options, sdk) : checkedProfile(options.profile)
  const paramOf = (model: string): BudgetParam => options.budgetParam?.[model] ?? chat.budgetParamOf(profile, model)
  const api = apiOf(options)

  const ask: Send = (request, isStream, signal) =>
    sdk
      .post(api === "chat" ? "/chat/completions" : "/responses", {
        body:
          api === "chat"
            ? chat.toBody(request, profile, paramOf(request.model), isStream)
            : responses.toBody(request, profile, isStream),
        signal,
        headers: { ...options.headers?.(request), ...repeatHeader(request) }
      })
      .asResponse()

  /** An answer in the background goes on from its beginning; one that is not kept any more is asked for anew. */
  const send: Send = (request, isStream, signal) => {
    const { takeUp } = request
    if (api === "chat" || !isStream || takeUp === undefined || takeUp === inGateway)
      return ask(request, isStream, signal)
    const headers = options.headers?.(request)
    return sdk
      .get(`/responses/${encodeURIComponent(takeUp)}`, {
        query: { stream: true },
        signal,
        ...(headers === undefined ? {} : { headers })
      })
      .asResponse()
      .catch((cause: unknown) => {
        if (cause instanceof APIError && cause.status === 404) return ask(request, isStream, signal)
        throw cause
      })
  }

  const secrets = typeof sdk.apiKey === "string" ? [sdk.apiKey] : []

  return clientOver({
    identity: identityFor({
      baseUrl: sdk.baseURL,
      account: secrets.length === 0 ? null : [sdk.apiKey, sdk.organization, sdk.project].join(" "),
      own: secrets.length === 0 ? (options.client ?? keyFunction(options.apiKey) ?? sdk) : ownTransport(options)
    }),
    address: sdk.baseURL,
    profile,
    requestIdHeader: "x-request-id",
    malformed: OpenAIResponseError,
    exchanges,
    thrownBy,
    sender: Effect.succeed(send),
    readBody: api === "chat" ? chat.readBody : responsesReply.readBody,
    eventReaderOf: api === "chat" ? chatReader.eventReaderOf : responsesReader.eventReaderOf
  })
}

/** A ModelClient for OpenAI and every server that speaks its chat API. Bad options are a ConfigurationError. */
export const layer = (options: OpenAiOptions = {}): Layer.Layer<ModelClient, ConfigurationError> =>
  Layer.effect(
    ModelClient,
    Effect.try({
      try: () => make(options),
      catch: (cause) =>
        cause instanceof ConfigurationError
          ? cause
          : new ConfigurationError({ field: "apiKey", reason: "is missing: give `apiKey`, or set OPENAI_API_KEY" })
    })
  )
