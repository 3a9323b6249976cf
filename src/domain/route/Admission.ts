/**
 * Which route a request may use now: one question over the healths of all its candidates, answered in one step, with
 * the place of a probe or the retry token already taken. Pure; monotonic milliseconds; chance comes in through
 * `tick.spread` alone.
 */
import * as Schema from "effect/Schema"
import { Count } from "../chat/Usage.ts"
import type { RouteHealthConfig } from "../recovery/RouteHealthConfig.ts"
import type { Tick } from "../recovery/Tick.ts"
import { placeIn, type Pace } from "./Pace.ts"
import { observe, onSent, paceOf, tokensLeft, type RouteHealth, type Signal } from "./RouteHealth.ts"
import { heldByBreaker, HoldReason, verdictOf, type Caller, type Verdict } from "./Verdict.ts"

export const Admission = Schema.TaggedUnion({
  /** Go, on this candidate. */
  Go: {
    candidate: Count,
    /** The call is the one that shows whether an open route is back: its signal must carry this ticket. */
    ticket: Schema.NullOr(Count),
    /** Its place in the order of the calls for this route. */
    place: Schema.Finite,
    /** A limiter takes these calls one after the other: a refusal says nothing of a crowd. */
    isPaced: Schema.Boolean,
    /** What made it leave its own candidate (`return`: it would rather be elsewhere); null = it has not left. */
    left: Schema.NullOr(Schema.Union([HoldReason, Schema.Literal("return")]))
  },
  /** Ask again at `untilMillis`, a later instant. Spends no attempt. */
  Held: {
    untilMillis: Schema.Finite,
    reason: HoldReason,
    /** The place it keeps at its own candidate while it waits; null = it has none yet. */
    place: Schema.NullOr(Schema.Finite)
  },
  /** A background request, and the breaker of its own candidate is open. */
  Shed: {}
})
export type Admission = typeof Admission.Type

/** Who asks. */
export interface Asker {
  /** Index of its own candidate: the route its next attempt is planned on. */
  readonly own: number
  readonly priority: Caller["priority"]
  /** The candidate its last attempt failed on: another attempt there is a retry. null = it did not fail, or is the first. */
  readonly failedOn: number | null
  /** Retry tokens that another attempt there needs: one after a fault of load, less after another. */
  readonly price: number
  /** What it has waited for since its last attempt, and is not held for again. */
  readonly waitedFor: ReadonlyArray<HoldReason>
  /** The place that its own candidate has given it; null = none. */
  readonly place: number | null
  /** Whether it asks for its own candidate first, or for the others. */
  readonly prefers: "own" | "others"
  /** Reasons that make it leave its own candidate for another one that takes it now. */
  readonly leavesFor: ReadonlyArray<HoldReason>
  /** The random part of a wait gives way to this instant; null = none. */
  readonly deadline: number | null
}

/** A first attempt in the foreground with nowhere else to go. */
export const newcomer: Asker = {
  own: 0,
  priority: "foreground",
  failedOn: null,
  price: 1,
  waitedFor: [],
  place: null,
  prefers: "own",
  leavesFor: [],
  deadline: null
}

export interface Admitted {
  readonly admission: Admission
  /** The healths of the candidates after the answer; the very same array when nothing was taken. */
  readonly healths: ReadonlyArray<RouteHealth>
}

/** The request as a caller of one candidate. What it has waited for counts at its own alone. */
const callerOf = (asker: Asker, candidate: number): Caller => ({
  priority: asker.priority,
  price: asker.failedOn === candidate ? asker.price : 0,
  waitedFor: candidate === asker.own ? asker.waitedFor : [],
  isOwn: candidate === asker.own,
  place: candidate === asker.own ? asker.place : null,
  deadline: asker.deadline
})

/** What the other candidates say to the request. */
const elsewhere = (
  config: RouteHealthConfig,
  healths: ReadonlyArray<RouteHealth>,
  asker: Asker,
  tick: Tick
): ReadonlyArray<Verdict | null> =>
  healths.map((health, index) => (index === asker.own ? null : verdictOf(config, health, callerOf(asker, index), tick)))

/** The first candidate that takes the call; null = none. */
const firstTaking = (verdicts: ReadonlyArray<Verdict | null>): number | null => {
  const found = verdicts.findIndex((verdict) => verdict?._tag === "Open" || verdict?._tag === "Probe")
  return found === -1 ? null : found
}

/** Every candidate's breaker is open: the one that may be probed first decides. */
const earliestOf = (verdicts: ReadonlyArray<Verdict | null>, own: number): number =>
  verdicts.reduce(
    (earliest, verdict) =>
      verdict?._tag === "Held" && verdict.reason === "breaker" ? Math.min(earliest, verdict.untilMillis) : earliest,
    own
  )

const put = (healths: ReadonlyArray<RouteHealth>, index: number, health: RouteHealth): ReadonlyArray<RouteHealth> =>
  healths.length === 1 ? [health] : healths.map((other, at) => (at === index ? health : other))

/** The place of a call, and the pace in which it is taken. */
const placed = (
  config: RouteHealthConfig,
  health: RouteHealth,
  { place }: Caller,
  { now }: Tick
): { readonly pace: Pace; readonly place: number } => {
  const pace = paceOf(config, health, now)
  const taken = placeIn(pace, place)
  return { pace: taken > pace.last ? { ...pace, last: taken } : pace, place: taken }
}

