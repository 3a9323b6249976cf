/** Route health that remembers what it last said of each route, for the page that shows it. */
import * as Effect from "effect/Effect"
import type { HealthStoreShape, RouteKey } from "../../../services/HealthStore.ts"

/** What health last said of a model's route. */
export type RouteState = "closed" | "open" | "ramp"

/** Routes that are remembered; callers choose the names of models, so that there is no other bound. */
const keptStates = 500

const stateOf = (isClosed: boolean): RouteState => (isClosed ? "closed" : "ramp")

export interface WatchedHealth {
  readonly store: HealthStoreShape
  /** The latest last. */
  readonly states: ReadonlyMap<RouteKey, RouteState>
}

export const watchedHealth = (store: HealthStoreShape): WatchedHealth => {
  const states = new Map<RouteKey, RouteState>()
  const put = (key: RouteKey, state: RouteState): void => {
    if (states.get(key) === state) return
    states.delete(key)
    states.set(key, state)
    for (const oldest of states.keys()) {
      if (states.size <= keptStates) break
      states.delete(oldest)
    }
  }
  return {
    states,
    store: {
      admit: (question, tick) =>
        Effect.map(store.admit(question, tick), (admission) => {
          const own = question.candidates[question.asker.own] ?? ""
          if (admission._tag === "Go") {
            put(question.candidates[admission.candidate] ?? "", stateOf(admission.ticket === null))
            if (admission.left === "breaker") put(own, "open")
          } else if (admission._tag === "Shed" || admission.reason === "breaker") put(own, "open")
          return admission
        }),
      report: (report, tick) =>
        Effect.map(store.report(report, tick), (wayOut) => {
          if (wayOut !== null) put(report.candidates[report.reporter.own] ?? "", "open")
          return wayOut
        })
    }
  }
}
