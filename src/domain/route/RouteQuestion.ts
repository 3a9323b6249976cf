/**
 * What one request asks of its routes and tells of them: who it is, from its policy, its state and what it has waited
 * for, and what an outcome says of the route it was on. Pure: the interpreter and the simulator carry it to the healths.
 */
import { shortHintMillis, waitOf } from "../failure/Hint.ts"
import type { Faulted, Outcome } from "../recovery/Outcome.ts"
import type { RecoveryPolicy } from "../recovery/RecoveryPolicy.ts"
import { endOf, type RecoveryState } from "../recovery/RecoveryState.ts"
import { runClassOf } from "../recovery/roads/Transient.ts"
import type { RouteHealthConfig } from "../recovery/RouteHealthConfig.ts"
import type { Tick } from "../recovery/Tick.ts"
import type { Admission, Asker } from "./Admission.ts"
import type { Signal } from "./RouteHealth.ts"
import type { HoldReason } from "./Verdict.ts"

export type HeldOutcome = Extract<Outcome, { readonly _tag: "Held" }>

/** What a request remembers of its routes since its last attempt. Immutable; starts as `noHolds`. */
export interface Holds {
  /** Route of the last attempt when that failed: a retry on the same route needs a token. */
  readonly failedOn: number | null
  /** Retry tokens that another attempt there needs. */
  readonly price: number
  readonly waitedFor: ReadonlyArray<HoldReason>
  /** It has waited as the server asked since its last success: another hint would be its second. */
  readonly obeyed: boolean
  /** The place it waits for on its own route; null = none. */
  readonly place: number | null
}

export const noHolds: Holds = { failedOn: null, price: 1, waitedFor: [], obeyed: false, place: null }

/** Holds that end with one wait: a request is not held twice for them between two attempts. */
const isServed = (reason: string): reason is HoldReason => reason === "hint" || reason === "retryBudget"

/**
 * Price of a retry after a fault that says nothing of load: what one success brings pays for it, so that a provider which
 * fails half of the calls by chance makes nobody wait. After an overload or a rate limit it pays for half a retry.
 */
const lightPrice = 0.5

const priceOf = (fault: Faulted): number =>
  fault.kind === "overloaded" || fault.kind === "rate_limited" ? 1 : lightPrice

/** A retry after a wait that the server named needs no token: the server has said when it may come. */
const namedByServer: ReadonlyArray<HoldReason> = ["retryBudget"]

const hasHint = (fault: Faulted): boolean => fault.hints.some((hint) => hint._tag !== "Invalid")

/** The memory after an attempt or a hold. */
export const afterOutcome = (holds: Holds, route: number, outcome: Outcome): Holds => {
  switch (outcome._tag) {
    case "Faulted":
      return {
        failedOn: route,
        price: priceOf(outcome),
        waitedFor: hasHint(outcome) && !holds.obeyed ? namedByServer : [],
        obeyed: holds.obeyed || hasHint(outcome),
        place: null
      }
    case "Held":
      return outcome.other === null && isServed(outcome.reason)
        ? { ...holds, waitedFor: [...holds.waitedFor, outcome.reason] }
        : outcome.other === null
          ? holds
          : { ...holds, place: null }
    case "Completed":
    case "Refused":
    case "Truncated":
    case "PromptTooLong":
      return noHolds
    default:
      return holds
  }
}

/**
 * Whether the request would rather be elsewhere although its own route takes it: with the way back open
 * (`fallbackScope: "health"`) when it starts on a fallback, and when a run of failures is long enough for a switch but
 * the last route is reached.
 */
const wantsAway = (policy: RecoveryPolicy, state: RecoveryState): boolean => {
  if (policy.fallbackScope !== "health" || policy.routes.length < 2) return false
  if (state.attempts === 0) return state.route > 0
  const { run } = state
  const limit =
    run === null || run.class === "empty" || run.class === "sample" ? undefined : policy.fallbackAfter[run.class]
  return run !== null && limit !== undefined && run.count >= limit
}

