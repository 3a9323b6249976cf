/**
 * ModelClient over the `openai` package. The SDK's retries are off and its time-out is longer than any of ours: recovery
 * decides. Every answer is read here, from status, allowed headers and codes at fixed places.
 */
import OpenAI, { APIConnectionError, APIError, type ClientOptions } from "openai"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { classifyAnswer, type Verdict } from "../domain/classify.ts"
import { ConfigurationError } from "../domain/ConfigurationError.ts"
import { makeModelError, type ModelError } from "../domain/ModelError.ts"
import type { ModelPart, ModelReply } from "../domain/ModelReply.ts"
import type { WireRequest } from "../domain/ModelRequest.ts"
import { profileForBaseUrl } from "../domain/Profiles.ts"
import { openai } from "../domain/profiles/openai.ts"
import type { ProviderProfile } from "../domain/ProviderProfile.ts"
import type { BudgetParam } from "../domain/RecoveryPolicy.ts"
import { ModelClient } from "../services/ModelClient.ts"
import { abortable, awaitAborted } from "./abortable.ts"
import { allowedHeaders, replaceSecrets } from "./answerHeaders.ts"
import { budgetParamOf, partsOf, readBody, StreamAssembler, toBody, type Flaw, type ReadContext } from "./openAiWire.ts"
import {
  checkedBaseUrl,
  keepingErrors,
  networkCode,
  parsedOrText,
  readEvents,
  sdkTimeoutMillis,
  type RawBodies
} from "./providerAnswer.ts"
import * as UndiciFetch from "./undiciFetch.ts"

export interface OpenAiOptions {
  /** Default: the environment's OPENAI_API_KEY, by the SDK. Not needed with `client`. */
  readonly apiKey?: Redacted.Redacted<string> | string
  /** http or https; anything else is a ConfigurationError. */
  readonly baseUrl?: string | URL
  /** A client of your own: its fetch, proxy and headers stay; its retries are switched off for our calls. */
  readonly client?: OpenAI
  /** A fetch of your own instead of the default transport. */
  readonly fetch?: UndiciFetch.Fetch
  /** Passed to every call of fetch (a proxy's dispatcher). With it the platform's fetch is used. */
  readonly fetchOptions?: NonNullable<ClientOptions["fetchOptions"]>
  /** How the provider reports failures. Default: the profile that claims the base URL, else generic. */
  readonly profile?: ProviderProfile
  /** Wire name of the output budget by model; the profile decides for the others. */
  readonly budgetParam?: Readonly<Record<string, BudgetParam>>
  /** Further headers per request. */
  readonly headers?: (request: WireRequest) => Readonly<Record<string, string>>
}

const fetchOf = (client: OpenAI): UndiciFetch.Fetch => {
  const own: unknown = Reflect.get(client, "fetch")
  return typeof own === "function" ? (input, init) => Reflect.apply(own, undefined, [input, init]) : fetch
}

const sdkOf = (options: OpenAiOptions, raw: RawBodies): OpenAI => {
  if (options.client !== undefined)
    return options.client.withOptions({
      maxRetries: 0,
      timeout: sdkTimeoutMillis,
      fetch: keepingErrors(fetchOf(options.client), raw)
    })
  const baseURL = checkedBaseUrl(options.baseUrl)
  const key = options.apiKey
  const transport = options.fetch ?? (options.fetchOptions === undefined ? UndiciFetch.make() : fetch)
  return new OpenAI({
    ...(key === undefined ? {} : { apiKey: Redacted.isRedacted(key) ? Redacted.value(key) : key }),
    ...(baseURL === undefined ? {} : { baseURL }),
    ...(options.fetchOptions === undefined ? {} : { fetchOptions: options.fetchOptions }),
    maxRetries: 0,
    timeout: sdkTimeoutMillis,
    fetch: keepingErrors(transport, raw)
  })
}

/** Chosen by address, never by an answer. */
const defaultProfile = (options: OpenAiOptions): ProviderProfile => {
  if (options.baseUrl !== undefined) return profileForBaseUrl(options.baseUrl)
  return options.client === undefined ? openai : profileForBaseUrl(options.client.baseURL)
}

