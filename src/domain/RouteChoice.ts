/**
 * Which route a request may take, from what the doors of all routes say, and what an outcome tells of a route. Pure:
 * the interpreter and the simulator ask the doors, this file judges the answers.
 */
import type { Outcome } from "./Outcome.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"
import type { RecoveryState } from "./RecoveryState.ts"
import { waitOf } from "./RetryAfter.ts"
import { runClassOf } from "./roads/Transient.ts"
import { newcomer, type Admission, type Asker, type RouteHealthConfig, type Signal } from "./RouteHealth.ts"

export type HeldOutcome = Extract<Outcome, { readonly _tag: "Held" }>

/** What a request remembers of its visits at the doors. Immutable; starts as `firstVisit`. */
export interface Visit {
  /** Route of the last attempt and whether it failed: a retry on the same route needs a token. */
  readonly failedOn: number | null
  readonly gated: boolean
  readonly deferred: boolean
}

export const firstVisit: Visit = { failedOn: null, gated: false, deferred: false }

/** The visit after an attempt, or after a wait at a door. */
export const afterOutcome = (visit: Visit, route: number, outcome: Outcome): Visit => {
  switch (outcome._tag) {
    case "Faulted":
      return { failedOn: route, gated: false, deferred: false }
    case "Held":
      if (outcome.reason === "hint") return { ...visit, gated: true }
      return outcome.reason === "retryBudget" ? { ...visit, deferred: true } : visit
    case "Completed":
    case "Refused":
    case "Truncated":
    case "PromptTooLong":
      return firstVisit
    default:
      return visit
  }
}

/** How the request introduces itself at the door of the route it is on. */
export const askerOf = (state: RecoveryState, visit: Visit, deadline: number | null): Asker => ({
  ...newcomer,
  retry: visit.failedOn === state.route,
  background: state.background,
  gated: visit.gated,
  deferred: visit.deferred,
  deadline
})

/** How it looks at the door of another route, without taking a place. */
export const lookerOf = (asker: Asker): Asker => ({ ...asker, retry: false, gated: false, deferred: false, looks: true })

/**
 * Routes to look at before anything else: with the way back open (`fallbackScope: "health"`) a request that starts on a
 * fallback returns to the first route that takes it.
 */
export const isComingBack = (policy: RecoveryPolicy, state: RecoveryState): boolean =>
  policy.fallbackScope === "health" && state.route > 0 && state.attempts === 0

const isOpen = (admission: Admission): boolean => admission._tag === "Go" || admission._tag === "Probe"

/** First route other than the present one that would take the request; null = none. */
export const firstOpen = (current: number, doors: ReadonlyArray<Admission | null>): number | null => {
  const found = doors.findIndex((door, route) => route !== current && door !== null && isOpen(door))
  return found === -1 ? null : found
}

/** Whether the doors of the other routes matter: a hint or a retry token is a matter of the own route alone. */
export const looksElsewhere = (admission: Admission): boolean =>
  admission._tag === "Held" && (admission.reason === "breaker" || admission.reason === "ramp")

/**
 * The outcome of an answer that is no Go. `doors` holds what the other routes say (null = not asked). Null = ask again,
 * insisting: a ramp holds only while another route takes the call.
 */
export const settle = (
  current: number,
  admission: Exclude<Admission, { readonly _tag: "Go" | "Probe" }>,
  doors: ReadonlyArray<Admission | null>,
  now: number
): HeldOutcome | null => {
  if (admission._tag === "Shed") return { _tag: "Held", untilMillis: now, reason: "shed", other: null }
  const { reason } = admission
  if (!looksElsewhere(admission)) return { _tag: "Held", untilMillis: admission.untilMillis, reason, other: null }
  const other = firstOpen(current, doors)
  if (other !== null) return { _tag: "Held", untilMillis: now, reason, other }
  if (reason === "ramp") return null
  // Every route is shut: the earliest one decides.
  const untilMillis = doors.reduce(
    (earliest, door) => (door?._tag === "Held" && door.reason === "breaker" ? Math.min(earliest, door.untilMillis) : earliest),
    admission.untilMillis
  )
  return { _tag: "Held", untilMillis, reason, other: null }
}

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
