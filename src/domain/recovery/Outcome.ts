/**
 * How one attempt, one hold at an open breaker or one compaction ended. Counts and codes only: no message text and no
 * body passes through here, so an outcome is safe to log and a log of outcomes can be replayed. Fields
 * that were not there from the beginning have a default, so that logs of older versions are read.
 */
import * as Schema from "effect/Schema"
import { defaulted } from "./defaulted.ts"
import { FaultKind } from "../failure/FaultKind.ts"
import { HintReading } from "../failure/Hint.ts"
import { Count } from "../chat/Usage.ts"

/** What the provider or the network did wrong, as far as the machine needs to know. */
const FaultFields = {
  kind: FaultKind,
  /** HTTP status; 200 for an error inside a 200; null when no answer came. */
  status: Schema.NullOr(Schema.Int),
  code: Schema.NullOr(Schema.String),
  hints: Schema.Array(HintReading),
  /** The answer's x-should-retry header. */
  shouldRetry: Schema.NullOr(Schema.Boolean)
}

/** What the consumer of a stream has seen of the reply when its attempt ended; all of it nothing without a stream. */
const ShownFields = {
  /** Characters of text, also of the attempts before this one that this one should have repeated. */
  delivered: Count,
  /** A tool call or only reasoning is on screen: nothing that could be continued. */
  unfinishable: defaulted(Schema.Boolean, false),
  /** The attempt should have repeated the text on screen and said something else. */
  replayDiffers: defaulted(Schema.Boolean, false)
}

export const Outcome = Schema.TaggedUnion({
  /** A whole reply, also one a content filter stopped: a value. */
  Completed: {},
  /** A refusal: a result to report, not a fault. */
  Refused: {},
  /** The reply ran into its output budget. */
  Truncated: {
    textLength: Count,
    toolCalls: Count,
    outputTokens: Schema.NullOr(Count),
    durationMillis: Schema.Finite,
    /** The budget that was sent, after clamping; null = none was. */
    sentTokens: Schema.NullOr(Count),
    /** Estimated prompt of this attempt: decides whether a larger budget has room. */
    promptTokens: Count,
    ...ShownFields
  },
  /** The input does not fit: a code says so, or (opt-in) arithmetic suspects it. */
  PromptTooLong: {
    status: Schema.NullOr(Schema.Int),
    code: Schema.NullOr(Schema.String),
    ...ShownFields
  },
  /** Everything else that went wrong with an attempt. */
  Faulted: {
    ...FaultFields,
    ...ShownFields,
    /** No answer has ever come from this address. */
    unanswered: Schema.optionalKey(Schema.Boolean),
    /** What was thrown in place of an answer names no network fault. */
    unnamed: Schema.optionalKey(Schema.Boolean),
    /** Route health lets the calls of this route leave one after the other, as its limiter takes them. */
    paced: Schema.optionalKey(Schema.Boolean),
    /** Index of another route that takes the request now while the breaker of this one is open; null = none. */
    other: defaulted(Schema.NullOr(Count), null)
  },
  /** Route health holds the request; no attempt was spent. `reason` is route health's own word. */
  Held: {
    untilMillis: Schema.Finite,
    reason: Schema.String,
    /** Index of another route that takes the request now; null = none. */
    other: defaulted(Schema.NullOr(Count), null)
  },
  /** A compaction replaced the window. */
  Compacted: {
    before: Count,
    after: Count,
    messagesBefore: Count,
    messagesAfter: Count
  },
  /** There was nothing that a summary could replace. */
  NothingToCompact: {},
  /** The summary request failed, or its text cannot be used (kind malformed_response). */
  SummaryFaulted: FaultFields,
  /** The session's budget admits no further request. */
  BudgetRefused: {},
  /** The deadline, or the hard cap, ended an attempt, a wait or a compaction. */
  DeadlineHit: {}
})
export type Outcome = typeof Outcome.Type
export type Faulted = Extract<Outcome, { readonly _tag: "Faulted" }>
export type Truncated = Extract<Outcome, { readonly _tag: "Truncated" }>
export type PromptTooLong = Extract<Outcome, { readonly _tag: "PromptTooLong" }>
/** What a consumer has seen, as an outcome carries it. */
export type Seen = Pick<Faulted, keyof typeof ShownFields>
export type SummaryFaulted = Extract<Outcome, { readonly _tag: "SummaryFaulted" }>

export const nothingSeen: Seen = { delivered: 0, unfinishable: false, replayDiffers: false }

/** Outcomes for which the interpreter steps the backoff schedule, once each. */
export const stepsBackoff = (outcome: Outcome): outcome is Faulted | SummaryFaulted =>
  outcome._tag === "Faulted" || outcome._tag === "SummaryFaulted"

/** True for the outcomes of an HTTP request of the main conversation: they count as attempts. */
export const isAttempt = (outcome: Outcome): boolean => {
  switch (outcome._tag) {
    case "Completed":
    case "Refused":
    case "Truncated":
    case "PromptTooLong":
    case "Faulted":
      return true
    default:
      return false
  }
}
