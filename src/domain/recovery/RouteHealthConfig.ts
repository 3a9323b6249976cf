/** Settings of route health, as data of the policy. Milliseconds, shares from 0 to 1, counts of calls. */
import * as Schema from "effect/Schema"

const Millis = Schema.Finite.check(Schema.isGreaterThan(0))
const Share = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))
const Amount = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

/** Faults that may count against a route. A rate limit never does: it is the client that is too fast. */
export const CountedFault = Schema.Literals(["overload", "serverError", "silent", "cut", "connection"])
export type CountedFault = typeof CountedFault.Type

const fields = {
  /** Faults that open the breaker. */
  counts: Schema.Array(CountedFault),
  /** Time constant of the decaying counters of failures and accepted calls. */
  window: Millis,
  /** Decayed failures below which the breaker stays closed: 2.5 means three fresh ones. */
  minFailures: Schema.Finite.check(Schema.isGreaterThan(0)),
  /** Share of failures from which the breaker opens. */
  failureShare: Share,
  /** The same within a ramp: a route that has just come back and serves only a part of the load closes early. */
  rampFailureShare: Share,
  /** First wait for a probe, times 0.5 to 1.5; every failed probe doubles it. */
  coolDown: Millis,
  coolDownMax: Millis,
  /**
   * A route with so many calls in the decaying window when it opens, or with so many requests waiting for one probe that
   * have no other route, is busy: one probe is little among its calls, and many wait for it. Its cool-down is `coolDown` times `busyFactor` and never doubles. 12 is a process of about
   * 40 agents.
   */
  busyCalls: Schema.Finite.check(Schema.isGreaterThan(0)),
  busyFactor: Schema.Finite.check(Schema.isBetween({ minimum: 0.1, maximum: 1 })),
  /** A probe that told nothing for so long gives its place away. */
  probeTimeout: Millis,
  /** After the breaker closed, the share of calls that come back grows to 1 over this time; 0 = at once. */
  ramp: Amount,
  /** Whether calls wait for the latest hint another call was given. */
  hintGate: Schema.Boolean,
  /** Longest time one hint holds the others back; the request that was given it waits for all of it. */
  hintGateMax: Millis,
  /** Smallest range of the random time after a hint; a longer hint has a range of its own length. */
  hintSpread: Amount,
  /** Most retries in a row that leave without a wait of their own. */
  retryTokens: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1)),
  retryTokensPerSuccess: Amount,
  retryTokensPerSecond: Schema.Finite.check(Schema.isGreaterThan(0))
} as const

const Config = Schema.Struct(fields)
export type RouteHealthConfig = typeof Config.Type

const defaults: RouteHealthConfig = {
  counts: ["overload"],
  window: 10_000,
  minFailures: 2.5,
  failureShare: 0.5,
  rampFailureShare: 0.25,
  coolDown: 5_000,
  coolDownMax: 30_000,
  busyCalls: 12,
  busyFactor: 0.6,
  probeTimeout: 60_000,
  ramp: 5_000,
  hintGate: true,
  hintGateMax: 600_000,
  hintSpread: 2_000,
  retryTokens: 10,
  retryTokensPerSuccess: 0.2,
  retryTokensPerSecond: 0.1
}

/** Settings of route health; `defaults` are those of the presets broad, unattended and background. */
export const RouteHealthConfig = Object.assign(Config, { defaults })
