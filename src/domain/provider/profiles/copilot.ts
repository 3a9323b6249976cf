/** GitHub Copilot. A full window has a code of its own; used-up premium requests are a quota. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const copilot = makeProfile({
  name: "copilot",
  baseUrls: ["api.githubcopilot.com", "*.githubcopilot.com", "models.github.ai", "models.inference.ai.azure.com"],
  codeAt: ["/error/code"],
  // Sources: docs.github.com, GitHub Models: rate limits; github.com/microsoft/vscode-copilot-chat, error codes of the API
  rows: [
    ...rowsOf("prompt_too_long", ["model_max_prompt_tokens_exceeded", "tokens_limit_reached"]),
    ...rowsOf("quota_exhausted", ["quota_exceeded", "billing_not_configured"]),
    ...rowsOf("rate_limited", [
      "rate_limited",
      "user_global_rate_limited",
      "user_model_rate_limited",
      "RateLimitReached"
    ]),
    ...rowsOf("rate_limited", ["user_weekly_rate_limited", "integration_rate_limited", "upstream_provider_rate_limit"]),
    ...rowsOf("permission", ["no_access"]),
    ...rowsOf("not_found", ["model_not_supported", "unknown_model", "unavailable_model"])
  ],
  finishReasons,
  finishFaults,
  capabilities: { cacheMarkers: true },
  // Source: github.com/zed-industries/zed, crates/copilot_chat (Gemini behind it refuses calls without them)
  returns: { message: ["reasoning_text", "reasoning_opaque"] }
})
