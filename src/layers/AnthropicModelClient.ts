/**
 * ModelClient over the `@anthropic-ai/sdk` package. The SDK's retries are off and its time-out is longer than any of
 * ours: recovery decides. Every answer is read here, from status, allowed headers and codes at fixed places.
 */
import Anthropic, { APIConnectionError, APIError } from "@anthropic-ai/sdk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { classifyAnswer, type Verdict } from "../domain/classify.ts"
import { ConfigurationError } from "../domain/ConfigurationError.ts"
import { AnthropicResponseError, makeModelError, type Failure, type ModelError } from "../domain/ModelError.ts"
import type { ModelPart, ModelReply } from "../domain/ModelReply.ts"
import type { WireRequest } from "../domain/ModelRequest.ts"
import { anthropic } from "../domain/profiles/anthropic.ts"
import type { CacheTtl } from "../domain/PromptCache.ts"
import type { ProviderProfile } from "../domain/ProviderProfile.ts"
import { ModelClient } from "../services/ModelClient.ts"
import { PromptCacheTtl } from "../services/PromptCacheTtl.ts"
import { abortable, awaitAborted } from "./abortable.ts"
import { allowedHeaders, replaceSecrets } from "./answerHeaders.ts"
import { EventAssembler, readBody, toBody } from "./anthropicWire.ts"
import { partsOf, type Flaw, type ReadContext } from "./openAiWire.ts"
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

export interface AnthropicOptions {
  /** Default: the environment's ANTHROPIC_API_KEY, by the SDK. Not needed with `client`. */
  readonly apiKey?: Redacted.Redacted<string> | string
  /** http or https; anything else is a ConfigurationError. */
  readonly baseUrl?: string | URL
  /** A client of your own (proxy, Bedrock or Vertex credentials): its retries are switched off for our calls. */
  readonly client?: Anthropic
  /** A fetch of your own instead of the default transport. Not used with `client`. */
  readonly fetch?: UndiciFetch.Fetch
  /** How the provider reports failures. Default: anthropic. */
  readonly profile?: ProviderProfile
  /** Lifetime of prompt cache markers where the caller (an agent's session) says none; null = no markers. Default: null. */
  readonly cacheTtl?: CacheTtl | null
  /** Further headers per request. */
  readonly headers?: (request: WireRequest) => Readonly<Record<string, string>>
}

const sdkOf = (options: AnthropicOptions, raw: RawBodies): Anthropic => {
  if (options.client !== undefined) return options.client.withOptions({ maxRetries: 0, timeout: sdkTimeoutMillis })
  const baseURL = checkedBaseUrl(options.baseUrl)
  const key = options.apiKey ?? process.env["ANTHROPIC_API_KEY"]
  if (key === undefined || key === "")
    throw new ConfigurationError({ field: "apiKey", reason: "is missing: give `apiKey`, or set ANTHROPIC_API_KEY" })
  return new Anthropic({
    apiKey: Redacted.isRedacted(key) ? Redacted.value(key) : key,
    ...(baseURL === undefined ? {} : { baseURL }),
    maxRetries: 0,
    timeout: sdkTimeoutMillis,
    fetch: keepingErrors(options.fetch ?? UndiciFetch.make(), raw)
  })
}

const requestIdOf = (headers: Readonly<Record<string, string>>): string | null => headers["request-id"] ?? null

/** The client as a value, for a second provider: `RecoveryLive.layer(policy, { clients: { backup: make(...) } })`. */
export const make = (options: AnthropicOptions = {}): (typeof ModelClient)["Service"] => {
  const raw: RawBodies = new WeakMap()
  const sdk = sdkOf(options, raw)
  const profile = options.profile ?? anthropic
  const secrets = typeof sdk.apiKey === "string" ? [sdk.apiKey] : []

  /** What the session has settled wins; a profile without markers gets none. */
  const cacheTtl = Effect.map(PromptCacheTtl, (settled) =>
    profile.capabilities.cacheMarkers ? (settled ?? options.cacheTtl ?? null) : null
  )

  const errorFrom = (failure: Failure): ModelError => makeModelError(failure, AnthropicResponseError)

  const failureOf = (verdict: Verdict, model: string): ModelError =>
    errorFrom({
      ...verdict,
      model,
      providerMessage: verdict.providerMessage === null ? null : replaceSecrets(verdict.providerMessage, secrets)
    })

  const problemOf = (problem: Flaw | Verdict, model: string, requestId: string | null): ModelError =>
    "inBand" in problem
      ? failureOf(problem, model)
      : errorFrom({
          kind: problem.kind,
          status: problem.kind === "interrupted" ? null : 200,
          code: problem.kind === "interrupted" ? null : problem.code,
          model,
          requestId,
          usage: problem.usage
        })

  const errorOf = (cause: unknown, model: string): ModelError => {
    if (cause instanceof APIConnectionError || !(cause instanceof APIError) || cause.status === undefined)
      return errorFrom({ kind: "connection", status: null, code: networkCode(cause), model })
    const text = cause.headers === undefined ? undefined : raw.get(cause.headers)
    const body: unknown = text === undefined ? cause.error : parsedOrText(text)
    const headers = cause.headers === undefined ? {} : allowedHeaders(cause.headers)
    return failureOf(classifyAnswer(profile, { status: cause.status, headers, body }), model)
  }

  const send = (request: WireRequest, ttl: CacheTtl | null, stream: boolean, signal: AbortSignal): Promise<Response> =>
    sdk
      .post("/v1/messages", {
        body: toBody(request, ttl, stream),
        signal,
        ...(options.headers === undefined ? {} : { headers: options.headers(request) })
      })
      .asResponse()

  const generate = (request: WireRequest): Effect.Effect<ModelReply, ModelError> =>
    cacheTtl.pipe(
      Effect.flatMap((ttl) =>
        abortable(
          async (signal) => {
            const response = await send(request, ttl, false, signal)
            return { headers: allowedHeaders(response.headers), text: await response.text() }
          },
          (cause) => errorOf(cause, request.model)
        )
      ),
      Effect.flatMap(({ headers, text }) => {
        const requestId = requestIdOf(headers)
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
    const ttl = yield* cacheTtl
    const controller = new AbortController()
    yield* Effect.addFinalizer(() => Effect.sync(() => controller.abort()))
    const response = yield* abortable(
      (signal) => {
        signal.addEventListener("abort", () => controller.abort(), { once: true })
        return send(request, ttl, true, controller.signal)
      },
      (cause) => errorOf(cause, request.model)
    )
    const headers = allowedHeaders(response.headers)
    const requestId = requestIdOf(headers)
    const context: ReadContext = { profile, model: request.model, requestId }
    const cut = (cause: unknown): ModelError =>
      errorFrom({ kind: "interrupted", status: null, code: networkCode(cause), model: request.model, requestId })
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
    return readEvents(reader, new EventAssembler(context, headers), {
      cut,
      abort: () => controller.abort(),
      problem: (problem) => problemOf(problem, request.model, requestId)
    })
  })

  return ModelClient.of({ generate, stream })
}

/** A ModelClient for Anthropic's messages API. Bad options are a ConfigurationError. */
export const layer = (options: AnthropicOptions = {}): Layer.Layer<ModelClient, ConfigurationError> =>
  Layer.effect(
    ModelClient,
    Effect.try({
      try: () => make(options),
      catch: (cause) =>
        cause instanceof ConfigurationError ? cause : new ConfigurationError({ field: "apiKey", reason: String(cause) })
    })
  )
