/** What the machine decides next. Delays are milliseconds. */
import * as Schema from "effect/Schema"
import { FailReason, WaitOrigin } from "../failure/FailReason.ts"
import { Count } from "../chat/Usage.ts"

/**
 * What becomes of that which a stream has shown. `none`: nothing was shown, or it was decided before. `restart`: it is
 * dropped. `resume`: it is kept as a fragment, and the next request goes on from it. `splice`: it stays, the next request
 * begins again, and only what is new is shown.
 */
export const Shown = Schema.Literals(["none", "restart", "resume", "splice"])
export type Shown = typeof Shown.Type

const wait = { delayMillis: Schema.Finite, origin: WaitOrigin }

export const RecoveryAction = Schema.TaggedUnion({
  Retry: { ...wait, shown: Shown, why: Schema.String },
  /** Go on with another route; `from` and `to` are models. */
  Fallback: { ...wait, shown: Shown, from: Schema.String, to: Schema.String, why: Schema.String },
  /** Set the partial reply aside and ask again with a larger budget. */
  Escalate: { maxOutputTokens: Count, shown: Shown },
  /** Keep the fragment, append the continuation prompt, ask for the rest. `ordinal` counts from 1. */
  Continue: { ordinal: Count, ...wait, maxOutputTokens: Schema.NullOr(Count) },
  /** Shorten the window; `delayMillis` is more than 0 when an earlier summary request failed. */
  Compact: { ...wait, shown: Shown },
  Done: {},
  /** `waitMillis` is the wait that did not fit when the deadline is the reason. */
  Fail: { reason: FailReason, waitMillis: Schema.NullOr(Schema.Finite) }
})
export type RecoveryAction = typeof RecoveryAction.Type

/** The wait an action asks for before the next request; 0 when it asks for none. */
export const delayOf = (action: RecoveryAction): number => ("delayMillis" in action ? action.delayMillis : 0)
