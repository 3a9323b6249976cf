/** Groq. Status 498 is its own: no capacity in the flex tier. */
import { makeProfile, resetHeader, rowsOf, wordIds } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const groq = makeProfile({
  name: "groq",
  baseUrls: ["api.groq.com"],
  // Sources: console.groq.com/docs/errors, /flex-processing, /rate-limits
  rows: [
    ...rowsOf("overloaded", ["capacity_exceeded", "over_capacity", "flex_capacity_exceeded"]),
    ...rowsOf("quota_exhausted", ["blocked_api_access"]),
    ...rowsOf("permission", ["organization_restricted", "model_terms_required", "model_permission_blocked_org"]),
    ...rowsOf("permission", ["model_permission_blocked_project"]),
    ...rowsOf("not_found", ["model_not_found", "model_decommissioned", "model_not_active"])
  ],
  statuses: { 498: "overloaded" },
  // Why a stream stopped early. Source: github.com/groq/groq-python, types/chat/chat_completion_chunk.py
  inBandAt: [{ at: "/x_groq/error", unless: null }],
  hints: [
    resetHeader("x-ratelimit-reset-requests", "duration", "x-ratelimit-remaining-requests", "requests"),
    resetHeader("x-ratelimit-reset-tokens", "duration", "x-ratelimit-remaining-tokens", "tokens")
  ],
  finishReasons,
  finishFaults,
  budgetParam: "max_completion_tokens",
  // Fields of a reply are refused in a request.
  returns: { call: [] },
  toolNames: wordIds
})
