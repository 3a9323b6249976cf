/**
 * What recovery gave up on. Each failure is its own tagged error and carries the trail, the elapsed time, the last
 * outcome, the causes and one sentence the user can act on.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { printAsText } from "./failureText.ts"
import { failureWithPartial } from "./partial.ts"
import { TrailEntry } from "./Trail.ts"
import { Count } from "../chat/Usage.ts"
import { requestsText, routeText, spanText } from "./wording.ts"
import { reasonWords } from "./words.ts"

/** Fields of every failure recovery ends with. */
export const standingFields = {
  /** Our name of the logical request, as in its events; null = it had not begun. */
  requestId: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** The provider's own id of the last failed HTTP request; null when it gave none. */
  providerRequestId: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  /** Requests of the main conversation that were sent. */
  attempts: Count,
  elapsedMs: Schema.Finite,
  trail: Schema.Array(TrailEntry),
  /** Kind of the last outcome: "overloaded", "Truncated", "NothingToCompact" ... */
  lastOutcome: Schema.String,
  /** Tag of the last failure; null when nothing failed. */
  lastCause: Schema.NullOr(Schema.String),
  /** Status of the last failure; null when no answer came. */
  lastStatus: Schema.NullOr(Schema.Int),
  code: Schema.NullOr(Schema.String),
  /** Model of the last request. */
  model: Schema.NullOr(Schema.String),
  /** Name of the client that reaches it; null = the default one. */
  client: Schema.NullOr(Schema.String).pipe(Schema.withConstructorDefault(Effect.succeed(null))),
  guidance: Schema.String,
  /** The last failure itself; a fallback's refusal does not take the place of what a busy route had said before it. */
  cause: Schema.optionalKey(Schema.Defect()),
  /** The first failure; the same as `cause` when there was one only. */
  firstCause: Schema.optionalKey(Schema.Defect())
}

const fields = standingFields

/** What a failure says of the request so far; its guidance comes on top. */
export type Standing = Omit<Schema.Struct.Type<typeof fields>, "guidance">

/** Which route was asked last; nothing when none was. */
const onRoute = ({ client, model }: { readonly client: string | null; readonly model: string | null }): string =>
  model === null ? "" : ` (${routeText(model, client)})`

/** A request that sent nothing. */
export const notBegun: Standing = {
  requestId: null,
  providerRequestId: null,
  attempts: 0,
  elapsedMs: 0,
  trail: [],
  lastOutcome: "none",
  lastCause: null,
  lastStatus: null,
  code: null,
  model: null,
  client: null
}

/** The user took the request back. Only at Promise edges: inside Effect interruption stays interruption. */
export class RecoveryCancelledError extends Schema.TaggedError<RecoveryCancelledError>()(
  "RecoveryCancelledError",
  fields
) {
  override get message(): string {
    return "the request was cancelled"
  }
}

/** The deadline passed, or the wait the provider asked for would reach it. */
export class RecoveryDeadlineExceeded extends Schema.TaggedError<RecoveryDeadlineExceeded>()(
  "RecoveryDeadlineExceeded",
  {
    ...fields,
    /** The wait that did not fit; null when the time ran out during an attempt or a wait. */
    requestedWaitMs: Schema.NullOr(Schema.Finite),
    remainingMs: Schema.Finite,
    /** Epoch milliseconds from which another try makes sense; null = unknown. */
    retryAt: Schema.NullOr(Schema.Finite)
  }
) {
  override get message(): string {
    return this.requestedWaitMs === null
      ? `no whole reply within the deadline (${requestsText(this.attempts)}, ${spanText(this.elapsedMs)})${onRoute(this)}`
      : `the wait of ${spanText(this.requestedWaitMs)} does not fit into the ${spanText(this.remainingMs)} that are left`
  }
}

export const ExhaustedReason = Schema.Literals([
  "Attempts",
  "Continuations",
  "SmallGain",
  "TruncatedToolCall",
  "EmptyFragment",
  "TruncatedStructure"
])
export type ExhaustedReason = typeof ExhaustedReason.Type

/** Retries or continuations are used up. `partial` is the merged text so far; it stays out of logs and JSON. */
export class RecoveryRetriesExhausted extends failureWithPartial<RecoveryRetriesExhausted>()(
  "RecoveryRetriesExhausted",
  { ...fields, reason: ExhaustedReason }
) {
  override get message(): string {
    return `${reasonWords[this.reason].said} after ${requestsText(this.attempts)}${onRoute(this)}; last: ${this.lastOutcome}`
  }
}

/** A wait hint that cannot be read, in a preset that takes hints exactly: no sleep, no retry. */
export class InvalidRetryAfterError extends Schema.TaggedError<InvalidRetryAfterError>()(
  "InvalidRetryAfterError",
  fields
) {
  override get message(): string {
    return `${reasonWords.InvalidRetryAfter.said}${onRoute(this)}`
  }
}

export const TooLongReason = Schema.Literals(["StillTooLong", "NothingToCompact", "SummaryFailed", "NotSmaller"])
export type TooLongReason = typeof TooLongReason.Type

/** The input is too long and compaction could not help. `cause` is the overflow, or the failure of the summary. */
export class PromptTooLongRetryError extends Schema.TaggedError<PromptTooLongRetryError>()("PromptTooLongRetryError", {
  ...fields,
  reason: TooLongReason
}) {
  override get message(): string {
    return `the input is too long and compaction did not help: ${reasonWords[this.reason].said}${onRoute(this)}`
  }
}

export type RecoveryError =
  | RecoveryCancelledError
  | RecoveryDeadlineExceeded
  | RecoveryRetriesExhausted
  | InvalidRetryAfterError
  | PromptTooLongRetryError

printAsText([
  RecoveryCancelledError,
  RecoveryDeadlineExceeded,
  RecoveryRetriesExhausted,
  InvalidRetryAfterError,
  PromptTooLongRetryError
])

const tags: ReadonlySet<string> = new Set([
  "RecoveryCancelledError",
  "RecoveryDeadlineExceeded",
  "RecoveryRetriesExhausted",
  "InvalidRetryAfterError",
  "PromptTooLongRetryError"
])

/** Whether a value is one of the errors recovery gives up with. */
export const isRecoveryError = (value: unknown): value is RecoveryError =>
  value instanceof Error && "_tag" in value && typeof value._tag === "string" && tags.has(value._tag)