/** The client as a value, for a second provider: `RecoveryLive.layer(policy, { clients: { backup: make(...) } })`. */
export const make = (options: OpenAiOptions = {}): (typeof ModelClient)["Service"] => {
  const raw: RawBodies = new WeakMap()
  const sdk = sdkOf(options, raw)
  const profile = options.profile ?? defaultProfile(options)
  const secrets = typeof sdk.apiKey === "string" ? [sdk.apiKey] : []

  const failureOf = (verdict: Verdict, model: string): ModelError =>
    makeModelError({
      ...verdict,
      model,
      providerMessage: verdict.providerMessage === null ? null : replaceSecrets(verdict.providerMessage, secrets)
    })

  const flawOf = (flaw: Flaw, model: string, requestId: string | null): ModelError =>
    makeModelError({
      kind: flaw.kind,
      status: flaw.kind === "interrupted" ? null : 200,
      code: flaw.kind === "interrupted" ? null : flaw.code,
      model,
      requestId,
      usage: flaw.usage
    })

  const problemOf = (problem: Flaw | Verdict, model: string, requestId: string | null): ModelError =>
    "inBand" in problem ? failureOf(problem, model) : flawOf(problem, model, requestId)

  /** What the SDK throws before or instead of an answer. */
  const errorOf = (cause: unknown, model: string): ModelError => {
    if (cause instanceof APIConnectionError || !(cause instanceof APIError) || cause.status === undefined)
      return makeModelError({ kind: "connection", status: null, code: networkCode(cause), model })
    const text = cause.headers === undefined ? undefined : raw.get(cause.headers)
    const body: unknown = text === undefined ? cause.error : parsedOrText(text)
    const headers = cause.headers === undefined ? {} : allowedHeaders(cause.headers)
    return failureOf(classifyAnswer(profile, { status: cause.status, headers, body }), model)
  }

  const paramOf = (model: string): BudgetParam => options.budgetParam?.[model] ?? budgetParamOf(profile, model)

  const send = (request: WireRequest, stream: boolean, signal: AbortSignal): Promise<Response> =>
    sdk
      .post("/chat/completions", {
        body: toBody(request, paramOf(request.model), stream),
        signal,
        ...(options.headers === undefined ? {} : { headers: options.headers(request) })
      })
      .asResponse()

  const generate = (request: WireRequest): Effect.Effect<ModelReply, ModelError> =>
    abortable(
      async (signal) => {
        const response = await send(request, false, signal)
        return { headers: allowedHeaders(response.headers), text: await response.text() }
      },
      (cause) => errorOf(cause, request.model)
    ).pipe(
      Effect.flatMap(({ headers, text }) => {
        const requestId = headers["x-request-id"] ?? null
        const reply = readBody({ profile, model: request.model, requestId }, text, headers)
        return Result.isSuccess(reply)
          ? Effect.succeed(reply.success)
          : Effect.fail(problemOf(reply.failure, request.model, requestId))
      })
    )

  const stream = (request: WireRequest): Stream.Stream<ModelPart, ModelError> =>
    Stream.unwrap(
      Effect.map(open(request), (source) => Stream.concat(Stream.succeed<ModelPart>({ _tag: "Life" }), source))
    )

  const open = Effect.fnUntraced(function* (
    request: WireRequest
  ): Effect.fn.Return<Stream.Stream<ModelPart, ModelError>, ModelError, Scope.Scope> {
    const controller = new AbortController()
    yield* Effect.addFinalizer(() => Effect.sync(() => controller.abort()))
    const response = yield* abortable(
      (signal) => {
        signal.addEventListener("abort", () => controller.abort(), { once: true })
        return send(request, true, controller.signal)
      },
      (cause) => errorOf(cause, request.model)
    )
    const headers = allowedHeaders(response.headers)
    const requestId = headers["x-request-id"] ?? null
    const context: ReadContext = { profile, model: request.model, requestId }
    const cut = (cause: unknown): ModelError =>
      makeModelError({ kind: "interrupted", status: null, code: networkCode(cause), model: request.model, requestId })
    const type = headers["content-type"] ?? ""
    if (response.body === null || (type !== "" && !type.includes("event-stream") && !type.startsWith("text/plain"))) {
      const text = yield* abortable(() => response.text(), cut)
      const reply = readBody(context, text, headers)
      return Result.isSuccess(reply)
        ? Stream.fromIterable(partsOf(reply.success))
        : Stream.fail(problemOf(reply.failure, request.model, requestId))
    }
    const reader = response.body.getReader()
    yield* Effect.addFinalizer(() => Effect.suspend(() => awaitAborted(reader.cancel())))
    return readEvents(reader, new StreamAssembler(context, headers), {
      cut,
      abort: () => controller.abort(),
      problem: (problem) => problemOf(problem, request.model, requestId)
    })
  })

  return ModelClient.of({ generate, stream })
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
