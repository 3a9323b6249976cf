/** Mistral. Flat bodies with numbers as codes. */
import { makeProfile, resetHeader, rowsOf, wordIds } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const mistral = makeProfile({
  name: "mistral",
  baseUrls: ["api.mistral.ai", "codestral.mistral.ai"],
  // Source: docs.mistral.ai, API errors; the codes as its servers send them
  rows: [
    ...rowsOf("overloaded", ["3505", "service_tier_capacity_exceeded"]),
    ...rowsOf("rate_limited", ["1300", "rate_limited"]),
    ...rowsOf("prompt_too_long", ["3051"]),
    ...rowsOf("not_found", ["1500", "invalid_model"]),
    ...rowsOf("server_error", ["1000", "1100", "unreachable_backend"], { status: 200 })
  ],
  hints: [resetHeader("ratelimitbysize-reset", "seconds"), resetHeader("ratelimit-reset", "seconds")],
  finishReasons,
  finishFaults,
  returns: { call: [] },
  // Nine characters, no more and no less; other ids are refused.
  callIds: { alphabet: "alphanumeric", minLength: 9, maxLength: 9 },
  toolNames: wordIds
})
