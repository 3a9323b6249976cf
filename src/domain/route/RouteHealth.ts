/**
 * The health of one route (provider + key + model), shared by all requests of a process: a breaker on the failure
 * share, a gate for hints, a retry budget that defers. Pure; monotonic milliseconds; chance comes in through
 * `tick.spread` alone. `Admission.ts` reads it before an attempt, `observe` is told how the attempt went.
 */
import * as Schema from "effect/Schema"
import type { RouteHealthConfig } from "../recovery/RouteHealthConfig.ts"
import type { Tick } from "../recovery/Tick.ts"
import { Count } from "../chat/Usage.ts"
import { shortHintMillis } from "../failure/Hint.ts"
import { Refusal } from "./Limiter.ts"
import { initialPace, isWaiting, onRefusal, onTaken, Pace, paceAt } from "./Pace.ts"

const Amount = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))
const Millis = Schema.Finite.check(Schema.isGreaterThan(0))

/** What is remembered of a route. Small, immutable, JSON. */
export const RouteHealth = Schema.Struct({
  /** Decaying counters, as of `countedAt`. */
  accepts: Amount,
  failures: Amount,
  /** Calls that left, but for those that told nothing of the route. */
  sends: Amount,
  countedAt: Schema.Finite,
  /** `ramp`: closed a moment ago, calls come back step by step until `until`. */
  breaker: Schema.Literals(["closed", "open", "ramp"]),
  /** Open: earliest instant of a probe. Ramp: its end. */
  until: Schema.Finite,
  /** The present cool-down: doubles with every failed probe. */
  coolDown: Millis,
  /** Judged when the breaker opens and at every failed probe, and kept until it is closed again. */
  busy: Schema.Boolean,
  /** Times a request with no other route was held by the open breaker since it opened or a probe failed. */
  waiting: Count,
  /** The probe that is out: its ticket and the instant it left. */
  probe: Schema.NullOr(Schema.Struct({ ticket: Count, at: Schema.Finite })),
  /** Tickets given out so far. */
  tickets: Count,
  /** How long a call that the provider takes is under way, on average over the last ones; null = none has ended. */
  service: Schema.NullOr(Amount),
  /** Instant before which a hint asked for silence. */
  hintUntil: Schema.Finite,
  /** Retry tokens, as of `tokensAt`; less than 0: retries that were put off have taken theirs on credit. */
  tokens: Schema.Finite,
  tokensAt: Schema.Finite,
  /** How fast calls leave. */
  pace: Pace
})
export type RouteHealth = typeof RouteHealth.Type

/** A route nothing is known of. */
export const initial = (config: RouteHealthConfig, now: number): RouteHealth => ({
  accepts: 0,
  failures: 0,
  sends: 0,
  countedAt: now,
  breaker: "closed",
  until: now,
  coolDown: config.coolDown,
  busy: false,
  waiting: 0,
  probe: null,
  tickets: 0,
  service: null,
  hintUntil: now,
  tokens: config.retryTokens,
  tokensAt: now,
  pace: initialPace(now)
})

/** Number of the probe the signal belongs to; null = no probe. */
const ticket = Schema.NullOr(Count)

export const Signal = Schema.TaggedUnion({
  /** The provider took the call: headers or the first event came, or any answer that is no overload. Once per attempt. */
  Accepted: { ticket },
  /** The reply of an accepted call is whole: how long it took from the admission. */
  Served: { millis: Schema.Finite },
  /** A counted fault. `hintMillis` is the wait it asked for; null = none. */
  Failed: { ticket, hintMillis: Schema.NullOr(Schema.Finite) },
  /** `hintMillis` as with `Failed`; `refusal` is the attempt and the wait it was told; null = it was told none. */
  RateLimited: { ticket, hintMillis: Schema.NullOr(Schema.Finite), refusal: Schema.NullOr(Refusal) },
  /** The attempt told nothing of the route: it was interrupted, or failed in a way that is not counted. */
  Released: { ticket }
})
export type Signal = typeof Signal.Type

