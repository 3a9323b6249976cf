/** Together AI. Errors name a type; 529 is a general failure of the server there, and is waited for all the same. */
import { makeProfile, resetHeader, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons, inBandRows } from "./words.ts"

export const together = makeProfile({
  name: "together",
  baseUrls: ["api.together.xyz", "api.together.ai"],
  codeAt: ["/error/type", "/type_", "/error/code"],
  rows: [
    ...rowsOf("quota_exhausted", ["credit_limit"]),
    ...rowsOf("overloaded", ["model_overloaded", "engine_overloaded", "overloaded"]),
    ...rowsOf("server_error", ["server_error"], { status: 529 }),
    ...inBandRows
  ],
  hints: [
    resetHeader("x-ratelimit-reset", "reset", "x-ratelimit-remaining"),
    resetHeader("x-tokenlimit-reset", "reset", "x-tokenlimit-remaining")
  ],
  finishReasons,
  finishFaults
})
