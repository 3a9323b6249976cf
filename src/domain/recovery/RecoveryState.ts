/**
 * The counters of one logical request: small, immutable, JSON. Everything the next attempt needs follows from them and
 * the policy (`planOf`). Instants are monotonic milliseconds. Fields that were not there from the beginning have a default,
 * so that logs and journals of older versions are read.
 */
import * as Schema from "effect/Schema"
import { defaulted } from "./defaulted.ts"
import { OutcomeClass, type RecoveryPolicy } from "./RecoveryPolicy.ts"
import { Count } from "../chat/Usage.ts"

export const RecoveryState = Schema.Struct({
  /** Requests of the main conversation that were sent. */
  attempts: Count,
  /** Transient failures so far, of the main and of the summary requests. */
  transients: Count,
  /** Index into the policy's routes. */
  route: Count,
  /** The request has changed its route by a retry. */
  switched: Schema.Boolean,
  /** It has left a route at once because its breaker had just opened: once per request. */
  left: defaulted(Schema.Boolean, false),
  /** Routes that answered that they are not there: this request asks them no more. */
  gone: defaulted(Schema.Array(Count), []),
  /** Consecutive outcomes of one class; null when the last outcome was of no class. */
  run: Schema.NullOr(Schema.Struct({ class: OutcomeClass, count: Count })),
  /** Consecutive rate limits that came with a hint: the spread doubles with them. */
  rateLimits: defaulted(Count, 0),
  /** Hints that were followed on this route and brought another failure. */
  hintsInVain: defaulted(Count, 0),
  /** Widest range of random time on a hint so far, in milliseconds: the nearing deadline never narrows it. */
  spreadRange: defaulted(Schema.Finite, 0),
  /** Output budget wanted, before clamping; null = none is sent. */
  maxOutputTokens: Schema.NullOr(Count),
  /** The caller's cap on output tokens; no budget goes above it. */
  callerCap: Schema.NullOr(Count),
  /** Output tokens of the fragments that are kept: a joined reply never passes the caller's cap. */
  keptTokens: defaulted(Count, 0),
  /** The answer has a fixed form: it is never put together from pieces. */
  structured: defaulted(Schema.Boolean, false),
  /** The raise has been used. */
  raised: Schema.Boolean,
  /** Set between a raise and the first answer to it: what to go back to when the provider refuses the budget. */
  setAside: Schema.NullOr(
    Schema.Struct({
      maxOutputTokens: Schema.NullOr(Count),
      textLength: Count,
      toolCalls: Count,
      /** Output tokens of the partial. */
      tokens: Count,
      /** The fragment is in the window already (text had been delivered). */
      kept: Schema.Boolean
    })
  ),
  continuations: Count,
  /** Continuations in a row that brought little. */
  smallGains: Count,
  compacted: Schema.Boolean,
  overflows: Count,
  /** A consumer reads along. */
  streaming: Schema.Boolean,
  background: Schema.Boolean,
  /** Instant after which nothing but a whole reply counts; null = none. */
  deadline: Schema.NullOr(Schema.Finite),
  /** Instant that no progress moves. */
  hardCap: Schema.NullOr(Schema.Finite)
})
export type RecoveryState = typeof RecoveryState.Type

/** The nearer of deadline and hard cap; null when there is neither. */
export const endOf = (state: RecoveryState): number | null =>
  state.deadline === null
    ? state.hardCap
    : state.hardCap === null
      ? state.deadline
      : Math.min(state.deadline, state.hardCap)

/** Output tokens the caller still allows; null = as many as the model likes. */
export const capLeft = (state: RecoveryState): number | null =>
  state.callerCap === null ? null : Math.max(1, state.callerCap - state.keptTokens)

/**
 * The state before the first attempt. `deadline` is the instant of the turn or of this request, whichever the policy
 * counts; `route` is the route the turn is on.
 */
export const initial = (
  policy: RecoveryPolicy,
  start: {
    readonly now: number
    readonly deadline: number | null
    readonly route: number
    readonly callerCap: number | null
    /** Default: false. */
    readonly structured?: boolean
    /** Routes the turn has left out. Default: none. */
    readonly gone?: ReadonlyArray<number>
    readonly streaming: boolean
    readonly background: boolean
  }
): RecoveryState => ({
  attempts: 0,
  transients: 0,
  route: start.route,
  switched: false,
  left: false,
  gone: start.gone ?? [],
  run: null,
  rateLimits: 0,
  hintsInVain: 0,
  spreadRange: 0,
  maxOutputTokens: policy.initialMaxTokens,
  callerCap: start.callerCap,
  keptTokens: 0,
  structured: start.structured ?? false,
  raised: false,
  setAside: null,
  continuations: 0,
  smallGains: 0,
  compacted: false,
  overflows: 0,
  streaming: start.streaming,
  background: start.background,
  deadline: start.deadline,
  hardCap: policy.hardCap === null ? null : start.now + policy.hardCap
})