/** Most tokens the budget holds: what the calls of one window bring, so that a busier process has a larger one. */
const capacityOf = (config: RouteHealthConfig, health: RouteHealth, now: number): number =>
  Math.max(config.retryTokens, config.retryTokensPerSuccess * health.accepts * decayOf(config, health, now))

/** Tokens per second that time and the present successes bring. */
export const tokensPerSecond = (config: RouteHealthConfig, health: RouteHealth, now: number): number =>
  config.retryTokensPerSecond +
  (config.retryTokensPerSuccess * health.accepts * decayOf(config, health, now) * 1000) / config.window

/** Retry tokens at an instant. */
export const tokensLeft = (config: RouteHealthConfig, health: RouteHealth, now: number): number =>
  Math.min(
    capacityOf(config, health, now),
    health.tokens + (Math.max(0, now - health.tokensAt) / 1000) * config.retryTokensPerSecond
  )

/** Calls per second that the route takes at present. */
const acceptedPerSecond = (config: RouteHealthConfig, health: RouteHealth, now: number): number =>
  (health.accepts * decayOf(config, health, now) * 1000) / config.window

/** How fast calls leave at an instant. */
export const paceOf = (config: RouteHealthConfig, health: RouteHealth, now: number): Pace =>
  paceAt(health.pace, now, acceptedPerSecond(config, health, now))

/** Closed a moment ago: calls come back step by step. */
export const isRamping = (health: RouteHealth, now: number): boolean => health.breaker === "ramp" && now < health.until

const isProbe = (health: RouteHealth, ticket: number | null): boolean =>
  health.breaker === "open" && health.probe !== null && health.probe.ticket === ticket

/** What is left of the counters. */
const decayOf = (config: RouteHealthConfig, health: RouteHealth, now: number): number =>
  Math.exp(-Math.max(0, now - health.countedAt) / config.window)

/** A call leaves, at this pace. */
export const onSent = (config: RouteHealthConfig, health: RouteHealth, pace: Pace, now: number): RouteHealth => {
  const decay = decayOf(config, health, now)
  return {
    ...health,
    accepts: health.accepts * decay,
    failures: health.failures * decay,
    sends: health.sends * decay + 1,
    countedAt: now,
    pace
  }
}

const onAccepted = (
  config: RouteHealthConfig,
  before: RouteHealth,
  ticket: number | null,
  now: number
): RouteHealth => {
  const decay = decayOf(config, before, now)
  const after: RouteHealth = {
    ...before,
    accepts: before.accepts * decay + 1,
    failures: before.failures * decay,
    sends: before.sends * decay,
    countedAt: now,
    pace: onTaken(isWaiting(before.pace) ? paceOf(config, before, now) : before.pace)
  }
  const health: RouteHealth = {
    ...after,
    tokens: Math.min(capacityOf(config, after, now), tokensLeft(config, before, now) + config.retryTokensPerSuccess),
    tokensAt: now
  }
  // A probe proves the route when it is accepted, not when it ends: replies take long.
  if (isProbe(health, ticket))
    return { ...health, breaker: "ramp", until: now + scaled(config.ramp, health), probe: null }
  return health.breaker === "ramp" && now >= health.until ? { ...health, breaker: "closed" } : health
}

/** Weight of the newest call in the mean service time. */
const newest = 0.1

const onServed = (health: RouteHealth, millis: number): RouteHealth => ({
  ...health,
  service: health.service === null ? millis : health.service + newest * (millis - health.service)
})

/** Shortest cool-down and ramp, however short the calls. */
const shortestScaled = 500

/**
 * A span of the settings, which are right for calls of several seconds, for calls as this route serves them: no longer
 * than one call takes. While a breaker rests that long the calls under way end and make room; a longer rest leaves the
 * room empty. Only on a busy route: what one client leaves empty is nothing, and its probes come on top.
 */
const scaled = (span: number, health: RouteHealth): number =>
  health.service === null || !health.busy ? span : Math.min(span, Math.max(shortestScaled, health.service))

