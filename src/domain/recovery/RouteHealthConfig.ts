/** Settings of route health, as data of the policy. Milliseconds, shares from 0 to 1, counts of calls. */
import * as Schema from "effect/Schema"
import { defaulted } from "./defaulted.ts"
import { Span, SpanOrZero } from "./Span.ts"

const Share = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))
const Amount = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))
const MoreThanNone = Schema.Finite.check(Schema.isGreaterThan(0))

/** Faults that may count against a route. A rate limit never does: it is the client that is too fast. */
export const CountedFault = Schema.Literals(["overload", "serverError", "silent", "cut", "connection"])
export type CountedFault = typeof CountedFault.Type

const Codec = Schema.Struct({
  /** Faults that open the breaker. */
  counts: defaulted(Schema.Array(CountedFault), ["overload"]),
  /** Time constant of the decaying counters of failures and accepted calls. */
  window: defaulted(Span, 10_000),
  /** Decayed failures below which the breaker stays closed: 2.5 means three fresh ones. */
  minFailures: defaulted(MoreThanNone, 2.5),
  /** Share of failures from which the breaker opens. */
  failureShare: defaulted(Share, 0.5),
  /** The same within a ramp: a route that has just come back and serves only a part of the load closes early. */
  rampFailureShare: defaulted(Share, 0.25),
  /** First wait for a probe, times 0.5 to 1.5; every failed probe doubles it. */
  coolDown: defaulted(Span, 5_000),
  coolDownMax: defaulted(Span, 30_000),
  /**
   * A route with so many calls in the decaying window when it opens, or with so many requests waiting for one probe that
   * have no other route, is busy: one probe is little among its calls, and many wait for it. Its cool-down is `coolDown` times `busyFactor` and never doubles. 12 is a process of about
   * 40 agents.
   */
  busyCalls: defaulted(MoreThanNone, 12),
  busyFactor: defaulted(Schema.Finite.check(Schema.isBetween({ minimum: 0.1, maximum: 1 })), 0.6),
  /** A probe that told nothing for so long gives its place away. */
  probeTimeout: defaulted(Span, 60_000),
  /** After the breaker closed, the share of calls that come back grows to 1 over this time; 0 = at once. */
  ramp: defaulted(SpanOrZero, 5_000),
  /** Whether calls wait for the latest hint another call was given. */
  hintGate: defaulted(Schema.Boolean, true),
  /** Longest time one hint holds the others back; the request that was given it waits for all of it. */
  hintGateMax: defaulted(Span, 600_000),
  /** Smallest range of the random time after a hint; a longer hint has a range of its own length. */
  hintSpread: defaulted(SpanOrZero, 2_000),
  /** Most retries in a row that leave without a wait of their own. */
  retryTokens: defaulted(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1)), 10),
  retryTokensPerSuccess: defaulted(Amount, 0.5),
  retryTokensPerSecond: defaulted(MoreThanNone, 0.1)
}).annotate({ message: "must be an object of fields" })

export type RouteHealthConfig = typeof Codec.Type

/** Settings of route health; `defaults` are those of the presets broad, unattended and background. */
export const RouteHealthConfig = Object.assign(Schema.toType(Codec), {
  /** From what may be written: every field may be left out, spans are any `Duration.Input`. */
  codec: Codec,
  defaults: Schema.decodeUnknownSync(Codec)({})
})
