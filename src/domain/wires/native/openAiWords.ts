/** Types and codes in which OpenAI's APIs tell a kind of failure. */
import type { ToldFailure } from "./NativeWire.ts"

const words: Readonly<Record<string, Omit<ToldFailure, "message">>> = {
  rate_limited: { type: "rate_limit_error", code: "rate_limit_exceeded" },
  quota_exhausted: { type: "insufficient_quota", code: "insufficient_quota" },
  overloaded: { type: "server_error", code: "server_is_overloaded" },
  prompt_too_long: { type: "invalid_request_error", code: "context_length_exceeded" },
  auth: { type: "authentication_error", code: "invalid_api_key" },
  permission: { type: "permission_error", code: null },
  not_found: { type: "invalid_request_error", code: "not_found" },
  invalid_request: { type: "invalid_request_error", code: null },
  payload_too_large: { type: "invalid_request_error", code: "request_too_large" },
  content_filtered: { type: "invalid_request_error", code: "content_filter" },
  timeout: { type: "server_error", code: "timeout" },
  budget: { type: "insufficient_quota", code: "budget_exceeded" }
}

export const toldByOpenAi = (kind: string): Omit<ToldFailure, "message"> =>
  (Object.hasOwn(words, kind) ? words[kind] : undefined) ?? { type: "server_error", code: kind }
