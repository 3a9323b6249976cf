/**
 * OpenAI's own API. Source: the rate-limit and error-code guides, and the reference of chat completions. Its list of
 * finish reasons is closed: another one is a malformed reply.
 */
import { makeProfile, resetHeader, rowsOf } from "../ProviderProfile.ts"
import { inBandRows } from "./words.ts"

export const openai = makeProfile({
  name: "openai",
  baseUrls: ["api.openai.com", "*.api.openai.com"],
  rows: [
    ...rowsOf("quota_exhausted", ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"]),
    ...rowsOf("overloaded", ["slow_down"], { status: 503 }),
    ...rowsOf("content_filtered", ["content_policy_violation", "invalid_prompt"]),
    ...inBandRows
  ],
  hints: [
    resetHeader("x-ratelimit-reset-requests", "duration", "x-ratelimit-remaining-requests", "requests"),
    resetHeader("x-ratelimit-reset-tokens", "duration", "x-ratelimit-remaining-tokens", "tokens")
  ],
  completionTokenModels: ["o1", "o3", "o4", "gpt-5"]
})
