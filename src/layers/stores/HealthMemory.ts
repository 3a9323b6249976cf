/**
 * Route health in the memory of this process: the health of every route its requests have used. Each operation is one
 * synchronous step, so any number of fibers may share it; nobody waits inside, and nothing but a probe's place is ever
 * held.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { RouteHealthConfig } from "../../domain/recovery/RouteHealthConfig.ts"
import { admit, report } from "../../domain/route/Admission.ts"
import { initial, type RouteHealth } from "../../domain/route/RouteHealth.ts"
import { HealthStore, type HealthStoreShape, type RouteKey } from "../../services/HealthStore.ts"

export interface HealthMemoryOptions {
  /** Most routes remembered; the one that was used longest ago is forgotten first. Default 1,000. */
  readonly maxRoutes?: number
}

type Table = Map<RouteKey, RouteHealth>

const defaultMaxRoutes = 1_000

/** A memory of its own. */
export const make = (options: HealthMemoryOptions = {}): HealthStoreShape => {
  const maxRoutes = options.maxRoutes ?? defaultMaxRoutes
  // Instants of different clocks cannot be compared: each clock (a virtual one, too) has routes of its own.
  const tables = new WeakMap<Clock.Clock, Table>()

  const tableOf = (clock: Clock.Clock): Table => {
    const known = tables.get(clock)
    if (known !== undefined) return known
    const table: Table = new Map()
    tables.set(clock, table)
    return table
  }

  const healthsOf = (
    table: Table,
    keys: ReadonlyArray<RouteKey>,
    config: RouteHealthConfig,
    now: number
  ): ReadonlyArray<RouteHealth> => keys.map((key) => table.get(key) ?? initial(config, now))

  /** Invariant: a Map iterates in order of insertion, so the route that was used longest ago is first. */
  const put = (table: Table, keys: ReadonlyArray<RouteKey>, healths: ReadonlyArray<RouteHealth>): void => {
    for (const [index, key] of keys.entries()) {
      const health = healths[index]
      if (health === undefined) continue
      if (table.size > 1) table.delete(key)
      table.set(key, health)
    }
    for (const oldest of table.keys()) {
      if (table.size <= Math.max(maxRoutes, keys.length)) break
      table.delete(oldest)
    }
  }

  return {
    admit: ({ candidates, config, asker }, tick) =>
      Effect.withFiberSucceed((fiber) => {
        const table = tableOf(fiber.getRef(Clock.Clock))
        const next = admit(config, healthsOf(table, candidates, config, tick.now), asker, tick)
        put(table, candidates, next.healths)
        return next.admission
      }),
    report: ({ candidates, config, reporter, signal }, tick) =>
      Effect.withFiberSucceed((fiber) => {
        const table = tableOf(fiber.getRef(Clock.Clock))
        const next = report(config, healthsOf(table, candidates, config, tick.now), reporter, signal, tick)
        put(table, candidates, next.healths)
        return next.wayOut
      })
  }
}

/** The memory that every recovery of this process shares unless it is given another. */
export const ofProcess: HealthStoreShape = make()

/** A fresh memory each time the layer is built. */
export const layer = (options: HealthMemoryOptions = {}): Layer.Layer<never> =>
  Layer.sync(HealthStore, () => make(options))
