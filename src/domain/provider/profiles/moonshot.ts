/** Moonshot (Kimi). Three different 429s, told apart by type. */
import { makeProfile, resetHeader, rowsOf, wordIds } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const moonshot = makeProfile({
  name: "moonshot",
  baseUrls: ["api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"],
  codeAt: ["/error/type"],
  // Sources: platform.moonshot.ai/docs/api/errors, platform.kimi.com/docs/api/errors
  rows: [
    ...rowsOf("quota_exhausted", ["exceeded_current_quota_error"]),
    ...rowsOf("overloaded", ["engine_overloaded_error"]),
    ...rowsOf("rate_limited", ["rate_limit_reached_error"]),
    ...rowsOf("content_filtered", ["content_filter"]),
    ...rowsOf("auth", ["invalid_authentication_error", "incorrect_api_key_error"]),
    ...rowsOf("permission", ["permission_denied_error"]),
    ...rowsOf("not_found", ["resource_not_found_error"]),
    ...rowsOf("server_error", ["server_error", "unexpected_output"], { status: 200 })
  ],
  // Source: www.kimi.com/help/kimi-api/api-rate-limits
  hints: [resetHeader("x-ratelimit-reset", "reset", "x-ratelimit-remaining")],
  finishReasons,
  finishFaults,
  // In thinking mode a call without the thoughts that led to it is refused ("reasoning_content is missing in assistant
  // tool call message").
  returns: { thoughts: ["reasoning_content"] },
  standIns: { thoughts: "reasoning_content" },
  toolNames: wordIds
})
