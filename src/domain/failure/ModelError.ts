/**
 * What a provider, or the network on the way to it, did wrong: one tagged error per kind. Status and tag are an
 * invariant: an error with a status its kind does not allow cannot be constructed.
 *
 * The provider's own message is kept as `providerMessage`. It is never read for a decision and stays out of logs, JSON
 * and printed errors.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { printAsText } from "./failureText.ts"
import { FaultKind, inBandStatus, isLegal } from "./FaultKind.ts"
import { guidanceFor, saidOf } from "./Guidance.ts"
import { HintReading } from "./Hint.ts"
import { TrailEntry } from "./Trail.ts"
import { Count, Usage } from "../chat/Usage.ts"

/** Which of our own timers ended an attempt; null when the provider reported the time-out itself. */
export const Timer = Schema.Literals(["attempt", "firstToken", "idle", "content"])
export type Timer = typeof Timer.Type

const fieldsOf = (kind: FaultKind) => ({
  /** HTTP status; 200 for a failure inside a 200; null when no answer came. */
  status: Schema.NullOr(
    Schema.Int.check(
      Schema.makeFilter((status: number) => isLegal(kind, status), { expected: `a status that means ${kind}` })
    )
  ),
  /** The provider's code or type, at a fixed place of the answer; null when it gave none. */
  code: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** The field of the request that the provider refuses, by its name; null when it names none. */
  param: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** The model that was asked. */
  model: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** Our name of the logical request; null from a raw client. */
  requestId: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** The provider's own id of the HTTP request, for its support; null when it gave none. */
  providerRequestId: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  hints: Schema.Array(HintReading).pipe(Schema.withConstructorDefault(Effect.succeed([]))),
  /** The answer's x-should-retry header. */
  shouldRetry: Schema.NullOr(Schema.Boolean).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** Epoch milliseconds at which a quota or window is known to reset; null = unknown. */
  resetAt: Schema.NullOr(Schema.Finite).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  timer: Schema.NullOr(Timer).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  detail: Schema.optionalKey(Schema.Redacted(Schema.String)),
  /** Host and port that have never answered this client; null = something there has, or it is not known. */
  address: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** What was thrown in place of an answer when it names no network fault: most likely a mistake in a program. */
  cause: Schema.optionalKey(Schema.Defect()),
  /** Tokens the provider booked although the answer cannot be used; null = unknown. */
  usage: Schema.NullOr(Usage).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** Requests of the main conversation when recovery handed this error on; 0 from a raw client. */
  attempts: Count.pipe(Schema.withConstructorDefault(Effect.succeed(0))),
  elapsedMs: Schema.Finite.pipe(Schema.withConstructorDefault(Effect.succeed(0))),
  trail: Schema.Array(TrailEntry).pipe(Schema.withConstructorDefault(Effect.succeed([]))),
  /** A background request was given up at the first overload. */
  shed: Schema.Boolean.pipe(Schema.withConstructorDefault(Effect.succeed(false)))
})

/** What every error of a provider tells of itself beside its fields. */
interface Telling {
  readonly kind: FaultKind
  /** What happened, in one sentence without a word of the provider's. */
  readonly message: string
  /** What a user can do about it. */
  readonly guidance: string
  /** The provider's own words; null when it gave none. */
  readonly providerMessage: string | null
}

type Fields = ReturnType<typeof fieldsOf>
type AnyFailure = Schema.Struct.Type<Fields> & Telling

type FailureClass<Self, Tag extends string> = Schema.Class<
  Self,
  Schema.TaggedStruct<Tag, Fields>,
  Cause.YieldableError & Telling
>

const sentenceOf = (error: AnyFailure): string => {
  const facts = [
    ...(error.status === null ? [] : [`HTTP ${error.status}`]),
    ...(error.code === null ? [] : [error.code]),
    ...(error.timer === null ? [] : [`${error.timer} timer`]),
    ...(error.model === null ? [] : [error.model]),
    ...(error.address === null ? [] : [`at ${error.address}`])
  ]
  const words = saidOf(error.kind, error.status)
  return facts.length === 0 ? words : `${words} (${facts.join(", ")})`
}

const adviceOf = (error: AnyFailure): string =>
  guidanceFor({
    kind: error.kind,
    code: error.code,
    param: error.param,
    address: error.address,
    status: error.status,
    resetAtEpochMillis: error.resetAt,
    inBand: error.status === inBandStatus
  })

