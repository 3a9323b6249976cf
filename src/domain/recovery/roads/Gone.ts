/**
 * A route that is not there: its model is retired, its key refused, its credit used up. The request leaves it out and goes
 * on with another one, if there is one that was only busy or was not asked yet. Pure; milliseconds.
 */
import type { FaultKind } from "../../failure/FaultKind.ts"
import type { Faulted } from "../Outcome.ts"
import { routeAt, type RecoveryPolicy } from "../RecoveryPolicy.ts"
import { endOf, type RecoveryState } from "../RecoveryState.ts"
import type { Tick } from "../Tick.ts"
import { to, type Transition } from "../Transition.ts"

/** Kinds that speak of key or account: a route over the same client has the same. */
const ofClient: ReadonlyArray<FaultKind> = ["auth", "quota_exhausted"]

/** Whether a fallback answered that it cannot serve: any refusal, since the primary was only busy. */
const isGoneFallback = ({ kind, status }: Faulted): boolean =>
  status !== null &&
  (kind === "not_found" || kind === "permission" || kind === "invalid_request" || ofClient.includes(kind))

const isGonePrimary = (policy: RecoveryPolicy, { kind, status }: Faulted): boolean =>
  status !== null && policy.fallbackAfter.gone !== undefined && (kind === "not_found" || ofClient.includes(kind))

/**
 * Whether a fault only says that its fallback cannot serve, while a route before it was busy: what is told of the request
 * is then that route's failure.
 */
export const isPutAside = (state: RecoveryState, fault: Faulted): boolean =>
  isGoneFallback(fault) && Array.from({ length: state.route }, (_, at) => at).some((at) => !state.gone.includes(at))

/** The route to go on with: the next later one, else the earliest that is not gone; null = none. */
const nextOf = (policy: RecoveryPolicy, state: RecoveryState, fault: Faulted): number | null => {
  const gone = routeAt(policy, state.route)
  const isUsable = (at: number): boolean =>
    at !== state.route &&
    !state.gone.includes(at) &&
    // A route that was only busy has shown that its client is taken.
    (at < state.route || !ofClient.includes(fault.kind) || routeAt(policy, at).client !== gone.client)
  const usable = [...policy.routes.keys()].filter(isUsable)
  return usable.find((at) => at > state.route) ?? usable[0] ?? null
}

/** null = the route is not gone, or nothing is left: the failure is handed on. */
export const onGone = (policy: RecoveryPolicy, state: RecoveryState, fault: Faulted, tick: Tick): Transition | null => {
  if (fault.shouldRetry === false && state.route === 0) return null
  const isGone = state.route === 0 ? isGonePrimary(policy, fault) : isGoneFallback(fault)
  const target = isGone ? nextOf(policy, state, fault) : null
  const transients = state.transients + 1
  if (target === null || tick.backoffMillis === null || policy.retry.length === 0) return null
  if (policy.maxAttempts !== null && transients >= policy.maxAttempts) return null
  // A route that was busy gets the wait it would have had; one that was not asked yet is asked at once.
  const delayMillis = target < state.route ? tick.backoffMillis : 0
  const end = endOf(state)
  if (end !== null && tick.now + delayMillis >= end) return null
  return to(
    { ...state, transients, route: target, gone: [...state.gone, state.route], run: null, hintsInVain: 0 },
    {
      _tag: "Fallback",
      delayMillis,
      origin: delayMillis === 0 ? "none" : "backoff",
      shown: "none",
      from: routeAt(policy, state.route).model,
      to: routeAt(policy, target).model,
      why: "gone"
    }
  )
}
