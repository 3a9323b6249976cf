/**
 * Failures of a request as errors of effect/ai, and back. The reason says what went wrong in effect/ai's words; the typed
 * failure itself is kept beside it, and its fields as JSON in `metadata.holdfast`, without a text of the conversation or
 * of the provider. An error of a wrapped LanguageModel that nobody could mend is handed on as it came.
 */
import * as AiError from "effect/ai/AiError"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import { waitOf } from "../../domain/failure/Hint.ts"
import { isModelError, modelErrors, type ModelError } from "../../domain/failure/ModelError.ts"
import {
  InvalidRetryAfterError,
  PromptTooLongRetryError,
  RecoveryCancelledError,
  RecoveryDeadlineExceeded,
  RecoveryRetriesExhausted
} from "../../domain/failure/RecoveryError.ts"
import { isObject } from "../../domain/chat/json.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import { ownKey } from "./promptMessages.ts"

type Metadata = AiError.ProviderMetadata

/** The failures behind the reasons made here, while the process lives. */
const failures = new WeakMap<AiError.AiErrorReason, RequestFailure>()

/** Fields that hold texts, or values of others: they stay in the process. */
const inProcess: ReadonlySet<string> = new Set(["cause", "firstCause", "detail", "partialText"])

const jsonOf = (failure: RequestFailure): Metadata => {
  const fields: Record<string, unknown> = { _tag: failure._tag }
  for (const [key, value] of Object.entries(failure)) if (!inProcess.has(key)) fields[key] = value
  return { [ownKey]: JSON.parse(JSON.stringify(fields)) as Metadata[string] }
}

interface Facts {
  readonly status: number | null
  readonly kind: ModelError["kind"] | null
  /** What the provider, or the network, did last. */
  readonly source: ModelError | null
}

const factsOf = (failure: RequestFailure): Facts => {
  const source = isModelError(failure) ? failure : isModelError(failure.cause) ? failure.cause : null
  return { source, kind: source?.kind ?? null, status: source?.status ?? null }
}

/** What the provider asked to wait; undefined = nothing that can be read. */
const retryAfterOf = (source: ModelError | null, nowMillis: number): Duration.Duration | undefined => {
  const waits = (source?.hints ?? []).map((hint) => waitOf(hint, nowMillis)).filter((wait) => wait !== null)
  return waits.length === 0 ? undefined : Duration.millis(Math.max(...waits))
}

type AuthenticationKind = AiError.AuthenticationError["kind"]

interface Common {
  readonly metadata: Metadata
  readonly http?: typeof AiError.HttpContext.Type
}

const authentication = (kind: AuthenticationKind, description: string, common: Common): AiError.AiErrorReason =>
  new AiError.AuthenticationError({ kind, description, ...common })

/** The reason of what a provider did. */
const providerReason = (
  { source, kind }: Facts,
  description: string,
  common: Common,
  nowMillis: number
): AiError.AiErrorReason => {
  switch (kind) {
    case "rate_limited": {
      const retryAfter = retryAfterOf(source, nowMillis)
      return new AiError.RateLimitError({ ...common, ...(retryAfter === undefined ? {} : { retryAfter }) })
    }
    case "quota_exhausted": {
      const resetAt = source?.resetAt ?? null
      return new AiError.QuotaExhaustedError({
        ...common,
        ...(resetAt === null ? {} : { resetAt: DateTime.makeUnsafe(resetAt) })
      })
    }
    case "auth":
      return authentication(source?.code === "missing_key" ? "MissingKey" : "InvalidKey", description, common)
    case "permission":
      return authentication("InsufficientPermissions", description, common)
    case "content_filtered":
      return new AiError.ContentPolicyError({ description, ...common })
    case "not_found":
    case "invalid_request":
    case "payload_too_large":
    case "prompt_too_long": {
      const parameter = source?.param ?? null
      return new AiError.InvalidRequestError({ description, ...common, ...(parameter === null ? {} : { parameter }) })
    }
    case "malformed_response":
    case "empty_reply":
      return new AiError.InvalidResponseError({ description, metadata: common.metadata })
    case "connection":
      // It has no place for metadata: the failure stands as its cause.
      return new AiError.NetworkError({
        reason: "TransportError",
        method: "POST",
        url: source?.address ?? "",
        description,
        cause: source
      })
    case "overloaded":
    case "server_error":
    case "timeout":
    case "interrupted":
      return new AiError.InternalProviderError({ description, ...common })
    case null:
      return new AiError.UnknownError({ description, ...common })
  }
}

const commonOf = (failure: RequestFailure, status: number | null): Common => ({
  metadata: jsonOf(failure),
  ...(status === null ? {} : { http: { response: { status, headers: {} } } })
})

const reasonOf = (failure: RequestFailure, nowMillis: number): AiError.AiErrorReason => {
  const facts = factsOf(failure)
  const common = commonOf(failure, facts.status)
  const description = `${failure.message}. ${failure.guidance}`
  switch (failure._tag) {
    case "BudgetExceeded":
    case "RecoveryCancelledError":
      return new AiError.UnknownError({ description, ...common })
    case "PromptTooLongRetryError":
      return new AiError.InvalidRequestError({ description, ...common })
    case "RecoveryRetriesExhausted":
      return failure.reason === "Attempts"
        ? providerReason(facts, description, common, nowMillis)
        : new AiError.InvalidOutputError({ description, metadata: common.metadata })
    default:
      return providerReason(facts, description, common, nowMillis)
  }
}

/**
 * `lost`: the error of a wrapped model's lost connection, if there was one. `nowMillis`: the wall clock, for waits that
 * the provider gave as an instant.
 */
export const toAiError = (
  failure: RequestFailure,
  method: string,
  lost: AiError.AiError | null,
  nowMillis: number
): AiError.AiError => {
  // What nobody could mend of a wrapped model: its own error, unchanged.
  const own = isModelError(failure) ? (failure.kind === "connection" ? lost : failure.cause) : null
  if (AiError.isAiError(own)) {
    failures.set(own.reason, failure)
    return own
  }
  const reason = reasonOf(failure, nowMillis)
  failures.set(reason, failure)
  return AiError.make({ module: "holdfast", method, reason })
}

type Known = Schema.Codec<RequestFailure, unknown>

const classes: ReadonlyMap<string, Known> = new Map(
  [
    BudgetExceeded,
    InvalidRetryAfterError,
    PromptTooLongRetryError,
    RecoveryCancelledError,
    RecoveryDeadlineExceeded,
    RecoveryRetriesExhausted,
    ...modelErrors
  ].map((Class) => [Class.identifier, Class as unknown as Known])
)

/** The failure of fields that came as JSON; null = they are none. */
const decoded = (fields: unknown): RequestFailure | null => {
  if (!isObject(fields) || typeof fields["_tag"] !== "string") return null
  const Class = classes.get(fields["_tag"])
  if (Class === undefined) return null
  const read = Schema.decodeUnknownResult(Class)(fields)
  return Result.isSuccess(read) ? read.success : null
}

/**
 * The typed failure behind an error of effect/ai, with its trail and its guidance; null = it is none of ours. The same
 * object in the process that made it; behind JSON a copy without the provider's words and the causes.
 */
export const failureOf = (error: unknown): RequestFailure | null => {
  const reason = AiError.isAiError(error) ? error.reason : error
  if (!AiError.isAiErrorReason(reason)) return null
  const known = failures.get(reason)
  if (known !== undefined) return known
  if ("metadata" in reason) return decoded(reason.metadata[ownKey])
  return "cause" in reason && isModelError(reason.cause) ? reason.cause : null
}