/**
 * The breaker opens, from closed or within a ramp. A route that fails within its ramp takes a part of the calls: the full
 * cool-down gives it time for those, also when it is busy.
 */
const onBreak = (config: RouteHealthConfig, health: RouteHealth, tick: Tick): RouteHealth => {
  if (isRamping(health, tick.now)) return opened(health, scaled(config.coolDown, health), tick)
  const busy = health.failures + health.accepts >= config.busyCalls
  const judged: RouteHealth = { ...health, busy }
  return opened(judged, scaled(busy ? config.coolDown * config.busyFactor : config.coolDown, judged), tick)
}

const opened = (health: RouteHealth, coolDown: number, tick: Tick): RouteHealth => ({
  ...health,
  breaker: "open",
  coolDown,
  until: tick.now + coolDown * (0.5 + tick.spread),
  waiting: 0,
  probe: null
})

/** The cool-down after a failed probe. */
const nextCoolDown = (config: RouteHealthConfig, health: RouteHealth): number =>
  Math.min(health.busy ? config.coolDown * config.busyFactor : config.coolDownMax, health.coolDown * 2)

const onFailed = (config: RouteHealthConfig, before: RouteHealth, ticket: number | null, tick: Tick): RouteHealth => {
  const decay = decayOf(config, before, tick.now)
  const health: RouteHealth = {
    ...before,
    accepts: before.accepts * decay,
    failures: before.failures * decay + 1,
    sends: before.sends * decay,
    countedAt: tick.now
  }
  if (isProbe(health, ticket)) {
    const judged = { ...health, busy: health.busy || health.waiting >= config.busyCalls }
    return opened(judged, nextCoolDown(config, judged), tick)
  }
  const limit = isRamping(health, tick.now) ? config.rampFailureShare : config.failureShare
  // Of calls that left together those that fail are heard of first.
  const all = Math.max(health.failures + health.accepts, health.sends)
  const isBad = health.failures >= config.minFailures && health.failures >= limit * all
  return health.breaker !== "open" && isBad ? onBreak(config, health, tick) : health
}

const onHint = (
  config: RouteHealthConfig,
  health: RouteHealth,
  hintMillis: number | null,
  now: number
): RouteHealth => {
  if (hintMillis === null) return health
  const hintUntil = now + Math.min(hintMillis, config.hintGateMax)
  return hintUntil > health.hintUntil ? { ...health, hintUntil } : health
}

/** A short hint holds others back only as long as nothing is known of the limiter behind it. */
const onRateLimited = (
  config: RouteHealthConfig,
  health: RouteHealth,
  signal: Extract<Signal, { readonly _tag: "RateLimited" }>,
  now: number
): RouteHealth => {
  const { hintMillis, refusal } = signal
  if (refusal === null || refusal.hintMillis > shortHintMillis) return onHint(config, health, hintMillis, now)
  const pace = onRefusal(paceOf(config, health, now), refusal, now)
  const told = { ...health, pace }
  return pace.limiter === null ? onHint(config, told, hintMillis, now) : told
}

const onReleased = (health: RouteHealth, ticket: number | null): RouteHealth => ({
  ...health,
  sends: Math.max(0, health.sends - 1),
  probe: isProbe(health, ticket) ? null : health.probe
})

/** What is known of the route after a call. */
export const observe = (config: RouteHealthConfig, health: RouteHealth, signal: Signal, tick: Tick): RouteHealth => {
  switch (signal._tag) {
    case "Accepted":
      return onAccepted(config, health, signal.ticket, tick.now)
    case "Served":
      return onServed(health, signal.millis)
    case "Failed":
      return onHint(config, onFailed(config, health, signal.ticket, tick), signal.hintMillis, tick.now)
    case "RateLimited":
      // Says nothing of the provider's load: a probe that meets it leaves its place to the next.
      return onRateLimited(config, onReleased(health, signal.ticket), signal, tick.now)
    case "Released":
      return onReleased(health, signal.ticket)
  }
}