/** A retry token is a matter of the own route alone, and so is a hint, unless rate limits lead to a fallback. */
const leavesFor = (policy: RecoveryPolicy): ReadonlyArray<HoldReason> => {
  if (policy.routes.length < 2) return []
  return policy.fallbackAfter.rateLimit === undefined ? ["breaker", "ramp"] : ["breaker", "ramp", "hint", "pace"]
}

/** Who asks for a route before the next attempt. */
export const askerOf = (policy: RecoveryPolicy, state: RecoveryState, holds: Holds): Asker => ({
  own: state.route,
  priority: state.background ? "background" : "foreground",
  failedOn: holds.failedOn,
  price: holds.price,
  waitedFor: holds.waitedFor,
  place: holds.place,
  prefers: wantsAway(policy, state) ? "others" : "own",
  leavesFor: leavesFor(policy),
  deadline: endOf(state)
})

/** What the machine hears of an admission; null = the attempt goes, on the route it is planned on. */
export const heldBy = (admission: Admission, now: number): HeldOutcome | null => {
  switch (admission._tag) {
    case "Go":
      return admission.left === null
        ? null
        : { _tag: "Held", untilMillis: now, reason: admission.left, other: admission.candidate }
    case "Held":
      return { _tag: "Held", untilMillis: admission.untilMillis, reason: admission.reason, other: null }
    case "Shed":
      return { _tag: "Held", untilMillis: now, reason: "shed", other: null }
  }
}

/** How an attempt left: the number of its probe (null = it is none), its place, when, and whether a limiter set its pace. */
export interface Leave {
  readonly ticket: number | null
  readonly place: number
  readonly since: number
  readonly isPaced: boolean
}

/** What an outcome of an attempt tells of its route; null = it was no attempt. */
export const signalOf = (
  config: RouteHealthConfig,
  policy: RecoveryPolicy,
  outcome: Outcome,
  { ticket, place, since }: Leave,
  { now, wall }: Pick<Tick, "now" | "wall">,
  holds: Holds
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
      const told = firstHint(outcome, wall)
      const hintMillis = hintForOthers(told, holds)
      const group = runClassOf(policy, outcome)
      if (group === "rateLimit") {
        const refusal =
          told === null || told <= 0
            ? null
            : { hintMillis: told, place, tookMillis: now - since, isAgain: holds.obeyed }
        return { _tag: "RateLimited", ticket, hintMillis, refusal }
      }
      if (group === null || group === "overflow" || group === "empty" || group === "sample")
        return { _tag: "Accepted", ticket }
      return config.counts.includes(group) ? { _tag: "Failed", ticket, hintMillis } : { _tag: "Released", ticket }
    }
    default:
      return null
  }
}

/**
 * The hint as evidence that others would be refused, too: a long one, and one that comes after a wait the server asked
 * for. A short one is a matter of the call that was given it; null = none.
 */
const hintForOthers = (millis: number | null, holds: Holds): number | null =>
  millis !== null && (millis > shortHintMillis || holds.obeyed) ? millis : null

const firstHint = (fault: Faulted, wall: number): number | null => {
  for (const hint of fault.hints) {
    const millis = waitOf(hint, wall)
    if (millis !== null) return millis
  }
  return null
}

/** The outcome with what route health says to it: the route that takes the request now, and whether its calls are paced. */
export const withAnswer = (outcome: Outcome, wayOut: number | null, isPaced: boolean): Outcome =>
  outcome._tag !== "Faulted" || (wayOut === null && !isPaced)
    ? outcome
    : { ...outcome, other: wayOut, ...(isPaced ? { paced: true } : {}) }

/** The memory with the place that a held request waits for. */
export const withPlace = (holds: Holds, admission: Admission): Holds =>
  admission._tag === "Held" && admission.place !== null ? { ...holds, place: admission.place } : holds
