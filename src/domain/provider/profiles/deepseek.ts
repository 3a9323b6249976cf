/** DeepSeek. 402 is an empty balance; a stop for want of resources stands in the finish reason. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons, inBandRows } from "./words.ts"

export const deepseek = makeProfile({
  name: "deepseek",
  baseUrls: ["api.deepseek.com"],
  rows: [
    ...rowsOf("rate_limited", ["rate_limit_reached_error"]),
    ...rowsOf("quota_exhausted", ["insufficient_balance"]),
    ...inBandRows
  ],
  finishReasons,
  finishFaults,
  capabilities: { prefill: true }
})
