/**
 * A ModelClient over one wire: sends once through an SDK and reads the answer, whole or as a stream. The SDK's retries
 * are off and its time-out is longer than any of ours: recovery decides. Every answer is read here, from status,
 * allowed headers and codes at fixed places.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { answerLimits, type AnswerLimits } from "../../domain/chat/AnswerLimits.ts"
import { parsedOrText } from "../../domain/chat/json.ts"
import { hostAndPort } from "../../domain/provider/address.ts"
import { classifyAnswer, type Verdict } from "../../domain/provider/classify.ts"
import {
  makeModelError,
  type AnthropicResponseError,
  type Failure,
  type ModelError,
  type OpenAIResponseError
} from "../../domain/failure/ModelError.ts"
import type { ModelPart, ModelReply } from "../../domain/chat/ModelReply.ts"
import type { WireRequest } from "../../domain/chat/ModelRequest.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import { ModelClient } from "../../services/ModelClient.ts"
import { abortable, awaitAborted } from "./abortable.ts"
import { allowedHeaders, replaceSecrets, secretsOf, withoutSecrets, type Secrets } from "./answerHeaders.ts"
import { EventAssembler, eventsAsReply } from "./EventAssembler.ts"
import type { EventReader } from "../../domain/wires/EventReader.ts"
import { AnswerTooLarge, checkedText, readErrorText, readText } from "./answerBody.ts"
import { inGateway, runIdOf } from "./repeatHeader.ts"
import { networkCode } from "./networkCode.ts"
import { drain, formatOf, readEvents, type Exchanges } from "./providerAnswer.ts"
import { ownNames } from "../../domain/wires/history.ts"
import { flaw, partsOf, type Flaw, type ReadContext } from "../../domain/wires/wireReply.ts"

type HeaderMap = Readonly<Record<string, string>>

export type Send = (request: WireRequest, isStream: boolean, signal: AbortSignal) => Promise<Response>

/** A failed answer, as an SDK throws it. */
export interface ThrownAnswer {
  readonly status: number
  readonly headers: Headers | undefined
  /** What the SDK made of the body. */
  readonly error: unknown
}

/** What a call of an SDK ended with when it gave no answer to read. */
export type Thrown = ThrownAnswer | "no answer" | "not built"

export interface Wire {
  /** Whom the requests reach; see `ModelClient`. */
  readonly identity: string
  /** Where requests go. */
  readonly address: string
  readonly profile: ProviderProfile
  /** Header with the provider's own id of a request. */
  readonly requestIdHeader: string
  /** The error of a 200 that is no valid reply. */
  readonly malformed: typeof OpenAIResponseError | typeof AnthropicResponseError
  /** What was sent, and bodies of failed answers, whole. */
  readonly exchanges: Exchanges
  readonly thrownBy: (cause: unknown) => Thrown
  /** An effect: what is sent may depend on the session. */
  readonly sender: Effect.Effect<Send>
  readonly readBody: (
    context: ReadContext,
    text: string,
    headers: HeaderMap
  ) => Result.Result<ModelReply, Flaw | Verdict>
  readonly eventReaderOf: (context: ReadContext, headers: HeaderMap) => EventReader
}

/** Servers that name no type or plain text may still send events. */
const mayBeEvents = (headers: HeaderMap): boolean => {
  const type = (headers["content-type"] ?? "").toLowerCase()
  return type === "" || type.includes("event-stream") || type.startsWith("text/plain")
}

/** An answer whose headers have come. */
interface Opened {
  /** What its headers tell. */
  readonly head: ReadonlyArray<ModelPart>
  readonly source: Stream.Stream<ModelPart, ModelError>
}

/** Headers are a sign of life; those of a gateway also tell that it keeps the answer. */
const headOf = (request: WireRequest, headers: Headers): ReadonlyArray<ModelPart> => {
  const run = headers.get("x-holdfast-run-id")
  const isKept = run !== null && run === runIdOf(request)
  return isKept ? [{ _tag: "Stored", name: inGateway }] : [{ _tag: "Life" }]
}

