/** Mistral. Flat bodies with numbers as codes. */
import { makeProfile, resetHeader, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons, inBandRows } from "./words.ts"

export const mistral = makeProfile({
  name: "mistral",
  baseUrls: ["api.mistral.ai", "codestral.mistral.ai"],
  rows: [
    ...rowsOf("overloaded", ["3505", "service_tier_capacity_exceeded"]),
    ...rowsOf("rate_limited", ["1300", "rate_limited"]),
    ...rowsOf("prompt_too_long", ["3051"]),
    ...rowsOf("not_found", ["1500", "invalid_model"]),
    ...inBandRows
  ],
  hints: [resetHeader("ratelimitbysize-reset", "seconds"), resetHeader("ratelimit-reset", "seconds")],
  finishReasons,
  finishFaults,
  capabilities: { prefill: true }
})
