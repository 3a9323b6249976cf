/** OpenRouter. Codes are HTTP statuses, also inside a 200; what they mean stands in the metadata. */
import { makeProfile, resetHeader, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const openrouter = makeProfile({
  name: "openrouter",
  baseUrls: ["openrouter.ai"],
  codeAt: [
    "/error/metadata/error_type",
    "/error/metadata/reason",
    "/error/metadata/provider_code",
    "/error/metadata/limit_source",
    "/error/metadata/raw/error/code",
    "/error/metadata/raw/error/type"
  ],
  // Sources: openrouter.ai/docs/api/reference/errors-and-debugging and /limits
  rows: [
    // Money that running requests hold, back within moments: the one 402 that passes.
    ...rowsOf("rate_limited", ["in_flight_budget_exhausted", "openrouter_in_flight_budget"]),
    ...rowsOf("quota_exhausted", ["weight_exceeds_budget", "token_limit_exceeded"]),
    ...rowsOf("quota_exhausted", ["openrouter_guardrail_budget", "openrouter_workspace_budget"]),
    ...rowsOf("quota_exhausted", ["openrouter_free_tier_daily", "openrouter_credits", "openrouter_key_limit"]),
    ...rowsOf("quota_exhausted", ["insufficient_credits", "payment_required", "insufficient_quota"]),
    { status: null, at: "/error/metadata/reasons/0", value: true, match: "present", kind: "content_filtered" },
    ...rowsOf("content_filtered", ["content_policy_violation", "content_filter", "moderation", "refusal"]),
    ...rowsOf("prompt_too_long", ["context_length_exceeded"]),
    ...rowsOf("overloaded", ["provider_overloaded", "overloaded", "overloaded_error"]),
    ...rowsOf("server_error", ["provider_unavailable", "server", "provider_error"], { status: 200 })
  ],
  hints: [
    resetHeader("x-ratelimit-reset", "reset", "x-ratelimit-remaining"),
    {
      header: null,
      pointer: "/error/metadata/headers/X-RateLimit-Reset",
      format: "epoch-milliseconds",
      exhausted: null
    },
    { header: null, pointer: "/error/metadata/resets_at", format: "reset", exhausted: null },
    { header: null, pointer: "/error/metadata/retry_after_seconds", format: "seconds", exhausted: null }
  ],
  finishReasons,
  finishFaults,
  capabilities: { cacheMarkers: true },
  returns: { message: ["reasoning_details"] }
})
