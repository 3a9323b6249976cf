/**
 * Route health shared by requests: asked once before every attempt and told once how it went, each over all routes the
 * request may use. `null` (the default) is the memory of this process; a layer may put another one in its place, also
 * one outside the process: each operation is one step that no other may come between.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { RouteHealthConfig } from "../domain/recovery/RouteHealthConfig.ts"
import type { Tick } from "../domain/recovery/Tick.ts"
import type { Admission, Asker } from "../domain/route/Admission.ts"
import type { Signal } from "../domain/route/RouteHealth.ts"

/** Names a route: provider, key and model. Two requests with one key share one health. Never the key itself. */
export type RouteKey = string

/** Routes a request may use, in the order of its policy, and the settings of their health. */
export interface Candidates {
  readonly candidates: ReadonlyArray<RouteKey>
  readonly config: RouteHealthConfig
}

export interface AdmissionQuestion extends Candidates {
  readonly asker: Asker
}

/** How an attempt went on the candidate `reporter.own`. */
export interface RouteReport extends Candidates {
  readonly reporter: Pick<Asker, "own" | "priority">
  readonly signal: Signal
}

export interface HealthStoreShape {
  /** Which candidate the request may use now. Never fails, never waits. A probe holds a place until its ticket is reported. */
  readonly admit: (question: AdmissionQuestion, tick: Tick) => Effect.Effect<Admission>
  /** The candidate that takes the request now while the breaker of its own one is open; null = none, or it is not open. */
  readonly report: (report: RouteReport, tick: Tick) => Effect.Effect<number | null>
}

export const HealthStore = Context.Reference<HealthStoreShape | null>("holdfast/HealthStore", {
  defaultValue: () => null
})
