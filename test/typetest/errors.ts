/** The error unions of the public functions, pinned for tsc: a wider or a narrower union does not compile. */
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { BudgetExceeded, ModelError, ModelReply, Recovery, RecoveryError, ReplyPart } from "../../src/index.ts"

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false
type Shape = (typeof Recovery)["Service"]

export const complete: Same<
  ReturnType<Shape["complete"]>,
  Effect.Effect<ModelReply, ModelError | RecoveryError | BudgetExceeded>
> = true

export const stream: Same<
  ReturnType<Shape["stream"]>,
  Stream.Stream<ReplyPart, ModelError | RecoveryError | BudgetExceeded>
> = true

export const recoveryTags: Same<
  RecoveryError["_tag"],
  | "RecoveryCancelledError"
  | "RecoveryDeadlineExceeded"
  | "RecoveryRetriesExhausted"
  | "InvalidRetryAfterError"
  | "PromptTooLongRetryError"
> = true

export const modelTags: Same<
  ModelError["_tag"],
  | "ModelRateLimitError"
  | "ModelQuotaExhaustedError"
  | "ModelOverloadedError"
  | "ModelPromptTooLongError"
  | "ModelServerError"
  | "ModelTimeoutError"
  | "ModelConnectionError"
  | "ModelStreamInterruptedError"
  | "ModelAuthenticationError"
  | "ModelPermissionError"
  | "ModelNotFoundError"
  | "ModelRequestError"
  | "ModelPayloadTooLargeError"
  | "ModelContentFilteredError"
  | "OpenAIResponseError"
  | "AnthropicResponseError"
> = true

// @ts-expect-error a status of a recovery error is no string
export const wrong: RecoveryError["lastStatus"] = "429"
