/**
 * What a wrapped LanguageModel failed with, as an error recovery can decide about. An answer is read by the one
 * classifier: its status, its headers, and its body or the codes its provider's package has kept. Without an answer the
 * reason itself says what happened.
 */
import * as AiError from "effect/ai/AiError"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import { isObject, isText, parsedOrText, type Json } from "../../domain/chat/json.ts"
import { inBandStatus } from "../../domain/failure/FaultKind.ts"
import type { HintReading } from "../../domain/failure/Hint.ts"
import { makeModelError, type Failure, type ModelError } from "../../domain/failure/ModelError.ts"
import { classifyAnswer } from "../../domain/provider/classify.ts"
import { generic } from "../../domain/provider/profiles/generic.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import { failureOfThrown } from "../../domain/provider/thrownAnswer.ts"
import { networkCode } from "../../domain/failure/networkCode.ts"

type Http = NonNullable<typeof AiError.HttpContext.Type.response>

const headersOf = (response: Http): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(response.headers).flatMap(([name, value]) => (isText(value) ? [[name.toLowerCase(), value]] : []))
  )

/** Names under which packages of providers keep the code of an answer. */
const codeNames = ["errorCode", "code"] as const
const typeNames = ["errorType", "type"] as const

const firstOf = (object: Json, names: ReadonlyArray<string>): unknown =>
  names.map((name) => object[name]).find((value) => isText(value) || typeof value === "number")

/** A body in the shape of the API, from what is kept of the answer. */
const bodyOf = (reason: AiError.AiErrorReason): unknown => {
  const body = "http" in reason ? reason.http?.body : undefined
  if (body !== undefined) return parsedOrText(body)
  for (const own of "metadata" in reason ? Object.values(reason.metadata) : []) {
    if (!isObject(own)) continue
    const [code, type] = [firstOf(own, codeNames), firstOf(own, typeNames)]
    if (code !== undefined || type !== undefined) return { error: { code: code ?? null, type: type ?? null } }
  }
  return null
}

const requestIdOf = (reason: AiError.AiErrorReason): string | null => {
  for (const own of "metadata" in reason ? Object.values(reason.metadata) : [])
    if (isObject(own) && isText(own["requestId"])) return own["requestId"]
  return null
}

/** A wait that the package of the provider has read. */
const hintsOf = (reason: AiError.AiErrorReason): ReadonlyArray<HintReading> =>
  reason._tag === "RateLimitError" && reason.retryAfter !== undefined
    ? [{ _tag: "Delay", source: "retryAfter", millis: Duration.toMillis(reason.retryAfter) }]
    : []

/** The status a reason stands for when its answer was not kept; null = the reason is of no answer. */
const statusOf = (reason: AiError.AiErrorReason): number | null => {
  switch (reason._tag) {
    case "RateLimitError":
    case "QuotaExhaustedError":
      return 429
    case "AuthenticationError":
      return reason.kind === "InsufficientPermissions" ? 403 : 401
    case "InvalidRequestError":
    case "ContentPolicyError":
      return 400
    default:
      return null
  }
}

/** Kinds that a reason names by itself, whatever the codes say. */
const toldKind = (reason: AiError.AiErrorReason): Partial<Failure> => {
  switch (reason._tag) {
    case "QuotaExhaustedError":
      return {
        kind: "quota_exhausted",
        ...(reason.resetAt === undefined ? {} : { resetAt: DateTime.toEpochMillis(reason.resetAt) })
      }
    case "ContentPolicyError":
      return { kind: "content_filtered" }
    default:
      return {}
  }
}

const paramOf = (reason: AiError.AiErrorReason): string | null =>
  reason._tag === "InvalidRequestError" ? (reason.parameter ?? null) : null

/** From an answer, or from what stands for one. */
const ofAnswer = (
  reason: AiError.AiErrorReason,
  status: number,
  headers: Readonly<Record<string, string>>,
  isKept: boolean,
  profile: ProviderProfile
): Omit<Failure, "model"> => {
  const verdict = classifyAnswer(profile, { status, headers, body: bodyOf(reason) })
  return {
    ...verdict,
    ...(isKept ? {} : toldKind(reason)),
    param: verdict.param ?? paramOf(reason),
    hints: verdict.hints.length === 0 ? hintsOf(reason) : verdict.hints,
    providerRequestId: verdict.providerRequestId ?? requestIdOf(reason)
  }
}

/** `InvalidOutputError` is `invalid_output`: the code of a reason without an answer. */
const codeOf = (reason: AiError.AiErrorReason): string =>
  reason._tag
    .replace(/Error$/, "")
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, "_")
    .toLowerCase()

const ofReason = (reason: AiError.AiErrorReason): Omit<Failure, "model"> => {
  switch (reason._tag) {
    case "NetworkError":
      return reason.reason === "TransportError"
        ? // A lost line is no mistake of a program, named or not.
          { kind: "connection", status: null, code: networkCode(reason.cause) ?? "transport_error" }
        : { kind: "invalid_request", status: null, code: "request_not_built" }
    case "InternalProviderError":
      return { kind: "server_error", status: inBandStatus, code: codeOf(reason) }
    case "InvalidOutputError":
    case "StructuredOutputError":
    case "InvalidResponseError":
    case "UnknownError":
      return { kind: "malformed_response", status: inBandStatus, code: codeOf(reason) }
    default:
      // Tools, schemas, inputs: the program's, not the provider's.
      return { kind: "invalid_request", status: null, code: codeOf(reason) }
  }
}

/** The error itself is kept as the cause, for the case that nobody can mend it; a lost connection has no place for it. */
export const modelErrorOf = (error: AiError.AiError, model: string, profile: ProviderProfile): ModelError => {
  const { reason } = error
  const kept = "http" in reason ? reason.http?.response : undefined
  // A 200 says nothing of a failure: its reason does.
  const response = kept !== undefined && kept.status >= 300 ? kept : undefined
  const status = response?.status ?? statusOf(reason)
  const failure =
    status === null
      ? ofReason(reason)
      : ofAnswer(reason, status, response === undefined ? {} : headersOf(response), response !== undefined, profile)
  return makeModelError({ ...failure, model, ...(failure.kind === "connection" ? {} : { cause: error }) })
}

/** Reads errors of effect/ai for `recoverTransient`: `{ policy, errorOf: readAiError() }` around an EmbeddingModel, say. */
export const readAiError =
  (profile: ProviderProfile = generic) =>
  (error: unknown, model: string): ModelError | null =>
    AiError.isAiError(error) ? modelErrorOf(error, model, profile) : failureOfThrown(error, model, profile)
