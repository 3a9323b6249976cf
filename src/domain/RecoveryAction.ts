/** What the machine decides next. Delays are milliseconds. */
import * as Schema from "effect/Schema"
import { Count } from "./Usage.ts"

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
  "InvalidRetryAfter",
  "Deadline",
  "StillTooLong",
  "NothingToCompact",
  "SummaryFailed",
  "NotSmaller",
  "Budget"
])
export type FailReason = typeof FailReason.Type

const wait = { delayMillis: Schema.Finite, origin: WaitOrigin }

export const RecoveryAction = Schema.TaggedUnion({
  Retry: { ...wait, why: Schema.String },
  /** Go on with another route; `from` and `to` are models. */
  Fallback: { ...wait, from: Schema.String, to: Schema.String, why: Schema.String },
  /** Set the partial reply aside and ask again with a larger budget. */
  Escalate: { maxOutputTokens: Count },
  /** Keep the fragment, append the continuation prompt, ask for the rest. `ordinal` counts from 1. */
  Continue: { ordinal: Count, ...wait, maxOutputTokens: Count },
  /** Shorten the window; `delayMillis` is more than 0 when an earlier summary request failed. */
  Compact: wait,
  Done: {},
  /** `waitMillis` is the wait that did not fit when the deadline is the reason. */
  Fail: { reason: FailReason, waitMillis: Schema.NullOr(Schema.Finite) }
})
export type RecoveryAction = typeof RecoveryAction.Type

/** The wait an action asks for before the next request; 0 when it asks for none. */
export const delayOf = (action: RecoveryAction): number => ("delayMillis" in action ? action.delayMillis : 0)