/** The base of the error of one kind: its fields, and what it tells. */
const modelFailure =
  <Self>() =>
  <const Tag extends string>(tag: Tag, kind: FaultKind): FailureClass<Self, Tag> => {
    // @effect-diagnostics-next-line classSelfMismatch:off
    class Failed extends Schema.TaggedError<AnyFailure>()(tag, fieldsOf(kind)) {
      get kind(): FaultKind {
        return kind === "malformed_response" && this.code === "empty_reply" ? "empty_reply" : kind
      }
      override get message(): string {
        return sentenceOf(this)
      }
      get guidance(): string {
        return adviceOf(this)
      }
      get providerMessage(): string | null {
        return this.detail === undefined ? null : Redacted.value(this.detail)
      }
    }
    // A class schema takes its instances from the class that extends it: Self is that class.
    return Failed as unknown as FailureClass<Self, Tag>
  }

/** HTTP 429 that passes with time; also 402 by code and inside a 200. */
export class ModelRateLimitError extends modelFailure<ModelRateLimitError>()("ModelRateLimitError", "rate_limited") {}

/** Quota or credit is used up: waiting a moment does not help. */
export class ModelQuotaExhaustedError extends modelFailure<ModelQuotaExhaustedError>()(
  "ModelQuotaExhaustedError",
  "quota_exhausted"
) {}

/** The provider has too much to do: 529, 503, 498, 429 by code, or inside a 200. */
export class ModelOverloadedError extends modelFailure<ModelOverloadedError>()("ModelOverloadedError", "overloaded") {}

/** The input does not fit the model's window. */
export class ModelPromptTooLongError extends modelFailure<ModelPromptTooLongError>()(
  "ModelPromptTooLongError",
  "prompt_too_long"
) {}

/** The provider failed: 5xx, 424 by profile, or inside a 200. */
export class ModelServerError extends modelFailure<ModelServerError>()("ModelServerError", "server_error") {}

/** No answer, or no progress, in time: 408, 504, 522, 524, or one of our own timers. */
export class ModelTimeoutError extends modelFailure<ModelTimeoutError>()("ModelTimeoutError", "timeout") {}

/** No answer came: the connection failed before any byte. */
export class ModelConnectionError extends modelFailure<ModelConnectionError>()("ModelConnectionError", "connection") {}

/** The answer began and broke off. */
export class ModelStreamInterruptedError extends modelFailure<ModelStreamInterruptedError>()(
  "ModelStreamInterruptedError",
  "interrupted"
) {}

/** The key is missing, wrong or revoked. */
export class ModelAuthenticationError extends modelFailure<ModelAuthenticationError>()(
  "ModelAuthenticationError",
  "auth"
) {}

/** The key is known and may not do this. */
export class ModelPermissionError extends modelFailure<ModelPermissionError>()("ModelPermissionError", "permission") {}

/** No such model, deployment or address. */
export class ModelNotFoundError extends modelFailure<ModelNotFoundError>()("ModelNotFoundError", "not_found") {}

/**
 * The provider does not accept the request as it is. With status null it was refused here, before it was sent; the code
 * is then the path of a field (`messages[2].content`), or a word for what is wrong.
 */
export class ModelRequestError extends modelFailure<ModelRequestError>()("ModelRequestError", "invalid_request") {}

/** The request body is too large for the server. */
export class ModelPayloadTooLargeError extends modelFailure<ModelPayloadTooLargeError>()(
  "ModelPayloadTooLargeError",
  "payload_too_large"
) {}

/** A content filter refused the request. */
export class ModelContentFilteredError extends modelFailure<ModelContentFilteredError>()(
  "ModelContentFilteredError",
  "content_filtered"
) {}

/** A 200 that is not a valid OpenAI reply. `code` says what is wrong; `empty_reply` is repeated by broad. */
export class OpenAIResponseError extends modelFailure<OpenAIResponseError>()(
  "OpenAIResponseError",
  "malformed_response"
) {}

/** A 200 that is not a valid Anthropic reply. `code` says what is wrong; `empty_reply` is repeated by broad. */
export class AnthropicResponseError extends modelFailure<AnthropicResponseError>()(
  "AnthropicResponseError",
  "malformed_response"
) {}

