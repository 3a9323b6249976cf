/**
 * Gemini, native and through its OpenAI-compatible address. One 429 for a full minute and for a spent day: the violated
 * quota's id tells them apart. Waits come as RetryInfo in the body.
 */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

const quotaId = "/error/details/*/violations/*/quotaId"

export const gemini = makeProfile({
  name: "gemini",
  baseUrls: ["generativelanguage.googleapis.com", "aiplatform.googleapis.com", "*-aiplatform.googleapis.com"],
  codeAt: ["/error/details/*/reason", "/error/status"],
  // Sources: ai.google.dev/gemini-api/docs/troubleshooting and /rate-limits; cloud.google.com, Vertex AI: API errors
  rows: [
    ...rowsOf("quota_exhausted", ["PerDay"], { status: 429, at: quotaId, match: "part" }),
    ...rowsOf("rate_limited", ["PerMinute"], { status: 429, at: quotaId, match: "part" }),
    ...rowsOf("quota_exhausted", [
      "QUOTA_EXHAUSTED",
      "payment_required",
      "INSUFFICIENT_G1_CREDITS_BALANCE",
      "BILLING_DISABLED"
    ]),
    ...rowsOf("overloaded", ["MODEL_CAPACITY_EXHAUSTED", "UNAVAILABLE", "service_unavailable"]),
    ...rowsOf("auth", ["API_KEY_INVALID", "API_KEY_EXPIRED", "UNAUTHENTICATED"]),
    ...rowsOf("permission", ["CONSUMER_SUSPENDED", "SERVICE_DISABLED", "API_KEY_SERVICE_BLOCKED", "CONSUMER_INVALID"]),
    ...rowsOf("rate_limited", ["RATE_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED"]),
    ...rowsOf("server_error", ["INTERNAL", "UNKNOWN", "ABORTED"], { status: 200 }),
    ...rowsOf("timeout", ["DEADLINE_EXCEEDED"]),
    ...rowsOf("not_found", ["NOT_FOUND"]),
    ...rowsOf("permission", ["PERMISSION_DENIED"]),
    ...rowsOf("invalid_request", ["INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"], { status: 200 })
  ],
  hints: [
    {
      header: null,
      pointer: "/error/details/*/retryDelay",
      label: "body RetryInfo.retryDelay",
      format: "protobuf-duration",
      exhausted: null
    }
  ],
  finishReasons,
  finishFaults,
  // Thought signatures: a call without its own is refused.
  returns: { message: ["extra_content"], call: ["extra_content"] },
  // The signature that stands for none. Sources: ai.google.dev/gemini-api/docs/thought-signatures (FAQ: history of other
  // models), docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures
  standIns: {
    call: {
      models: ["gemini-3"],
      fields: { extra_content: { google: { thought_signature: "skip_thought_signature_validator" } } }
    }
  }
})
