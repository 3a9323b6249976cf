/**
 * The health of one route (provider + key + model), shared by all requests of a process: a breaker on the failure
 * share, a gate for hints, a retry budget that defers. Pure; monotonic milliseconds; chance comes in through
 * `tick.spread` alone. `admit` is asked before an attempt, `observe` is told how it went.
 */
import * as Schema from "effect/Schema"
import type { RouteHealthConfig } from "../recovery/RouteHealthConfig.ts"
import type { Tick } from "../recovery/Tick.ts"
import { Count } from "../chat/Usage.ts"

const Amount = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))
const Millis = Schema.Finite.check(Schema.isGreaterThan(0))

/** What is remembered of a route. Small, immutable, JSON. */
export const RouteHealth = Schema.Struct({
  /** Decaying counters, as of `countedAt`. */
  accepts: Amount,
  failures: Amount,
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
  /** Instant before which a hint asked for silence. */
  hintUntil: Schema.Finite,
  /** Retry tokens, as of `tokensAt`. */
  tokens: Amount,
  tokensAt: Schema.Finite
})
export type RouteHealth = typeof RouteHealth.Type

/** A route nothing is known of. */
export const initial = (config: RouteHealthConfig, now: number): RouteHealth => ({
  accepts: 0,
  failures: 0,
  countedAt: now,
  breaker: "closed",
  until: now,
  coolDown: config.coolDown,
  busy: false,
  waiting: 0,
  probe: null,
  tickets: 0,
  hintUntil: now,
  tokens: config.retryTokens,
  tokensAt: now
})

/** Why a call is kept at the door. `ramp`: only when another route takes it. */
export const HoldReason = Schema.Literals(["breaker", "hint", "retryBudget", "ramp"])
export type HoldReason = typeof HoldReason.Type

export const Admission = Schema.TaggedUnion({
  Go: {},
  /** Go, as the one call that shows whether an open route is back. Its signal must carry the ticket. */
  Probe: { ticket: Count },
  /** Ask again at `untilMillis` (a monotonic instant, later than now unless the reason is `ramp`). Spends no attempt. */
  Held: { untilMillis: Schema.Finite, reason: HoldReason },
  /** A background request, and the route is closed. */
  Shed: {}
})
export type Admission = typeof Admission.Type

/** Number of the probe the signal belongs to; null = no probe. */
const ticket = Schema.NullOr(Count)

export const Signal = Schema.TaggedUnion({
  /** The provider took the call: headers or the first event came, or any answer that is no overload. Once per attempt. */
  Accepted: { ticket },
  /** A counted fault. `hintMillis` is the wait it asked for; null = none. */
  Failed: { ticket, hintMillis: Schema.NullOr(Schema.Finite) },
  RateLimited: { ticket, hintMillis: Schema.NullOr(Schema.Finite) },
  /** The attempt told nothing of the route: it was interrupted, or failed in a way that is not counted. */
  Released: { ticket }
})
export type Signal = typeof Signal.Type

/** What a request says of itself at the door. */
export interface Asker {
  /** Its last attempt was on this route and failed: needs a retry token. */
  readonly retry: boolean
  readonly background: boolean
  /** It has waited at the hint gate, or for a retry token, since its last attempt, and is not held for that again. */
  readonly gated: boolean
  readonly deferred: boolean
  /** No other route takes it: the ramp does not hold it. */
  readonly insists: boolean
  /** Only looks: takes neither a probe's place nor a token. */
  readonly looks: boolean
  /** The random part of a wait gives way to this instant; null = none. */
  readonly deadline: number | null
}

/** A first attempt in the foreground. */
export const newcomer: Asker = {
  retry: false,
  background: false,
  gated: false,
  deferred: false,
  insists: false,
  looks: false,
  deadline: null
}

interface Admitted {
  readonly admission: Admission
  readonly health: RouteHealth
}

const go: Admission = { _tag: "Go" }
const shed: Admission = { _tag: "Shed" }

/** Least wait at an open breaker: waiters never spin while a probe is out. */
const shortestHold = 250
/** Least range of the random time after a cool-down. */
const minCoolSpread = 500
/** Share of calls that come back in the first moment of a ramp. */
const rampFloor = 0.1

/** Largest share of its remaining time that a request waits at random: those with little time left ask more often. */
const patience = 0.1
/** The same at the open door of a busy route, where many wait: nearly in the order of their deadlines. */
const busyPatience = 0.03

/**
 * An instant plus a random time, which gives way to the deadline (one millisecond before it); the instant itself never
 * moves.
 */
const spreadFrom = (instant: number, range: number, tick: Tick, asker: Asker, share = patience): number => {
  if (asker.deadline === null) return instant + range * tick.spread
  const allowed = Math.max(0, Math.min(range, share * (asker.deadline - tick.now)))
  return Math.max(instant, Math.min(instant + allowed * tick.spread, asker.deadline - 1))
}

const held = (untilMillis: number, reason: HoldReason): Admission => ({ _tag: "Held", untilMillis, reason })

const hasProbeOut = (config: RouteHealthConfig, health: RouteHealth, now: number): boolean =>
  health.probe !== null && now - health.probe.at < config.probeTimeout

const refilled = (config: RouteHealthConfig, health: RouteHealth, now: number): number =>
  Math.min(
    config.retryTokens,
    health.tokens + (Math.max(0, now - health.tokensAt) / 1000) * config.retryTokensPerSecond
  )

const isRamping = (health: RouteHealth, now: number): boolean => health.breaker === "ramp" && now < health.until

