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
import { sourceOf } from "./byteStreams.ts"
import { AnswerTooLarge, checkedText, readErrorText, readText, wholeText } from "./answerBody.ts"
import { inGateway, runIdOf } from "./repeatHeader.ts"
import { networkCode } from "../../domain/failure/networkCode.ts"
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

const limitsOf = ({ limits = answerLimits }: WireRequest): AnswerLimits => limits

/** A wire, and whether something at its address has answered this client before. */
interface Line extends Wire {
  hasAnswered: boolean
}

const failureOf = ({ malformed }: Wire, verdict: Verdict, model: string, secrets: Secrets): ModelError =>
  makeModelError(
    {
      ...verdict,
      code: withoutSecrets(verdict.code, secrets),
      model,
      providerMessage: verdict.providerMessage === null ? null : replaceSecrets(verdict.providerMessage, secrets)
    },
    malformed
  )

/** The body broke off although headers had come. */
const cutOf = (wire: Wire, { model, requestId }: ReadContext, cause: unknown): ModelError => {
  const code = networkCode(cause)
  const failure: Failure = { kind: "interrupted", status: null, code, model, providerRequestId: requestId }
  return makeModelError(failure, wire.malformed)
}

/** No answer came. What names no network fault is kept whole: it is most likely a mistake in a program. */
const unreached = (line: Line, cause: unknown, model: string): ModelError => {
  const code = networkCode(cause)
  const inner = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause
  return makeModelError(
    {
      kind: "connection",
      status: null,
      code,
      model,
      address: line.hasAnswered || code === null ? null : hostAndPort(line.address),
      ...(code === null ? { cause: inner } : {})
    },
    line.malformed
  )
}

/** What the SDK throws before or instead of an answer. The body of a failed answer is read here. */
const thrownError = Effect.fnUntraced(function* (line: Line, cause: unknown, request: WireRequest) {
  const { exchanges, malformed, profile } = line
  const { model } = request
  const thrown = line.thrownBy(cause)
  if (thrown === "not built")
    return makeModelError({ kind: "invalid_request", status: null, code: "request_not_built", model }, malformed)
  if (thrown === "no answer") return unreached(line, cause, model)
  line.hasAnswered = true
  const exchange = thrown.headers === undefined ? undefined : exchanges.get(thrown.headers)
  const secrets = secretsOf(exchange?.sent)
  const body: unknown =
    exchange === undefined
      ? thrown.error
      : parsedOrText(
          yield* readErrorText(exchange.body === null ? null : sourceOf(exchange.body), limitsOf(request).errorBytes)
        )
  const headers = thrown.headers === undefined ? {} : allowedHeaders(thrown.headers, secrets)
  return failureOf(line, classifyAnswer(profile, { status: thrown.status, headers, body }), model, secrets)
})

/** An answer of which the headers have come. */
interface Head {
  readonly line: Line
  readonly context: ReadContext
  readonly headers: HeaderMap
  readonly secrets: Secrets
  /** The body, where it was read as one. */
  readonly text: string | null
}

const headOf = (line: Line, request: WireRequest, response: Response): Head => {
  line.hasAnswered = true
  const { profile } = line
  const exchange = line.exchanges.get(response.headers)
  const secrets = secretsOf(exchange?.sent)
  const headers = allowedHeaders(response.headers, secrets)
  const requestId = headers[line.requestIdHeader] ?? null
  const context: ReadContext = { profile, model: request.model, requestId, ownName: ownNames(request, profile) }
  return { line, context, headers, secrets, text: exchange?.text ?? null }
}

const problemOf = ({ line, context, secrets }: Head, problem: Flaw | Verdict): ModelError => {
  const { model, requestId } = context
  if ("inBand" in problem) return failureOf(line, problem, model, secrets)
  const { kind, usage, code } = problem
  return kind === "interrupted"
    ? makeModelError({ kind, status: null, code, model, providerRequestId: requestId, usage }, line.malformed)
    : makeModelError({ kind, status: 200, code, model, providerRequestId: requestId, usage }, line.malformed)
}

/** What went wrong before or while an answer was read; null = its headers had not come. */
const failed = (
  line: Line,
  request: WireRequest,
  cause: unknown,
  head: Head | null
): Effect.Effect<never, ModelError> => {
  if (head === null) return Effect.flatMap(thrownError(line, cause, request), Effect.fail)
  return Effect.fail(
    cause instanceof AnswerTooLarge ? problemOf(head, flaw("reply_too_large")) : cutOf(line, head.context, cause)
  )
}