const limitsOf = ({ limits = answerLimits }: WireRequest): AnswerLimits => limits

export const clientOver = (wire: Wire): (typeof ModelClient)["Service"] => {
  const { profile, exchanges } = wire

  const secretsBehind = (headers: object | undefined): Secrets =>
    secretsOf(headers === undefined ? undefined : exchanges.get(headers)?.sent)

  const errorFrom = (failure: Failure): ModelError => makeModelError(failure, wire.malformed)

  const failureOf = (verdict: Verdict, model: string, secrets: Secrets): ModelError =>
    errorFrom({
      ...verdict,
      code: withoutSecrets(verdict.code, secrets),
      model,
      providerMessage: verdict.providerMessage === null ? null : replaceSecrets(verdict.providerMessage, secrets)
    })

  const problemOf = (problem: Flaw | Verdict, { model, requestId }: ReadContext, secrets: Secrets): ModelError => {
    if ("inBand" in problem) return failureOf(problem, model, secrets)
    const { kind, usage } = problem
    return kind === "interrupted"
      ? errorFrom({ kind, status: null, code: problem.code, model, providerRequestId: requestId, usage })
      : errorFrom({ kind, status: 200, code: problem.code, model, providerRequestId: requestId, usage })
  }

  /** Something at this address has answered this client before. */
  let hasAnswered = false

  /** No answer came. What names no network fault is kept whole: it is most likely a mistake in a program. */
  const unreached = (cause: unknown, model: string): ModelError => {
    const code = networkCode(cause)
    const inner = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause
    return errorFrom({
      kind: "connection",
      status: null,
      code,
      model,
      address: hasAnswered || code === null ? null : hostAndPort(wire.address),
      ...(code === null ? { cause: inner } : {})
    })
  }

  /** What the SDK throws before or instead of an answer. The body of a failed answer is read here. */
  const errorOf = Effect.fnUntraced(function* (cause: unknown, { model, limits = answerLimits }: WireRequest) {
    const thrown = wire.thrownBy(cause)
    if (thrown === "not built")
      return errorFrom({ kind: "invalid_request", status: null, code: "request_not_built", model })
    if (thrown === "no answer") return unreached(cause, model)
    hasAnswered = true
    const exchange = thrown.headers === undefined ? undefined : exchanges.get(thrown.headers)
    const body: unknown =
      exchange === undefined ? thrown.error : parsedOrText(yield* readErrorText(exchange.body, limits.errorBytes))
    const secrets = secretsBehind(thrown.headers)
    const headers = thrown.headers === undefined ? {} : allowedHeaders(thrown.headers, secrets)
    return failureOf(classifyAnswer(profile, { status: thrown.status, headers, body }), model, secrets)
  })

  /** An answer that came before its failure was seen: a body that broke off, or more than is read. */
  const failed = (
    request: WireRequest,
    cause: unknown,
    context: ReadContext | null
  ): Effect.Effect<never, ModelError> =>
    context === null
      ? Effect.flatMap(errorOf(cause, request), Effect.fail)
      : Effect.fail(
          cause instanceof AnswerTooLarge
            ? problemOf(flaw("reply_too_large"), context, { keys: [], values: [] })
            : cutOf(context, cause)
        )

  const contextOf = (request: WireRequest, headers: HeaderMap): ReadContext => ({
    profile,
    model: request.model,
    requestId: headers[wire.requestIdHeader] ?? null,
    ownName: ownNames(request, profile)
  })

  /** The body broke off although headers had come. */
  const cutOf = ({ model, requestId }: ReadContext, cause: unknown): ModelError =>
    errorFrom({ kind: "interrupted", status: null, code: networkCode(cause), model, providerRequestId: requestId })

  /** A body that a stream was asked for and that is none is rare: it is made one. */
  const bodyOf = (response: Response): ReadableStream<Uint8Array> | null => {
    const text = exchanges.get(response.headers)?.text ?? null
    return text === null ? response.body : new Response(text).body
  }

  /** A body, or events that came in place of one. */
  const read = (
    context: ReadContext,
    text: string,
    headers: HeaderMap,
    secrets: Secrets
  ): Result.Result<ModelReply, ModelError> =>
    Result.mapError(
      !profile.exact && formatOf(text, false) === "events"
        ? eventsAsReply(new EventAssembler(wire.eventReaderOf(context, headers)), text)
        : wire.readBody(context, text, headers),
      (problem) => problemOf(problem, context, secrets)
    )

  const generate = (request: WireRequest): Effect.Effect<ModelReply, ModelError> =>
    wire.sender.pipe(
      Effect.flatMap((send) => {
        let context: ReadContext | null = null
        return abortable(
          async (signal) => {
            const response = await send(request, false, signal)
            hasAnswered = true
            const exchange = exchanges.get(response.headers)
            const secrets = secretsOf(exchange?.sent)
            const headers = allowedHeaders(response.headers, secrets)
            const known = contextOf(request, headers)
            context = known
            const { replyBytes } = limitsOf(request)
            const text = exchange?.text ?? null
            return {
              context: known,
              headers,
              secrets,
              text: text === null ? await readText(response.body, replyBytes) : checkedText(text, replyBytes)
            }
          },
          (cause) => cause
        ).pipe(Effect.catch((cause) => failed(request, cause, context)))
      }),
      Effect.flatMap(({ context, headers, secrets, text }) => Effect.fromResult(read(context, text, headers, secrets)))
    )

  const stream = (request: WireRequest): Stream.Stream<ModelPart, ModelError> =>
    Stream.unwrap(Effect.map(open(request), ({ head, source }) => Stream.concat(Stream.fromArray(head), source)))

  /** Headers have come; leaving the scope closes the connection and waits for it. */
  const open = Effect.fnUntraced(function* (request: WireRequest): Effect.fn.Return<Opened, ModelError, Scope.Scope> {
    const send = yield* wire.sender
    const controller = new AbortController()
    /** The reply is over: its connection may close by itself. */
    let isLeft = false
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        if (!isLeft) controller.abort()
      })
    )
    const response = yield* abortable(
      (signal) => {
        signal.addEventListener("abort", () => controller.abort(), { once: true })
        return send(request, true, controller.signal)
      },
      (cause) => cause
    ).pipe(Effect.catch((cause) => failed(request, cause, null)))
    hasAnswered = true
    const secrets = secretsBehind(response.headers)
    const headers = allowedHeaders(response.headers, secrets)
    const head = headOf(request, response.headers)
    const context = contextOf(request, headers)
    const cut = (cause: unknown): ModelError => cutOf(context, cause)
    const whole = (text: string) => Result.map(read(context, text, headers, secrets), partsOf)
    const body = bodyOf(response)
    if (body === null)
      return {
        head,
        source: Result.match(whole(""), {
          onSuccess: (parts) => Stream.fromIterable(parts),
          onFailure: (error) => Stream.fail(error)
        })
      }
    const reader = body.getReader()
    yield* Effect.addFinalizer(() => (isLeft ? Effect.void : Effect.suspend(() => awaitAborted(reader.cancel()))))
    const source = readEvents(
      reader,
      new EventAssembler(wire.eventReaderOf(context, headers), limitsOf(request).eventBytes),
      {
        limits: limitsOf(request),
        isEventStream: mayBeEvents(headers),
        whole,
        cut,
        abort: () => controller.abort(),
        leave: () => {
          isLeft = true
          drain(reader, () => controller.abort())
        },
        problem: (problem) => problemOf(problem, context, secrets)
      }
    )
    return { head, source }
  })

  return ModelClient.of({ identity: wire.identity, provider: profile.name, generate, stream })
}
