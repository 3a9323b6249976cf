/**
 * OpenAI's own API. Source: the rate-limit and error-code guides, and the reference of chat completions. Its list of
 * finish reasons is closed: another one is a malformed reply.
 */
import { makeProfile, resetHeader, rowsOf, wordIds } from "../ProviderProfile.ts"

export const openai = makeProfile({
  name: "openai",
  baseUrls: ["api.openai.com", "*.api.openai.com"],
  // Sources: platform.openai.com/docs/guides/error-codes and /rate-limits; the codes of the Responses API's error object
  rows: [
    ...rowsOf("quota_exhausted", ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"]),
    ...rowsOf("overloaded", ["slow_down"], { status: 503 }),
    // Without a code of its own a 503 is a server error there; this type is the page's overload.
    ...rowsOf("overloaded", ["service_unavailable_error"], { status: 503 }),
    ...rowsOf("content_filtered", ["content_policy_violation", "invalid_prompt", "bio_policy", "cyber_policy"])
  ],
  hints: [
    resetHeader("x-ratelimit-reset-requests", "duration", "x-ratelimit-remaining-requests", "requests"),
    resetHeader("x-ratelimit-reset-tokens", "duration", "x-ratelimit-remaining-tokens", "tokens")
  ],
  completionTokenModels: ["o1", "o3", "o4", "gpt-5"],
  exact: true,
  returns: { message: ["audio"], call: [] },
  callIds: { ...wordIds, maxLength: 40 },
  toolNames: wordIds
})