/** Sends the request to a candidate that takes it: the place of a probe, or the token of a retry, is taken with it. */
const go = (
  config: RouteHealthConfig,
  healths: ReadonlyArray<RouteHealth>,
  asker: Asker,
  tick: Tick,
  candidate: number,
  left: Extract<Admission, { readonly _tag: "Go" }>["left"]
): Admitted => {
  const health = healths[candidate]
  if (health === undefined) throw new RangeError(`there is no candidate ${candidate}`)
  const caller = callerOf(asker, candidate)
  const { pace, place } = placed(config, health, caller, tick)
  const sent = onSent(config, health, pace, tick.now)
  const isPaced = pace.limiter !== null
  if (health.breaker === "open") {
    const ticket = health.tickets
    const probing = { ...sent, tickets: ticket + 1, probe: { ticket, at: tick.now } }
    return {
      admission: { _tag: "Go", candidate, ticket, place, isPaced, left },
      healths: put(healths, candidate, probing)
    }
  }
  const admission: Admission = { _tag: "Go", candidate, ticket: null, place, isPaced, left }
  const { price, waitedFor } = caller
  if (price === 0 || waitedFor.includes("retryBudget")) return { admission, healths: put(healths, candidate, sent) }
  const spent = { ...sent, tokens: tokensLeft(config, health, tick.now) - price, tokensAt: tick.now }
  return { admission, healths: put(healths, candidate, spent) }
}

/** Counts a request that has no other candidate among those who wait for the next probe. */
const waiting = (healths: ReadonlyArray<RouteHealth>): ReadonlyArray<RouteHealth> =>
  healths.length === 1 ? healths.map((health) => ({ ...health, waiting: health.waiting + 1 })) : healths

/**
 * Which candidate takes the request now. Its own one unless it prefers the others, or is held there for a reason it
 * leaves for and another one takes it. A ramp holds only while another candidate takes the call.
 */
export const admit = (
  config: RouteHealthConfig,
  healths: ReadonlyArray<RouteHealth>,
  asker: Asker,
  tick: Tick
): Admitted => {
  const own = healths[asker.own]
  if (own === undefined) throw new RangeError(`there is no candidate ${asker.own}`)
  if (asker.prefers === "others") {
    const better = firstTaking(elsewhere(config, healths, asker, tick))
    if (better !== null) return go(config, healths, asker, tick, better, "return")
  }
  const verdict = verdictOf(config, own, callerOf(asker, asker.own), tick)
  if (verdict._tag === "Shed") return { admission: { _tag: "Shed" }, healths }
  if (verdict._tag !== "Held") return go(config, healths, asker, tick, asker.own, null)
  const { reason } = verdict
  const others = asker.leavesFor.includes(reason) ? elsewhere(config, healths, asker, tick) : []
  const other = firstTaking(others)
  if (other !== null) return go(config, healths, asker, tick, other, reason)
  switch (reason) {
    case "ramp":
      return admit(config, healths, { ...asker, prefers: "own", waitedFor: [...asker.waitedFor, "ramp"] }, tick)
    case "breaker": {
      const untilMillis = earliestOf(others, verdict.untilMillis)
      return { admission: { _tag: "Held", untilMillis, reason, place: null }, healths: waiting(healths) }
    }
    case "retryBudget": {
      // Its token is taken now, on credit: who comes next waits for one more.
      const owing = { ...own, tokens: tokensLeft(config, own, tick.now) - asker.price, tokensAt: tick.now }
      return {
        admission: { _tag: "Held", untilMillis: verdict.untilMillis, reason, place: null },
        healths: put(healths, asker.own, owing)
      }
    }
    case "hint":
      return { admission: { _tag: "Held", untilMillis: verdict.untilMillis, reason, place: null }, healths }
    case "burst":
    case "pace": {
      const { pace, place } = placed(config, own, callerOf(asker, asker.own), tick)
      return {
        admission: { _tag: "Held", untilMillis: verdict.untilMillis, reason, place },
        healths: put(healths, asker.own, { ...own, pace })
      }
    }
  }
}

export interface Reported {
  readonly healths: ReadonlyArray<RouteHealth>
  /**
   * The candidate that takes the request now while the breaker of its own one is open; null = its own is not open, or
   * no other takes it. Nothing is taken.
   */
  readonly wayOut: number | null
}

/** What is known of the candidates after an attempt on the reporter's own one, and whether there is a way out of it. */
export const report = (
  config: RouteHealthConfig,
  healths: ReadonlyArray<RouteHealth>,
  reporter: Pick<Asker, "own" | "priority">,
  signal: Signal,
  tick: Tick
): Reported => {
  const own = healths[reporter.own]
  if (own === undefined) throw new RangeError(`there is no candidate ${reporter.own}`)
  const observed = observe(config, own, signal, tick)
  const after = observed === own ? healths : put(healths, reporter.own, observed)
  if (healths.length === 1 || signal._tag !== "Failed" || observed.breaker !== "open")
    return { healths: after, wayOut: null }
  const asker: Asker = { ...newcomer, ...reporter }
  const isHeld = heldByBreaker(config, observed, callerOf(asker, asker.own), tick)?._tag === "Held"
  return { healths: after, wayOut: isHeld ? firstTaking(elsewhere(config, after, asker, tick)) : null }
}
