/** Together AI. Errors name a type; 529 is a general failure of the server there, and is waited for all the same. */
import { makeProfile, resetHeader, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const together = makeProfile({
  name: "together",
  baseUrls: ["api.together.xyz", "api.together.ai"],
  codeAt: ["/error/type", "/type_", "/error/code"],
  // Source: docs.together.ai/docs/error-codes
  rows: [
    ...rowsOf("quota_exhausted", ["credit_limit"]),
    ...rowsOf("overloaded", ["model_overloaded", "engine_overloaded", "overloaded"]),
    ...rowsOf("rate_limited", ["model_rate_limit", "dynamic_request_limited", "dynamic_token_limited"]),
    ...rowsOf("server_error", ["server_error"], { status: 529 }),
    // The page keeps 403 for a prompt and budget beyond the window; a blocked key says nothing of the request.
    ...rowsOf("prompt_too_long", ["invalid_request_error"], { status: 403 })
  ],
  // The page: 503 is an engine with too much traffic.
  statuses: { 503: "overloaded" },
  hints: [
    resetHeader("x-ratelimit-reset", "reset", "x-ratelimit-remaining"),
    resetHeader("x-tokenlimit-reset", "reset", "x-tokenlimit-remaining")
  ],
  finishReasons,
  finishFaults
})
