/** What outlives a reload of the gateway: health, budgets, activity, metrics. */
import * as Context from "effect/Context"
import * as Metric from "effect/Metric"
import type { RecoveryEvent } from "../../../domain/recovery/RecoveryEvent.ts"
import * as RecoveryMetrics from "../../../layers/RecoveryMetrics.ts"
import * as HealthMemory from "../../../layers/stores/HealthMemory.ts"
import { HealthStore, type HealthStoreShape, type RouteKey } from "../../../services/HealthStore.ts"
import { makeActivity, type Activity } from "./Activity.ts"
import type { Budgets } from "./budgets.ts"
import { makeResponseOwners, type ResponseOwners } from "./ResponseOwners.ts"
import { watchedHealth, type RouteState } from "./WatchedHealth.ts"

export interface Shared {
  readonly activity: Activity
  readonly budgets: Budgets
  readonly context: Context.Context<never>
  readonly meter: (event: RecoveryEvent) => void
  readonly states: ReadonlyMap<RouteKey, RouteState>
  readonly owners: ResponseOwners
  readonly inFlight: () => number
  /** Bytes that are kept for clients that may come back. */
  readonly keptBytes: () => number
  readonly keepAliveMillis: number
}

/** Silence of a stream from which the client is shown that it lives: a proxy with 60 s lets four signs pass. */
const keepAliveMillis = 15_000

export const makeShared = (
  budgets: Budgets,
  inFlight: () => number,
  options: {
    readonly keepAliveMillis?: number
    readonly keptBytes?: () => number
    /** Default: this process's own memory. */
    readonly health?: HealthStoreShape | null
  } = {}
): Shared => {
  const { store, states } = watchedHealth(options.health ?? HealthMemory.make())
  const context = Context.make(HealthStore, store).pipe(Context.add(Metric.MetricRegistry, new Map()))
  return {
    activity: makeActivity(),
    budgets,
    context,
    meter: RecoveryMetrics.makeIn(context),
    states,
    owners: makeResponseOwners(),
    inFlight,
    keptBytes: options.keptBytes ?? (() => 0),
    keepAliveMillis: options.keepAliveMillis ?? keepAliveMillis
  }
}
