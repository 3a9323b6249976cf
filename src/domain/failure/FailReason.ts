/** Two words of the trail and of failures: why a wait has its length, and why recovery ended. */
import * as Schema from "effect/Schema"

/** Why a wait has the length it has. */
export const WaitOrigin = Schema.Literals(["backoff", "hint", "held", "none"])
export type WaitOrigin = typeof WaitOrigin.Type

/**
 * Why recovery ends without a reply. `Passthrough`: the last failure is not ours to repair and is handed on unchanged.
 */
export const FailReason = Schema.Literals([
  "Passthrough",
  "Shed",
  "Attempts",
  "Continuations",
  "SmallGain",
  "TruncatedToolCall",
  "EmptyFragment",
  "TruncatedStructure",
  "InvalidRetryAfter",
  "Deadline",
  "StillTooLong",
  "NothingToCompact",
  "SummaryFailed",
  "NotSmaller",
  "Budget"
])
export type FailReason = typeof FailReason.Type
