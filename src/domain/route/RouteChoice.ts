/**
 * Which route a request may take, from what the doors of all routes say, and what an outcome tells of a route. Pure:
 * the interpreter and the simulator ask the doors, this file judges the answers.
 */
import type { Outcome } from "../recovery/Outcome.ts"
import type { RecoveryPolicy } from "../recovery/RecoveryPolicy.ts"
import type { RecoveryState } from "../recovery/RecoveryState.ts"
import { waitOf } from "../failure/Hint.ts"
import { runClassOf } from "../recovery/roads/Transient.ts"
import { type RouteHealthConfig } from "../recovery/RouteHealthConfig.ts"
import { newcomer, type Admission, type Asker, type Signal } from "./RouteHealth.ts"

export type HeldOutcome = Extract<Outcome, { readonly _tag: "Held" }>

/** What a request remembers of its visits at the doors. Immutable; starts as `firstVisit`. */
export interface Visit {
  /** Route of the last attempt and whether it failed: a retry on the same route needs a token. */
  readonly failedOn: number | null
  readonly gated: boolean
  readonly deferred: boolean
  /** A door has sent it to another route since its last attempt. */
  readonly moved: boolean
  /** It has left a route that had just been shut without waiting first: once per request. */
  readonly left: boolean
}

export const firstVisit: Visit = { failedOn: null, gated: false, deferred: false, moved: false, left: false }

/** Reason of a request that leaves a route at once because its breaker has just opened. */
const justShut = "shut"

/** The visit after an attempt, or after a wait at a door. */
export const afterOutcome = (visit: Visit, route: number, outcome: Outcome): Visit => {
  switch (outcome._tag) {
    case "Faulted":
      return { ...firstVisit, failedOn: route, left: visit.left }
    case "Held":
      if (outcome.other !== null) return { ...visit, moved: true, left: visit.left || outcome.reason === justShut }
      if (outcome.reason === "hint") return { ...visit, gated: true }
      return outcome.reason === "retryBudget" ? { ...visit, deferred: true } : visit
    case "Completed":
    case "Refused":
    case "Truncated":
    case "PromptTooLong":
      return { ...firstVisit, left: visit.left }
    default:
      return visit
  }
}

/** How the request introduces itself at the door of the route it is on; a policy of one route leaves it no other. */
const askerOf = (policy: RecoveryPolicy, state: RecoveryState, visit: Visit, deadline: number | null): Asker => ({
  retry: visit.failedOn === state.route,
  background: state.background,
  gated: visit.gated,
  deferred: visit.deferred,
  insists: policy.routes.length === 1,
  looks: false,
  deadline
})

/** How it looks at the door of another route, without taking a place. */
const lookerOf = (asker: Asker): Asker => ({ ...asker, retry: false, gated: false, deferred: false, looks: true })

/**
 * Whether the request leaves its route when another one takes it, in spite of an open door: with the way back open
 * (`fallbackScope: "health"`) when it starts on a fallback, and when a run of failures is long enough for a switch but
 * the last route is reached.
 */
const wantsAway = (policy: RecoveryPolicy, state: RecoveryState, visit: Visit): boolean => {
  if (visit.moved || policy.fallbackScope !== "health" || policy.routes.length < 2) return false
  if (state.attempts === 0) return state.route > 0
  const { run } = state
  const limit = run === null || run.class === "empty" ? undefined : policy.fallbackAfter[run.class]
  return run !== null && limit !== undefined && run.count >= limit
}

type Passing = Extract<Admission, { readonly _tag: "Go" | "Probe" }>

const isPassing = (admission: Admission): admission is Passing => admission._tag === "Go" || admission._tag === "Probe"

/** A question at the door of one route. */
export interface Knock {
  readonly route: number
  readonly asker: Asker
}

/** What the doors say in the end: through (with a probe's ticket or null), or held. */
export type DoorAnswer =
  | { readonly _tag: "Through"; readonly ticket: number | null }
  | { readonly _tag: "Kept"; readonly outcome: HeldOutcome }

const through = (admission: Passing): DoorAnswer => ({
  _tag: "Through",
  ticket: admission._tag === "Probe" ? admission.ticket : null
})

const kept = (untilMillis: number, reason: string, other: number | null): DoorAnswer => ({
  _tag: "Kept",
  outcome: { _tag: "Held", untilMillis, reason, other }
})

type Doors = ReadonlyArray<Admission | null>

/** First route that takes the request; null = none. */
const firstOpen = (doors: Doors): number | null => {
  const found = doors.findIndex((door) => door !== null && isPassing(door))
  return found === -1 ? null : found
}

