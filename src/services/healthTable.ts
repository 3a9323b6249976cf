/**
 * The memory behind HealthStore: the health of every route a process has used. Each operation is one synchronous step,
 * so any number of fibers may share it; nobody waits inside, and nothing but a probe's place is ever held.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { RouteHealthConfig } from "../domain/recovery/RouteHealthConfig.ts"
import * as RouteHealth from "../domain/route/RouteHealth.ts"
import type { HealthStoreShape, RouteKey } from "./HealthStore.ts"

export interface HealthTableOptions {
  /** Most routes remembered; the one that was asked for longest ago is forgotten first. Default 1,000. */
  readonly maxRoutes?: number
  /** Settings of routes whose callers bring none. */
  readonly config?: RouteHealthConfig
}

interface Entry {
  config: RouteHealthConfig
  health: RouteHealth.RouteHealth
}

type Table = Map<RouteKey, Entry>

const defaultMaxRoutes = 1_000

export const makeHealthTable = (options: HealthTableOptions = {}): HealthStoreShape => {
  const maxRoutes = options.maxRoutes ?? defaultMaxRoutes
  const fallbackConfig = options.config ?? RouteHealthConfig.defaults
  // Instants of different clocks cannot be compared: each clock (a virtual one, too) has routes of its own.
  const tables = new WeakMap<Clock.Clock, Table>()

  const tableOf = (clock: Clock.Clock): Table => {
    const known = tables.get(clock)
    if (known !== undefined) return known
    const table: Table = new Map()
    tables.set(clock, table)
    return table
  }

  /** The entry of a route, as the one used last. Invariant: a Map iterates in order of insertion, so the oldest is first. */
  const touch = (table: Table, key: RouteKey, config: RouteHealthConfig | null, now: number): Entry => {
    const known = table.get(key)
    const entry = known ?? {
      config: config ?? fallbackConfig,
      health: RouteHealth.initial(config ?? fallbackConfig, now)
    }
    if (config !== null) entry.config = config
    if (known !== undefined && table.size === 1) return known
    table.delete(key)
    table.set(key, entry)
    if (table.size > maxRoutes)
      for (const oldest of table.keys()) {
        table.delete(oldest)
        break
      }
    return entry
  }

  return {
    admit: (key, tick, visitor) =>
      Effect.withFiberSucceed((fiber) => {
        const entry = touch(tableOf(fiber.getRef(Clock.Clock)), key, visitor?.config ?? null, tick.now)
        const next = RouteHealth.admit(entry.config, entry.health, tick, visitor?.asker)
        entry.health = next.health
        return next.admission
      }),
    observe: (key, signal, tick) =>
      Effect.withFiberSucceed((fiber) => {
        const entry = touch(tableOf(fiber.getRef(Clock.Clock)), key, null, tick.now)
        entry.health = RouteHealth.observe(entry.config, entry.health, signal, tick)
      })
  }
}