/** The share of calls a ramp lets through; 1 = all. */
const rampShare = (config: RouteHealthConfig, health: RouteHealth, now: number): number =>
  isRamping(health, now) ? Math.max(rampFloor, 1 - (health.until - now) / Math.max(1, config.ramp)) : 1

/** Whether the route takes this call now; `health` is the state after the answer. */
export const admit = (
  config: RouteHealthConfig,
  health: RouteHealth,
  tick: Tick,
  asker: Asker = newcomer
): Admitted => {
  const { now } = tick
  if (health.breaker === "open") {
    if (asker.background) return { admission: shed, health }
    if (now < health.until || hasProbeOut(config, health, now)) {
      const earliest = Math.max(health.until, now + shortestHold)
      const share = health.busy ? busyPatience : patience
      const untilMillis = spreadFrom(earliest, Math.max(minCoolSpread, health.coolDown), tick, asker, share)
      const admission = held(untilMillis, "breaker")
      return { admission, health: asker.insists && !asker.looks ? { ...health, waiting: health.waiting + 1 } : health }
    }
  }
  if (config.hintGate && now < health.hintUntil && !asker.gated) {
    const range = Math.max(config.hintSpread, health.hintUntil - now)
    return { admission: held(spreadFrom(health.hintUntil, range, tick, asker), "hint"), health }
  }
  if (health.breaker === "open") {
    const ticket = health.tickets
    const admission: Admission = { _tag: "Probe", ticket }
    return { admission, health: asker.looks ? health : { ...health, tickets: ticket + 1, probe: { ticket, at: now } } }
  }
  if (!asker.insists && tick.spread > rampShare(config, health, now)) return { admission: held(now, "ramp"), health }
  return asker.retry && !asker.deferred ? spend(config, health, tick, asker) : { admission: go, health }
}

/** A retry takes a token; without one it is put off until about when one is there, never refused. */
const spend = (config: RouteHealthConfig, health: RouteHealth, tick: Tick, asker: Asker): Admitted => {
  const tokens = refilled(config, health, tick.now)
  if (tokens >= 1)
    return { admission: go, health: asker.looks ? health : { ...health, tokens: tokens - 1, tokensAt: tick.now } }
  const missing = ((1 - tokens) / config.retryTokensPerSecond) * 1000
  const admission = held(spreadFrom(tick.now + missing / 2, missing, tick, asker), "retryBudget")
  return { admission, health }
}

const isProbe = (health: RouteHealth, ticket: number | null): boolean =>
  health.breaker === "open" && health.probe !== null && health.probe.ticket === ticket

/** What is left of the counters. */
const decayOf = (config: RouteHealthConfig, health: RouteHealth, now: number): number =>
  Math.exp(-Math.max(0, now - health.countedAt) / config.window)

const onAccepted = (
  config: RouteHealthConfig,
  before: RouteHealth,
  ticket: number | null,
  now: number
): RouteHealth => {
  const decay = decayOf(config, before, now)
  const health: RouteHealth = {
    ...before,
    accepts: before.accepts * decay + 1,
    failures: before.failures * decay,
    countedAt: now,
    tokens: Math.min(config.retryTokens, refilled(config, before, now) + config.retryTokensPerSuccess),
    tokensAt: now
  }
  // A probe proves the route when it is accepted, not when it ends: replies take long.
  if (isProbe(health, ticket)) return { ...health, breaker: "ramp", until: now + config.ramp, probe: null }
  return health.breaker === "ramp" && now >= health.until ? { ...health, breaker: "closed" } : health
}

/**
 * The breaker opens, from closed or within a ramp. A route that fails within its ramp takes a part of the calls: the full
 * cool-down gives it time for those, also when it is busy.
 */
const onBreak = (config: RouteHealthConfig, health: RouteHealth, tick: Tick): RouteHealth => {
  if (isRamping(health, tick.now)) return opened(health, config.coolDown, tick)
  const busy = health.failures + health.accepts >= config.busyCalls
  return opened({ ...health, busy }, busy ? config.coolDown * config.busyFactor : config.coolDown, tick)
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
  health.busy ? config.coolDown * config.busyFactor : Math.min(config.coolDownMax, health.coolDown * 2)

const onFailed = (config: RouteHealthConfig, before: RouteHealth, ticket: number | null, tick: Tick): RouteHealth => {
  const decay = decayOf(config, before, tick.now)
  const health: RouteHealth = {
    ...before,
    accepts: before.accepts * decay,
    failures: before.failures * decay + 1,
    countedAt: tick.now
  }
  if (isProbe(health, ticket)) {
    const judged = { ...health, busy: health.busy || health.waiting >= config.busyCalls }
    return opened(judged, nextCoolDown(config, judged), tick)
  }
  const limit = isRamping(health, tick.now) ? config.rampFailureShare : config.failureShare
  const isBad = health.failures >= config.minFailures && health.failures >= limit * (health.failures + health.accepts)
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

const onReleased = (health: RouteHealth, ticket: number | null): RouteHealth =>
  isProbe(health, ticket) ? { ...health, probe: null } : health

/** What is known of the route after a call. */
export const observe = (config: RouteHealthConfig, health: RouteHealth, signal: Signal, tick: Tick): RouteHealth => {
  switch (signal._tag) {
    case "Accepted":
      return onAccepted(config, health, signal.ticket, tick.now)
    case "Failed":
      return onHint(config, onFailed(config, health, signal.ticket, tick), signal.hintMillis, tick.now)
    case "RateLimited":
      // Says nothing of the provider's load: a probe that meets it leaves its place to the next.
      return onHint(config, onReleased(health, signal.ticket), signal.hintMillis, tick.now)
    case "Released":
      return onReleased(health, signal.ticket)
  }
}
