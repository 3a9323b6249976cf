/** Cerebras. Flat bodies; a full queue is an overload behind a 429. */
import { makeProfile, resetHeader, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const cerebras = makeProfile({
  name: "cerebras",
  baseUrls: ["api.cerebras.ai"],
  // Sources: inference-docs.cerebras.ai/support/error and /support/rate-limits
  rows: [
    ...rowsOf("overloaded", ["queue_exceeded"]),
    ...rowsOf("rate_limited", ["request_quota_exceeded", "token_quota_exceeded", "too_many_requests_error"]),
    ...rowsOf("quota_exhausted", ["payment_required", "payment_required_error"]),
    ...rowsOf("auth", ["wrong_api_key"])
  ],
  hints: [
    resetHeader("x-ratelimit-reset-requests-day", "seconds", "x-ratelimit-remaining-requests-day"),
    resetHeader("x-ratelimit-reset-tokens-minute", "seconds", "x-ratelimit-remaining-tokens-minute")
  ],
  finishReasons,
  finishFaults,
  budgetParam: "max_completion_tokens"
})