/** A body, or events that came in place of one. */
const readWhole = (head: Head, text: string): Result.Result<ModelReply, ModelError> => {
  const { line, context, headers } = head
  return Result.mapError(
    !line.profile.exact && formatOf(text, false) === "events"
      ? eventsAsReply(new EventAssembler(line.eventReaderOf(context, headers)), text)
      : line.readBody(context, text, headers),
    (problem) => problemOf(head, problem)
  )
}

const generate = (line: Line, request: WireRequest): Effect.Effect<ModelReply, ModelError> =>
  line.sender.pipe(
    Effect.flatMap((send) => {
      let head: Head | null = null
      return abortable(
        async (signal) => {
          const response = await send(request, false, signal)
          const known = headOf(line, request, response)
          head = known
          const { replyBytes } = limitsOf(request)
          const body =
            known.text === null
              ? await readText(response.body, replyBytes)
              : { text: checkedText(known.text, replyBytes), open: null }
          return { head: known, body }
        },
        (cause) => cause
      ).pipe(Effect.catch((cause) => failed(line, request, cause, head)))
    }),
    Effect.flatMap(({ head, body }) => {
      const result = (text: string) => Effect.fromResult(readWhole(head, text))
      return body.open === null ? result(body.text) : Effect.flatMap(wholeText(body), result)
    })
  )

/** A stream whose headers have come. */
interface Opened {
  /** What its headers tell. */
  readonly signs: ReadonlyArray<ModelPart>
  readonly source: Stream.Stream<ModelPart, ModelError>
}

/** Headers are a sign of life; those of a gateway also tell that it keeps the answer. */
const signsOf = (request: WireRequest, headers: Headers): ReadonlyArray<ModelPart> => {
  const run = headers.get("x-holdfast-run-id")
  const isKept = run !== null && run === runIdOf(request)
  return isKept ? [{ _tag: "Stored", name: inGateway }] : [{ _tag: "Life" }]
}

/** The connection of a stream. */
interface Connection {
  readonly abort: () => void
  /** The reply is over: the connection may close by itself. */
  isLeft: boolean
}

/** Sends; leaving the scope closes the connection. */
const connect = Effect.fnUntraced(function* (line: Line, request: WireRequest) {
  const send = yield* line.sender
  const controller = new AbortController()
  const connection: Connection = { abort: () => controller.abort(), isLeft: false }
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      if (!connection.isLeft) connection.abort()
    })
  )
  const response = yield* abortable(
    (signal) => {
      signal.addEventListener("abort", connection.abort, { once: true })
      return send(request, true, controller.signal)
    },
    (cause) => cause
  ).pipe(Effect.catch((cause) => failed(line, request, cause, null)))
  return { connection, response }
})

/** Headers have come; leaving the scope closes the connection and waits for it. */
const open = Effect.fnUntraced(function* (
  line: Line,
  request: WireRequest
): Effect.fn.Return<Opened, ModelError, Scope.Scope> {
  const { connection, response } = yield* connect(line, request)
  const head = headOf(line, request, response)
  const signs = signsOf(request, response.headers)
  const whole = (text: string) => Result.map(readWhole(head, text), partsOf)
  // A body that a stream was asked for and that is none is rare: it is made one.
  const body = head.text === null ? response.body : new Response(head.text).body
  if (body === null)
    return {
      signs,
      source: Result.match(whole(""), {
        onSuccess: (parts) => Stream.fromIterable(parts),
        onFailure: (error) => Stream.fail(error)
      })
    }
  const reader = body.getReader()
  yield* Effect.addFinalizer(() =>
    connection.isLeft ? Effect.void : Effect.suspend(() => awaitAborted(reader.cancel()))
  )
  const limits = limitsOf(request)
  const assembler = new EventAssembler(line.eventReaderOf(head.context, head.headers), limits.eventBytes)
  const source = readEvents(reader, assembler, {
    limits,
    isEventStream: mayBeEvents(head.headers),
    whole,
    cut: (cause) => cutOf(line, head.context, cause),
    abort: connection.abort,
    leave: () => {
      connection.isLeft = true
      drain(reader, connection.abort)
    },
    problem: (problem) => problemOf(head, problem)
  })
  return { signs, source }
})

export const clientOver = (wire: Wire): (typeof ModelClient)["Service"] => {
  const line: Line = { ...wire, hasAnswered: false }
  return ModelClient.of({
    identity: wire.identity,
    provider: wire.profile.name,
    generate: (request) => generate(line, request),
    stream: (request) =>
      Stream.unwrap(
        Effect.map(open(line, request), ({ signs, source }) => Stream.concat(Stream.fromArray(signs), source))
      )
  })
}
