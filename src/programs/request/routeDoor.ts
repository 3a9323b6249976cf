/** Takes one logical request to the doors of its routes, and tells route health how its attempts went. */
import * as Effect from "effect/Effect"
import type { Outcome } from "../../domain/recovery/Outcome.ts"
import { routeAt, type RecoveryPolicy, type Route } from "../../domain/recovery/RecoveryPolicy.ts"
import { endOf, type RecoveryState } from "../../domain/recovery/RecoveryState.ts"
import {
  afterOutcome,
  askDoors,
  askToLeave,
  firstVisit,
  signalOf,
  type HeldOutcome,
  type Knock,
  type Visit
} from "../../domain/route/RouteChoice.ts"
import type { Admission, Asker, Signal } from "../../domain/route/RouteHealth.ts"
import type { Tick } from "../../domain/recovery/Tick.ts"
import type { HealthStoreShape, RouteKey } from "../../services/HealthStore.ts"

export interface RouteDoor {
  /** Before an attempt; null = go. */
  readonly admit: (state: RecoveryState, tick: Tick) => Effect.Effect<HeldOutcome | null>
  /** After `observe`, before the wait of a Retry; not null = a route that is open takes the request now. */
  readonly leave: (state: RecoveryState, tick: Tick) => Effect.Effect<HeldOutcome | null>
  /** As soon as the provider has taken the call (headers or the first event): a probe need not wait for the reply's end. */
  readonly accepted: (state: RecoveryState, tick: Tick) => Effect.Effect<void>
  /** After an attempt or a wait; `state` is the one before the transition. */
  readonly observe: (state: RecoveryState, outcome: Outcome, tick: Tick) => Effect.Effect<void>
  /** When the request ends in any way, also by interruption: gives a probe's place back. */
  readonly release: (tick: Tick) => Effect.Effect<void>
}

/** Key of a route by the name of its client: enough where one set of clients is all there is. */
const keyByName = (route: Route): RouteKey => `${route.client ?? ""}\u0000${route.model}`

/** null when the policy has route health off. */
export const makeRouteDoor = (
  policy: RecoveryPolicy,
  store: HealthStoreShape,
  key: (route: Route) => RouteKey = keyByName
): RouteDoor | null => {
  const config = policy.routeHealth
  if (config === null) return null
  let visit: Visit = firstVisit
  /** The attempt under way: its route, its probe's ticket, and whether it was accepted. */
  let attempt: { readonly route: number; readonly ticket: number | null; accepted: boolean } | null = null

  const keyAt = (route: number): RouteKey => key(routeAt(policy, route))

  const tell = (route: number, signal: Signal, tick: Tick): Effect.Effect<void> =>
    store.observe(keyAt(route), signal, tick)

  /** Asks one door and notes a probe's ticket in the same uninterruptible step: no place is taken that nobody gives back. */
  const knock = (route: number, asker: Asker, tick: Tick): Effect.Effect<Admission> =>
    Effect.uninterruptible(
      Effect.map(store.admit(keyAt(route), tick, { asker, config }), (admission) => {
        if (admission._tag === "Probe" && !asker.looks) attempt = { route, ticket: admission.ticket, accepted: false }
        return admission
      })
    )

  /** Asks until there is an answer. No generator of Effect's: this is on the way of every healthy call. */
  const drive = <A>(questions: Generator<Knock, A, Admission>, tick: Tick): Effect.Effect<A> => {
    const follow = (step: IteratorResult<Knock, A>): Effect.Effect<A> =>
      step.done === true
        ? Effect.succeed(step.value)
        : Effect.flatMap(knock(step.value.route, step.value.asker, tick), (admission) =>
            follow(questions.next(admission))
          )
    return follow(questions.next())
  }

  const admit = (state: RecoveryState, tick: Tick): Effect.Effect<HeldOutcome | null> =>
    Effect.suspend(() =>
      Effect.map(drive(askDoors(policy, state, visit, endOf(state), tick.now), tick), (answer) => {
        if (answer._tag === "Kept") return answer.outcome
        attempt = { route: state.route, ticket: answer.ticket, accepted: false }
        return null
      })
    )

  return {
    admit,
    leave: (state, tick) => Effect.suspend(() => drive(askToLeave(policy, state, visit, tick.now), tick)),
    accepted: (_state, tick) =>
      Effect.suspend(() => {
        if (attempt === null || attempt.accepted) return Effect.void
        const { route, ticket } = attempt
        attempt = { route, ticket: null, accepted: true }
        return tell(route, { _tag: "Accepted", ticket }, tick)
      }),
    observe: (state, outcome, tick) =>
      Effect.suspend(() => {
        visit = afterOutcome(visit, state.route, outcome)
        if (attempt === null) return Effect.void
        const signal = signalOf(config, policy, outcome, attempt.ticket, tick.wall)
        if (signal === null) return Effect.void
        const { route, accepted } = attempt
        attempt = null
        return signal._tag === "Accepted" && accepted ? Effect.void : tell(route, signal, tick)
      }),
    release: (tick) =>
      Effect.suspend(() => {
        if (attempt === null) return Effect.void
        const { route, ticket } = attempt
        attempt = null
        return tell(route, { _tag: "Released", ticket }, tick)
      })
  }
}
