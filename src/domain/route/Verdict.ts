/**
 * What one candidate says to a call, before anything is taken: take it, take it as a probe, hold it, or shed it. Pure;
 * monotonic milliseconds; chance comes in through `tick.spread` alone.
 */
import * as Schema from "effect/Schema"
import type { RouteHealthConfig } from "../recovery/RouteHealthConfig.ts"
import type { Tick } from "../recovery/Tick.ts"
import { placeIn, waitFor } from "./Pace.ts"
import { isRamping, paceOf, tokensLeft, tokensPerSecond, type RouteHealth } from "./RouteHealth.ts"

/**
 * Why a request is held. `breaker`: the route is open. `ramp`: it has just closed and another candidate takes the call.
 * `hint`: it asked for silence. `retryBudget`: its retries are too many for its successes. `burst`: too many leave at once
 * where nothing is known. `pace`: a limiter takes so many a second.
 */
export const HoldReason = Schema.Literals(["breaker", "hint", "retryBudget", "ramp", "burst", "pace"])
export type HoldReason = typeof HoldReason.Type

/** Least wait at an open breaker: waiters never spin while a probe is out. */
const shortestHold = 250
/** Least range of the random time after a cool-down. */
const minCoolSpread = 500
/** Share of calls that come back in the first moment of a ramp. */
const rampFloor = 0.1

/** Largest share of its remaining time that a request waits at random: those with little time left ask more often. */
const patience = 0.1
/** The same at the open breaker of a busy route, where many wait: nearly in the order of their deadlines. */
const busyPatience = 0.03

/**
 * An instant plus a random time, which gives way to the deadline (one millisecond before it); the instant itself never
 * moves.
 */
const spreadFrom = (
  instant: number,
  range: number,
  tick: Tick,
  deadline: number | null,
  share: number = patience
): number => {
  if (deadline === null) return instant + range * tick.spread
  const allowed = Math.max(0, Math.min(range, share * (deadline - tick.now)))
  return Math.max(instant, Math.min(instant + allowed * tick.spread, deadline - 1))
}

/** What one candidate says, before anything is taken. */
export type Verdict =
  | { readonly _tag: "Open" }
  | { readonly _tag: "Probe" }
  | { readonly _tag: "Held"; readonly untilMillis: number; readonly reason: HoldReason }
  | { readonly _tag: "Shed" }

const open: Verdict = { _tag: "Open" }
const probe: Verdict = { _tag: "Probe" }
const shed: Verdict = { _tag: "Shed" }
const held = (untilMillis: number, reason: HoldReason): Verdict => ({ _tag: "Held", untilMillis, reason })

/** How a request stands towards one candidate. */
export interface Caller {
  readonly priority: "foreground" | "background"
  /** Retry tokens that its attempt needs here: 0 for a first one. */
  readonly price: number
  /** What it has waited for since its last attempt, and is not held for again. */
  readonly waitedFor: ReadonlyArray<HoldReason>
  /** Whether the candidate is its own: what comes from a route that is shut is spread already, and is no burst. */
  readonly isOwn: boolean
  /** The place it was given before; null = none. */
  readonly place: number | null
  /** The random part of a wait gives way to this instant; null = none. */
  readonly deadline: number | null
}

const hasProbeOut = (config: RouteHealthConfig, health: RouteHealth, now: number): boolean =>
  health.probe !== null && now - health.probe.at < config.probeTimeout

/** The share of calls a ramp lets through; 1 = all. */
const rampShare = (config: RouteHealthConfig, health: RouteHealth, now: number): number =>
  isRamping(health, now) ? Math.max(rampFloor, 1 - (health.until - now) / Math.max(1, config.ramp)) : 1

/** Held by the breaker, until its cool-down or the probe that is out has ended; null = the call may be the probe. */
export const heldByBreaker = (
  config: RouteHealthConfig,
  health: RouteHealth,
  caller: Caller,
  tick: Tick
): Verdict | null => {
  if (caller.priority === "background") return shed
  if (tick.now >= health.until && !hasProbeOut(config, health, tick.now)) return null
  const earliest = Math.max(health.until, tick.now + shortestHold)
  const share = health.busy ? busyPatience : patience
  const whole = health.busy ? config.coolDown * config.busyFactor : config.coolDown
  // Not scaled to short calls: the crowd that waits is no smaller for them.
  const range = Math.max(minCoolSpread, health.coolDown, whole)
  return held(spreadFrom(earliest, range, tick, caller.deadline, share), "breaker")
}

/**
 * A retry without a token is put off until about when its own is there, behind those that were put off before it, but
 * no longer than time alone takes to bring one; never refused.
 */
const heldByBudget = (config: RouteHealthConfig, health: RouteHealth, caller: Caller, tick: Tick): Verdict | null => {
  if (caller.price === 0 || caller.waitedFor.includes("retryBudget")) return null
  const tokens = tokensLeft(config, health, tick.now)
  if (tokens >= caller.price) return null
  const owed = (caller.price - tokens) / tokensPerSecond(config, health, tick.now)
  const missing = Math.min(owed, 1 / config.retryTokensPerSecond) * 1000
  return held(spreadFrom(tick.now + missing / 2, missing, tick, caller.deadline), "retryBudget")
}

/** Longest and shortest time until a call that waits for its place looks again: the pace may have changed. */
const longestLook = 1_000
const shortestLook = 10

/**
 * Its place has not come up. In a burst every call that is taken lets another one go: it looks again at half of its wait. It
 * looks last before its deadline, and never in the past.
 */
const heldByPace = (config: RouteHealthConfig, health: RouteHealth, caller: Caller, { now }: Tick): Verdict | null => {
  // The clock never runs back: a place that had come up needs no look at it.
  if (placeIn(health.pace, caller.place) <= health.pace.clock) return null
  const pace = paceOf(config, health, now)
  const wait = waitFor(pace, placeIn(pace, caller.place))
  if (wait === 0) return null
  const isBurst = pace.limiter === null
  if (isBurst && !caller.isOwn) return null
  const look = isBurst ? Math.max(shortestLook, wait / 2) : Math.max(longestLook, wait / 4)
  const end = caller.deadline === null ? Infinity : caller.deadline - 1
  return held(Math.max(now + 1, Math.min(now + Math.min(wait, look), end)), isBurst ? "burst" : "pace")
}

/** What a candidate says to a caller. */
export const verdictOf = (config: RouteHealthConfig, health: RouteHealth, caller: Caller, tick: Tick): Verdict => {
  const { now } = tick
  const isOpen = health.breaker === "open"
  const shut = isOpen ? heldByBreaker(config, health, caller, tick) : null
  if (shut !== null) return shut
  if (config.hintGate && now < health.hintUntil && !caller.waitedFor.includes("hint")) {
    const range = Math.max(config.hintSpread, health.hintUntil - now)
    return held(spreadFrom(health.hintUntil, range, tick, caller.deadline), "hint")
  }
  if (isOpen) return probe
  if (!caller.waitedFor.includes("ramp") && tick.spread > rampShare(config, health, now)) return held(now, "ramp")
  return heldByBudget(config, health, caller, tick) ?? heldByPace(config, health, caller, tick) ?? open
}