export type ModelError =
  | ModelRateLimitError
  | ModelQuotaExhaustedError
  | ModelOverloadedError
  | ModelPromptTooLongError
  | ModelServerError
  | ModelTimeoutError
  | ModelConnectionError
  | ModelStreamInterruptedError
  | ModelAuthenticationError
  | ModelPermissionError
  | ModelNotFoundError
  | ModelRequestError
  | ModelPayloadTooLargeError
  | ModelContentFilteredError
  | OpenAIResponseError
  | AnthropicResponseError

const classes = {
  rate_limited: ModelRateLimitError,
  quota_exhausted: ModelQuotaExhaustedError,
  overloaded: ModelOverloadedError,
  prompt_too_long: ModelPromptTooLongError,
  server_error: ModelServerError,
  timeout: ModelTimeoutError,
  connection: ModelConnectionError,
  interrupted: ModelStreamInterruptedError,
  auth: ModelAuthenticationError,
  permission: ModelPermissionError,
  not_found: ModelNotFoundError,
  invalid_request: ModelRequestError,
  payload_too_large: ModelPayloadTooLargeError,
  content_filtered: ModelContentFilteredError,
  malformed_response: OpenAIResponseError,
  empty_reply: OpenAIResponseError
} as const

/** Every class of them once. */
export const modelErrors = [...new Set([...Object.values(classes), AnthropicResponseError])]

printAsText(modelErrors)

const tags: ReadonlySet<string> = new Set(modelErrors.map((Class) => Class.identifier))

/** Whether a value is one of the errors a model client fails with. */
export const isModelError = (value: unknown): value is ModelError =>
  typeof value === "object" &&
  value !== null &&
  value instanceof Error &&
  "_tag" in value &&
  typeof value._tag === "string" &&
  tags.has(value._tag)

export interface Failure {
  readonly kind: FaultKind
  readonly status: number | null
  readonly code?: string | null
  readonly param?: string | null
  readonly model?: string | null
  readonly providerRequestId?: string | null
  readonly hints?: ReadonlyArray<HintReading>
  readonly shouldRetry?: boolean | null
  readonly resetAt?: number | null
  readonly timer?: Timer | null
  readonly usage?: Usage | null
  readonly address?: string | null
  readonly cause?: unknown
  /** The provider's own words; known secrets must have been replaced. */
  readonly providerMessage?: string | null
}

/** The error of a kind. A malformed or empty 200 is OpenAIResponseError unless `malformed` names the other class. */
export const makeModelError = (
  failure: Failure,
  malformed: typeof OpenAIResponseError | typeof AnthropicResponseError = OpenAIResponseError
): ModelError => {
  const isMalformed = failure.kind === "malformed_response" || failure.kind === "empty_reply"
  const Class = isMalformed ? malformed : classes[failure.kind]
  return new Class({
    status: failure.status,
    code: failure.kind === "empty_reply" ? "empty_reply" : (failure.code ?? null),
    param: failure.param ?? null,
    model: failure.model ?? null,
    providerRequestId: failure.providerRequestId ?? null,
    hints: failure.hints ?? [],
    shouldRetry: failure.shouldRetry ?? null,
    resetAt: failure.resetAt ?? null,
    timer: failure.timer ?? null,
    usage: failure.usage ?? null,
    address: failure.address ?? null,
    ...(failure.cause === undefined ? {} : { cause: failure.cause }),
    ...(typeof failure.providerMessage === "string" ? { detail: Redacted.make(failure.providerMessage) } : {})
  })
}

/** What recovery knows about a failure that it hands on. */
export interface Handover {
  readonly requestId: string
  readonly attempts: number
  readonly elapsedMs: number
  readonly trail: ReadonlyArray<TrailEntry>
  readonly shed: boolean
}

/** The same failure with the trail of what was tried; nothing else changes. */
export const handOn = (error: ModelError, handover: Handover): ModelError => {
  const Class = error._tag === "AnthropicResponseError" ? AnthropicResponseError : classes[error.kind]
  const copy = new Class({
    status: error.status,
    code: error.code,
    param: error.param,
    model: error.model,
    providerRequestId: error.providerRequestId,
    hints: error.hints,
    shouldRetry: error.shouldRetry,
    resetAt: error.resetAt,
    timer: error.timer,
    usage: error.usage,
    address: error.address,
    ...(error.cause === undefined ? {} : { cause: error.cause }),
    ...(error.detail === undefined ? {} : { detail: error.detail }),
    ...handover
  })
  if (error.stack !== undefined) copy.stack = error.stack
  return copy
}
