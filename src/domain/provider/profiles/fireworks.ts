/** Fireworks AI. 412 is an account stopped for its spending limit or unpaid bills. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const fireworks = makeProfile({
  name: "fireworks",
  baseUrls: ["api.fireworks.ai"],
  // Source: docs.fireworks.ai/guides/inference-error-codes
  rows: rowsOf("rate_limited", ["RATE_LIMIT_EXCEEDED"]),
  statuses: { 412: "quota_exhausted" },
  finishReasons,
  finishFaults,
  // Sources: docs.fireworks.ai/guides/reasoning, docs.fireworks.ai/fine-tuning/thinking-history (reasoning_history)
  returns: { thoughts: ["reasoning_content"] }
})
