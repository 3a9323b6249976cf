/** DeepSeek. 402 is an empty balance; a stop for want of resources stands in the finish reason. */
import { makeProfile, rowsOf, wordIds } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const deepseek = makeProfile({
  name: "deepseek",
  baseUrls: ["api.deepseek.com"],
  // Source: api-docs.deepseek.com/quick_start/error_codes
  rows: [
    ...rowsOf("rate_limited", ["rate_limit_reached_error"]),
    ...rowsOf("quota_exhausted", ["insufficient_balance"])
  ],
  // The page names a 503 an overload, whatever the body says.
  statuses: { 503: "overloaded" },
  finishReasons,
  finishFaults,
  // In thinking mode, which is the default, a call without the thoughts that led to it is refused, and so is an empty text
  // in their place. Source: api-docs.deepseek.com/guides/thinking_mode (tool calls)
  returns: { thoughts: ["reasoning_content"] },
  standIns: { thoughts: "reasoning_content" },
  toolNames: wordIds
})