/** Looks at the doors of all routes but the present one. */
function* lookAround(policy: RecoveryPolicy, current: number, asker: Asker): Generator<Knock, Doors, Admission> {
  const doors: Array<Admission | null> = []
  for (const route of policy.routes.keys())
    doors.push(route === current ? null : yield { route, asker: lookerOf(asker) })
  return doors
}

/**
 * The questions of one request at the doors, in order, and the answer that comes of them. Whoever drives the generator
 * asks the health of the route and hands the admission back.
 */
export function* askDoors(
  policy: RecoveryPolicy,
  state: RecoveryState,
  visit: Visit,
  deadline: number | null,
  now: number
): Generator<Knock, DoorAnswer, Admission> {
  const current = state.route
  const asker = askerOf(policy, state, visit, deadline)
  if (wantsAway(policy, state, visit)) {
    const better = firstOpen(yield* lookAround(policy, current, asker))
    if (better !== null) return kept(now, "return", better)
  }
  const admission: Admission = yield { route: current, asker }
  switch (admission._tag) {
    case "Go":
    case "Probe":
      return through(admission)
    case "Shed":
      return kept(now, "shed", null)
    case "Held": {
      const { untilMillis, reason } = admission
      // A retry token is a matter of the own route alone, and so is a hint, unless rate limits lead to a fallback.
      const stays = reason === "retryBudget" || (reason === "hint" && policy.fallbackAfter.rateLimit === undefined)
      if (stays) return kept(untilMillis, reason, null)
      const doors = yield* lookAround(policy, current, asker)
      const other = firstOpen(doors)
      if (other !== null) return kept(now, reason, other)
      if (reason === "hint") return kept(untilMillis, reason, null)
      if (reason === "breaker") return kept(earliestOf(doors, untilMillis), reason, null)
      // A ramp holds only while another route takes the call.
      const again: Admission = yield { route: current, asker: { ...asker, insists: true } }
      return isPassing(again)
        ? through(again)
        : kept(again._tag === "Held" ? again.untilMillis : now, reasonOf(again), null)
    }
  }
}

/**
 * Before the wait for a retry: whether the request leaves at once instead, because its failure (or its probe's) shut the
 * route and another one takes it. Null = it stays and waits.
 */
export function* askToLeave(
  policy: RecoveryPolicy,
  state: RecoveryState,
  visit: Visit,
  now: number
): Generator<Knock, HeldOutcome | null, Admission> {
  if (visit.left || policy.routes.length < 2 || policy.fallbackScope !== "health") return null
  const asker: Asker = { ...newcomer, background: state.background, looks: true }
  const own: Admission = yield { route: state.route, asker: { ...asker, insists: true } }
  if (own._tag !== "Held" || own.reason !== "breaker") return null
  const other = firstOpen(yield* lookAround(policy, state.route, asker))
  return other === null ? null : { _tag: "Held", untilMillis: now, reason: justShut, other }
}

const reasonOf = (admission: Admission): string => (admission._tag === "Held" ? admission.reason : "shed")

/** Every route is shut: the one that opens first decides. */
const earliestOf = (doors: Doors, own: number): number =>
  doors.reduce(
    (earliest, door) =>
      door?._tag === "Held" && door.reason === "breaker" ? Math.min(earliest, door.untilMillis) : earliest,
    own
  )

/** What an outcome of an attempt tells of its route; null = it was no attempt. `ticket` is the probe's, or null. */
export const signalOf = (
  config: RouteHealthConfig,
  policy: RecoveryPolicy,
  outcome: Outcome,
  ticket: number | null,
  wall: number
): Signal | null => {
  switch (outcome._tag) {
    case "Completed":
    case "Refused":
    case "Truncated":
    case "PromptTooLong":
      return { _tag: "Accepted", ticket }
    case "DeadlineHit":
      return { _tag: "Released", ticket }
    case "Faulted": {
      const hintMillis = firstHint(outcome, wall)
      const group = runClassOf(policy, outcome)
      if (group === "rateLimit") return { _tag: "RateLimited", ticket, hintMillis }
      if (group === null || group === "overflow" || group === "empty") return { _tag: "Accepted", ticket }
      return config.counts.includes(group) ? { _tag: "Failed", ticket, hintMillis } : { _tag: "Released", ticket }
    }
    default:
      return null
  }
}

const firstHint = (fault: Extract<Outcome, { readonly _tag: "Faulted" }>, wall: number): number | null => {
  for (const hint of fault.hints) {
    const millis = waitOf(hint, wall)
    if (millis !== null) return millis
  }
  return null
}
