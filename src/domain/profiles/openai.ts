/** OpenAI's own API. Source: the rate-limit and error-code guides, and the reference of chat completions. */
import { makeProfile } from "../ProviderProfile.ts"

export const openai = makeProfile({
  name: "openai",
  baseUrls: ["api.openai.com", "*.api.openai.com"],
  rows: [
    { status: 429, at: "/error/code", value: "insufficient_quota", kind: "quota_exhausted" },
    { status: 400, at: "/error/code", value: "content_policy_violation", kind: "content_filtered" }
  ],
  hints: [
    {
      header: "x-ratelimit-reset-requests",
      pointer: null,
      format: "duration",
      exhausted: "x-ratelimit-remaining-requests"
    },
    { header: "x-ratelimit-reset-tokens", pointer: null, format: "duration", exhausted: "x-ratelimit-remaining-tokens" }
  ],
  completionTokenModels: ["o1", "o3", "o4", "gpt-5"]
})
