/** Anthropic's messages API. Errors carry a type and no code; a spent limit and a full window often are plain 400s. */
import { makeProfile, resetHeader, rowsOf, wordIds } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

const window = (name: string) =>
  resetHeader(`anthropic-ratelimit-${name}-reset`, "rfc3339", `anthropic-ratelimit-${name}-remaining`)

export const anthropic = makeProfile({
  name: "anthropic",
  baseUrls: ["api.anthropic.com"],
  codeAt: ["/error/details/error_code", "/error/type"],
  // Source: platform.claude.com/docs/en/api/errors
  rows: [
    ...rowsOf("quota_exhausted", ["billing_error", "enforced_spend_limit_reached"]),
    ...rowsOf("overloaded", ["overloaded_error"]),
    ...rowsOf("payload_too_large", ["request_too_large"]),
    // A 413 is a body of too many bytes when its type says so, and a prompt of too many tokens when it blames the request
    // (github.com/anthropics/claude-code/issues/2569 and /6368, anthropic-sdk-python/issues/1028).
    ...rowsOf("prompt_too_long", ["invalid_request_error"], { status: 413 }),
    ...rowsOf("permission", ["permission_error"], { status: 400 }),
    ...rowsOf("auth", ["authentication_error"], { status: 400 }),
    ...rowsOf("not_found", ["not_found_error"], { status: 400 })
  ],
  hints: [
    window("requests"),
    window("tokens"),
    window("input-tokens"),
    window("output-tokens"),
    resetHeader("anthropic-ratelimit-unified-reset", "epoch-seconds")
  ],
  finishReasons,
  finishFaults,
  capabilities: { cacheMarkers: true },
  returns: { message: ["content_blocks"], call: [] },
  callIds: wordIds,
  toolNames: { ...wordIds, maxLength: 128 }
})
