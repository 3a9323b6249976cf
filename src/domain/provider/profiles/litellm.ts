/** LiteLLM's proxy. The code is the status as text; the type is LiteLLM's own or the upstream's. */
import { makeProfile, resetHeader, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const litellm = makeProfile({
  name: "litellm",
  codeAt: ["/error/type"],
  // Sources: docs.litellm.ai, exception mapping; github.com/BerriAI/litellm, litellm/proxy/_types.py (ProxyErrorTypes)
  rows: [
    ...rowsOf("quota_exhausted", ["budget_exceeded"]),
    ...rowsOf("rate_limited", ["throttling_error"]),
    ...rowsOf("auth", ["expired_key", "auth_error", "token_not_found_in_db", "invalid_api_key"]),
    ...rowsOf("permission", ["key_model_access_denied", "team_model_access_denied", "user_model_access_denied"]),
    ...rowsOf("permission", ["org_model_access_denied", "team_member_permission_error"]),
    ...rowsOf("content_filtered", ["content_policy_violation", "ContentPolicyViolationError"]),
    ...rowsOf("prompt_too_long", ["ContextWindowExceededError", "context_window_exceeded"])
  ],
  hints: [
    resetHeader("x-ratelimit-reset-requests", "reset", "x-ratelimit-remaining-requests"),
    resetHeader("x-ratelimit-reset-tokens", "reset", "x-ratelimit-remaining-tokens")
  ],
  finishReasons,
  finishFaults,
  capabilities: { cacheMarkers: true },
  returns: {
    thoughts: ["reasoning_content"],
    message: ["thinking_blocks"],
    call: ["extra_content", "provider_specific_fields"]
  }
})
