/**
 * What a provider, or the network on the way to it, did wrong: one tagged error per kind. Status and tag are an
 * invariant: an error with a status its kind does not allow cannot be constructed.
 *
 * The provider's own message is kept as `providerMessage`. It is never read for a decision and stays out of logs, JSON
 * and printed errors.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { printAsText } from "./failureText.ts"
import { FaultKind, isLegal } from "./FaultKind.ts"
import { guidanceFor } from "./Guidance.ts"
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
  requestId: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  hints: Schema.Array(HintReading).pipe(Schema.withConstructorDefault(Effect.succeed([]))),
  /** The answer's x-should-retry header. */
  shouldRetry: Schema.NullOr(Schema.Boolean).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** Epoch milliseconds at which a quota or window is known to reset; null = unknown. */
  resetAt: Schema.NullOr(Schema.Finite).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  timer: Schema.NullOr(Timer).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  detail: Schema.optionalKey(Schema.Redacted(Schema.String)),
  /** Tokens the provider booked although the answer cannot be used; null = unknown. */
  usage: Schema.NullOr(Usage).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** Requests of the main conversation when recovery handed this error on; 0 from a raw client. */
  attempts: Count.pipe(Schema.withConstructorDefault(Effect.succeed(0))),
  elapsedMs: Schema.Finite.pipe(Schema.withConstructorDefault(Effect.succeed(0))),
  trail: Schema.Array(TrailEntry).pipe(Schema.withConstructorDefault(Effect.succeed([]))),
  /** A background request was given up at the first overload. */
  shed: Schema.Boolean.pipe(Schema.withConstructorDefault(Effect.succeed(false)))
})

interface Described {
  readonly kind: FaultKind
  readonly status: number | null
  readonly code: string | null
  readonly param: string | null
  readonly model: string | null
  readonly resetAt: number | null
  readonly timer: Timer | null
  readonly detail?: Redacted.Redacted<string>
}

/** One sentence without a word of the provider's. */
const sentence = (words: string, error: Described): string => {
  const facts = [
    ...(error.status === null ? [] : [`HTTP ${error.status}`]),
    ...(error.code === null ? [] : [error.code]),
    ...(error.timer === null ? [] : [`${error.timer} timer`]),
    ...(error.model === null ? [] : [error.model])
  ]
  return facts.length === 0 ? words : `${words} (${facts.join(", ")})`
}

const guide = (error: Described): string =>
  guidanceFor({
    kind: error.kind,
    code: error.code,
    param: error.param,
    status: error.status,
    resetAtEpochMillis: error.resetAt,
    inBand: error.status === 200
  })

const messageOf = (error: Described): string | null =>
  error.detail === undefined ? null : Redacted.value(error.detail)

