/**
 * Route health shared by all requests of a process. Asked before every attempt and told how it went. The default is a
 * memory of this process; a layer may put another one in its place.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { RouteHealthConfig } from "../domain/recovery/RouteHealthConfig.ts"
import type { Admission, Asker, Signal } from "../domain/route/RouteHealth.ts"
import type { Tick } from "../domain/recovery/Tick.ts"
import { makeHealthTable } from "./healthTable.ts"

/** Names a route: provider, key and model. Two requests with one key share one health. Never the key itself. */
export type RouteKey = string

export interface Visitor {
  /** Default: a first attempt in the foreground. */
  readonly asker?: Asker
  /** Settings of the route from now on. Default: those it has. */
  readonly config?: RouteHealthConfig
}

export interface HealthStoreShape {
  /** Whether the route takes a call now. Never fails, never waits. A Probe holds a place until its ticket is observed. */
  readonly admit: (key: RouteKey, tick: Tick, visitor?: Visitor) => Effect.Effect<Admission>
  readonly observe: (key: RouteKey, signal: Signal, tick: Tick) => Effect.Effect<void>
}

export const HealthStore = Context.Reference<HealthStoreShape>("holdfast/HealthStore", {
  defaultValue: () => makeHealthTable()
})
