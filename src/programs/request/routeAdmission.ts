/** Carries one logical request's questions and reports to route health, and keeps the place it was given. */
import * as Effect from "effect/Effect"
import type { Outcome } from "../../domain/recovery/Outcome.ts"
import type { RecoveryPolicy, Route } from "../../domain/recovery/RecoveryPolicy.ts"
import type { RecoveryState } from "../../domain/recovery/RecoveryState.ts"
import type { Tick } from "../../domain/recovery/Tick.ts"
import type { Signal } from "../../domain/route/RouteHealth.ts"
import {
  afterOutcome,
  askerOf,
  heldBy,
  noHolds,
  signalOf,
  withAnswer,
  withPlace,
  type HeldOutcome,
  type Leave
} from "../../domain/route/RouteQuestion.ts"
import type { HealthStoreShape, RouteKey } from "../../services/HealthStore.ts"

export interface RouteAdmission {
  /** Before an attempt; null = go. */
  readonly admit: (state: RecoveryState, tick: Tick) => Effect.Effect<HeldOutcome | null>
  /** As soon as the provider has taken the call (headers or the first event): a probe need not wait for the reply's end. */
  readonly accepted: (tick: Tick) => Effect.Effect<void>
  /** After an attempt or a hold, before the transition from `state`; the outcome with route health's answer in it. */
  readonly observe: (state: RecoveryState, outcome: Outcome, tick: Tick) => Effect.Effect<Outcome>
  /** When the request ends in any way, also by interruption: gives a probe's place back. */
  readonly release: (tick: Tick) => Effect.Effect<void>
}

/** An attempt's place: its route, how it was admitted and when, and whether route health has heard of it. */
interface Place extends Leave {
  readonly own: number
  readonly isAccepted: boolean
}

/** Key of a route by the name of its client: enough where one set of clients is all there is. */
const keyByName = (route: Route): RouteKey => `${route.client ?? ""}\u0000${route.model}`

/** The provider has worked on the whole of a reply. */
const isWhole = (outcome: Outcome): boolean => outcome._tag === "Completed" || outcome._tag === "Truncated"

/** null when the policy has route health off. */
export const makeRouteAdmission = (
  policy: RecoveryPolicy,
  store: HealthStoreShape,
  key: (route: Route) => RouteKey = keyByName
): RouteAdmission | null => {
  const config = policy.routeHealth
  if (config === null) return null
  const candidates = policy.routes.map(key)
  let holds = noHolds
  /** The attempt that may go or is under way: its route, its probe's ticket, and whether it was accepted. */
  let place: Place | null = null
  let priority: "foreground" | "background" = "foreground"

  const tell = (own: number, signal: Signal, tick: Tick): Effect.Effect<number | null> =>
    store.report({ candidates, config, reporter: { own, priority }, signal }, tick)

  return {
    admit: (state, tick) =>
      Effect.suspend(() => {
        // The way here was a place on this route: it is the request's own already.
        if (place !== null && place.own === state.route) return Effect.succeed(null)
        const asker = askerOf(policy, state, holds)
        priority = asker.priority
        // A place is noted in the step that takes it: none is taken that nobody gives back.
        return Effect.uninterruptible(
          Effect.map(store.admit({ candidates, config, asker }, tick), (admission) => {
            if (admission._tag === "Go") {
              const { candidate, ticket, place: number, isPaced } = admission
              place = { own: candidate, ticket, place: number, isPaced, isAccepted: false, since: tick.now }
            }
            holds = withPlace(holds, admission)
            return heldBy(admission, tick.now)
          })
        )
      }),
    accepted: (tick) =>
      Effect.suspend(() => {
        if (place === null || place.isAccepted) return Effect.void
        const { own, ticket } = place
        place = { ...place, ticket: null, isAccepted: true }
        return Effect.asVoid(tell(own, { _tag: "Accepted", ticket }, tick))
      }),
    observe: (state, outcome, tick) =>
      Effect.suspend(() => {
        const signal = place === null ? null : signalOf(config, policy, outcome, place, tick, holds)
        holds = afterOutcome(holds, state.route, outcome)
        if (place === null || signal === null) return Effect.succeed(outcome)
        const { own, isAccepted, since, isPaced } = place
        place = null
        const told = signal._tag === "Accepted" && isAccepted ? Effect.succeed(null) : tell(own, signal, tick)
        const served = isWhole(outcome) ? tell(own, { _tag: "Served", millis: tick.now - since }, tick) : null
        return Effect.map(served === null ? told : Effect.andThen(told, served), (wayOut) =>
          withAnswer(outcome, wayOut, isPaced)
        )
      }),
    release: (tick) =>
      Effect.suspend(() => {
        if (place === null) return Effect.void
        const { own, ticket } = place
        place = null
        return Effect.asVoid(tell(own, { _tag: "Released", ticket }, tick))
      })
  }
}