/** HTTP 429 that passes with time; also 402 by code and inside a 200. */
export class ModelRateLimitError extends Schema.TaggedError<ModelRateLimitError>()(
  "ModelRateLimitError",
  fieldsOf("rate_limited")
) {
  get kind(): FaultKind {
    return "rate_limited"
  }
  override get message(): string {
    return sentence("the provider limits the request rate", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** Quota or credit is used up: waiting a moment does not help. */
export class ModelQuotaExhaustedError extends Schema.TaggedError<ModelQuotaExhaustedError>()(
  "ModelQuotaExhaustedError",
  fieldsOf("quota_exhausted")
) {
  get kind(): FaultKind {
    return "quota_exhausted"
  }
  override get message(): string {
    return sentence("the quota or credit of this account is used up", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** The provider has too much to do: 529, 503, 498, 429 by code, or inside a 200. */
export class ModelOverloadedError extends Schema.TaggedError<ModelOverloadedError>()(
  "ModelOverloadedError",
  fieldsOf("overloaded")
) {
  get kind(): FaultKind {
    return "overloaded"
  }
  override get message(): string {
    return sentence("the provider is overloaded", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** The input does not fit the model's window. */
export class ModelPromptTooLongError extends Schema.TaggedError<ModelPromptTooLongError>()(
  "ModelPromptTooLongError",
  fieldsOf("prompt_too_long")
) {
  get kind(): FaultKind {
    return "prompt_too_long"
  }
  override get message(): string {
    return sentence("the input is too long for the model", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** The provider failed: 5xx, 424 by profile, or inside a 200. */
export class ModelServerError extends Schema.TaggedError<ModelServerError>()(
  "ModelServerError",
  fieldsOf("server_error")
) {
  get kind(): FaultKind {
    return "server_error"
  }
  override get message(): string {
    return sentence("the provider failed", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** No answer, or no progress, in time: 408, 504, 522, 524, or one of our own timers. */
export class ModelTimeoutError extends Schema.TaggedError<ModelTimeoutError>()(
  "ModelTimeoutError",
  fieldsOf("timeout")
) {
  get kind(): FaultKind {
    return "timeout"
  }
  override get message(): string {
    return sentence("the provider did not answer in time", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** No answer came: the connection failed before any byte. */
export class ModelConnectionError extends Schema.TaggedError<ModelConnectionError>()(
  "ModelConnectionError",
  fieldsOf("connection")
) {
  get kind(): FaultKind {
    return "connection"
  }
  override get message(): string {
    return sentence("the provider could not be reached", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** The answer began and broke off. */
export class ModelStreamInterruptedError extends Schema.TaggedError<ModelStreamInterruptedError>()(
  "ModelStreamInterruptedError",
  fieldsOf("interrupted")
) {
  get kind(): FaultKind {
    return "interrupted"
  }
  override get message(): string {
    return sentence("the answer broke off", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** The key is missing, wrong or revoked. */
export class ModelAuthenticationError extends Schema.TaggedError<ModelAuthenticationError>()(
  "ModelAuthenticationError",
  fieldsOf("auth")
) {
  get kind(): FaultKind {
    return "auth"
  }
  override get message(): string {
    return sentence("the provider does not accept the key", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** The key is known and may not do this. */
export class ModelPermissionError extends Schema.TaggedError<ModelPermissionError>()(
  "ModelPermissionError",
  fieldsOf("permission")
) {
  get kind(): FaultKind {
    return "permission"
  }
  override get message(): string {
    return sentence("the key has no permission for this request", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** No such model, deployment or address. */
export class ModelNotFoundError extends Schema.TaggedError<ModelNotFoundError>()(
  "ModelNotFoundError",
  fieldsOf("not_found")
) {
  get kind(): FaultKind {
    return "not_found"
  }
  override get message(): string {
    return sentence("the model or address does not exist", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/**
 * The provider does not accept the request as it is. With status null it was refused here, before it was sent; the code
 * is then the path of a field (`messages[2].content`), or a word for what is wrong.
 */
export class ModelRequestError extends Schema.TaggedError<ModelRequestError>()(
  "ModelRequestError",
  fieldsOf("invalid_request")
) {
  get kind(): FaultKind {
    return "invalid_request"
  }
  override get message(): string {
    return sentence(
      this.status === null ? "the request cannot be sent as it is" : "the provider does not accept the request",
      this
    )
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** The request body is too large for the server. */
export class ModelPayloadTooLargeError extends Schema.TaggedError<ModelPayloadTooLargeError>()(
  "ModelPayloadTooLargeError",
  fieldsOf("payload_too_large")
) {
  get kind(): FaultKind {
    return "payload_too_large"
  }
  override get message(): string {
    return sentence("the request body is too large", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** A content filter refused the request. */
export class ModelContentFilteredError extends Schema.TaggedError<ModelContentFilteredError>()(
  "ModelContentFilteredError",
  fieldsOf("content_filtered")
) {
  get kind(): FaultKind {
    return "content_filtered"
  }
  override get message(): string {
    return sentence("a content filter refused the request", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** A 200 that is not a valid OpenAI reply. `code` says what is wrong; `empty_reply` is repeated by broad. */
export class OpenAIResponseError extends Schema.TaggedError<OpenAIResponseError>()(
  "OpenAIResponseError",
  fieldsOf("malformed_response")
) {
  get kind(): FaultKind {
    return this.code === "empty_reply" ? "empty_reply" : "malformed_response"
  }
  override get message(): string {
    return sentence("the answer is not a valid reply", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

/** A 200 that is not a valid Anthropic reply. `code` says what is wrong; `empty_reply` is repeated by broad. */
export class AnthropicResponseError extends Schema.TaggedError<AnthropicResponseError>()(
  "AnthropicResponseError",
  fieldsOf("malformed_response")
) {
  get kind(): FaultKind {
    return this.code === "empty_reply" ? "empty_reply" : "malformed_response"
  }
  override get message(): string {
    return sentence("the answer is not a valid reply", this)
  }
  get guidance(): string {
    return guide(this)
  }
  get providerMessage(): string | null {
    return messageOf(this)
  }
}

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

const all = new Set([...Object.values(classes), AnthropicResponseError])

printAsText(all)

const tags: ReadonlySet<string> = new Set([...all].map((Class) => Class.identifier))

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
  readonly requestId?: string | null
  readonly hints?: ReadonlyArray<HintReading>
  readonly shouldRetry?: boolean | null
  readonly resetAt?: number | null
  readonly timer?: Timer | null
  readonly usage?: Usage | null
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
    requestId: failure.requestId ?? null,
    hints: failure.hints ?? [],
    shouldRetry: failure.shouldRetry ?? null,
    resetAt: failure.resetAt ?? null,
    timer: failure.timer ?? null,
    usage: failure.usage ?? null,
    ...(typeof failure.providerMessage === "string" ? { detail: Redacted.make(failure.providerMessage) } : {})
  })
}

/** What recovery knows about a failure that it hands on. */
export interface Handover {
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
    requestId: error.requestId,
    hints: error.hints,
    shouldRetry: error.shouldRetry,
    resetAt: error.resetAt,
    timer: error.timer,
    usage: error.usage,
    ...(error.detail === undefined ? {} : { detail: error.detail }),
    ...handover
  })
  if (error.stack !== undefined) copy.stack = error.stack
  return copy
}
