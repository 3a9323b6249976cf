/**
 * Route health that several processes share. The rules run here, over what the store holds: a question over all its
 * candidates goes out as one operation with its answer in it, and counts when nobody else has written meanwhile; else it is
 * answered anew from what they wrote. Questions that wait for each other go out together. While the store is away, or slow,
 * the process goes on with what it knows.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { RouteHealthConfig } from "../../../domain/recovery/RouteHealthConfig.ts"
import type { Tick } from "../../../domain/recovery/Tick.ts"
import { admit, report, type Admission } from "../../../domain/route/Admission.ts"
import { initial, RouteHealth } from "../../../domain/route/RouteHealth.ts"
import { HealthStore, type Candidates, type HealthStoreShape, type RouteKey } from "../../../services/HealthStore.ts"
import { SharedStore, type SharedStoreShape, type Swapped, type Versioned } from "../../../services/SharedStore.ts"
import { safeText } from "./safeText.ts"

export interface HealthSharedOptions {
  /** Most routes this process remembers; the one that was used longest ago is forgotten first. Default 1,000. */
  readonly maxRoutes?: number
}

const defaultMaxRoutes = 1_000
/** How long a request waits for the store: with the rest of an answer under 250 ms. */
const patienceMillis = 200
/** What nobody has written for so long is forgotten by the store: the longest hint that holds others is 10 minutes. */
const keepMillis = 1_800_000
/** Processes that write at the same time answer anew so often; then the answer goes without being told. */
const tries = 6

/** `version` and `base` = as the store has it; `health` = with what this process has not told yet. */
interface Known {
  readonly version: number
  readonly base: RouteHealth | null
  readonly health: RouteHealth | null
}

const unknownRoute: Known = { version: 0, base: null, health: null }

/** A question or a report, over the healths of its candidates. It may be answered several times; the last answer counts. */
interface Ask {
  readonly keys: ReadonlyArray<RouteKey>
  readonly config: RouteHealthConfig
  readonly tick: Tick
  /** `now` and the healths are by the store's clock. Returns the healths after it. */
  readonly answer: (healths: ReadonlyArray<RouteHealth>, tick: Tick) => ReadonlyArray<RouteHealth>
  readonly isAnswered: Deferred.Deferred<void>
}

const codec = Schema.fromJsonString(RouteHealth)
const encode = Schema.encodeSync(codec)
const decode = Schema.decodeUnknownResult(codec)

/** What another release has written in a form of its own is not known. */
const read = ({ version, value }: Versioned): Known => {
  const health = value === null ? null : Result.getOrElse(decode(value), () => null)
  return { version, base: health, health }
}

/** What this process knows of routes. A Map iterates in order of insertion: the route used longest ago is first. */
const makeMemory = (maxRoutes: number) => {
  const table = new Map<RouteKey, Known>()
  return {
    get: (key: RouteKey): Known => table.get(key) ?? unknownRoute,
    put: (key: RouteKey, known: Known): void => {
      table.delete(key)
      table.set(key, known)
    },
    trim: (inUse: number): void => {
      for (const oldest of table.keys()) {
        if (table.size <= Math.max(maxRoutes, inUse)) break
        table.delete(oldest)
      }
    }
  }
}

type Memory = ReturnType<typeof makeMemory>

/** Answers all of them, one after the other, over a copy of what is known. */
const answerAll = (memory: Memory, asks: ReadonlyArray<Ask>, shift: number): ReadonlyMap<RouteKey, RouteHealth> => {
  const after = new Map<RouteKey, RouteHealth>()
  for (const { keys, config, tick, answer } of asks) {
    const now = tick.now + shift
    const healths = keys.map((key) => after.get(key) ?? memory.get(key).health ?? initial(config, now))
    for (const [index, health] of answer(healths, { ...tick, now }).entries()) {
      const key = keys[index]
      if (key !== undefined && health !== healths[index]) after.set(key, health)
    }
  }
  return after
}

/** What the store has to hear: what these asks have changed, and what it has not heard before. */
const writesOf = (memory: Memory, keys: ReadonlyArray<RouteKey>, after: ReadonlyMap<RouteKey, RouteHealth>) =>
  keys.flatMap((key) => {
    const { base, health } = memory.get(key)
    const value = after.get(key) ?? (health === base ? null : health)
    return value === null ? [] : [{ key, health: value }]
  })

const makeKeeper = (store: SharedStoreShape, memory: Memory) => {
  // Added to an instant of this process's clock it gives the store's; the host's wall clock until the store has answered.
  let shift: number | null = null

  const monotonic = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

  const learn = (swapped: Swapped, sentAt: number, heardAt: number): void => {
    shift = swapped.atMillis - (sentAt + heardAt) / 2
    for (const one of swapped.current) memory.put(one.key, read(one))
  }

  const alone = (asks: ReadonlyArray<Ask>, by: number): void => {
    for (const [key, health] of answerAll(memory, asks, by)) memory.put(key, { ...memory.get(key), health })
  }

  /** Asks the store with the answers made; true = they count. */
  const once = (asks: ReadonlyArray<Ask>, keys: ReadonlyArray<RouteKey>, by: number) =>
    Effect.gen(function* () {
      const after = answerAll(memory, asks, by)
      const writes = writesOf(memory, keys, after)
      const sentAt = yield* monotonic
      const swapped = yield* store.swap(
        {
          known: keys.map((key) => ({ key, version: memory.get(key).version })),
          writes: writes.map(({ key, health }) => ({ key, value: encode(health) })),
          keepMillis
        },
        patienceMillis
      )
      learn(swapped, sentAt, yield* monotonic)
      if (!swapped.isDone) return false
      for (const { key, health } of writes)
        memory.put(key, { version: memory.get(key).version + 1, base: health, health })
      return true
    })

  const settle = (asks: ReadonlyArray<Ask>): Effect.Effect<void> =>
    Effect.gen(function* () {
      const keys = [...new Set(asks.flatMap((ask) => ask.keys))]
      const [first] = asks
      const byWall = first === undefined ? 0 : first.tick.wall - first.tick.now
      for (let turn = 0; turn < tries; turn += 1) {
        const isDone = yield* once(asks, keys, shift ?? byWall).pipe(Effect.orElseSucceed(() => null))
        if (isDone === true) return
        if (isDone === null) break
      }
      alone(asks, shift ?? byWall)
    })

  return {
    alone: (ask: Ask): void => alone([ask], shift ?? ask.tick.wall - ask.tick.now),
    settle: (asks: ReadonlyArray<Ask>): Effect.Effect<void> =>
      Effect.andThen(settle(asks), () =>
        Effect.forEach(
          asks,
          (ask) => {
            memory.trim(ask.keys.length)
            return Deferred.succeed(ask.isAnswered, undefined)
          },
          { discard: true }
        )
      )
  }
}

/** The questions as they are asked of the store, by its clock, and the answers by the caller's. */
const shapeOf = (ask: (asked: Omit<Ask, "isAnswered">) => Effect.Effect<void>, process: string): HealthStoreShape => {
  // A route whose client is an object of this process alone (`#3`) is nobody else's.
  const keysOf = (candidates: Candidates["candidates"]): ReadonlyArray<RouteKey> =>
    candidates.map((key) => safeText(/#\d+\u0000/.test(key) ? `${key} ${process}` : key))
  return {
    admit: ({ candidates, config, asker }, tick) =>
      Effect.suspend(() => {
        let admission: Admission = { _tag: "Shed" }
        const answer: Ask["answer"] = (healths, at) => {
          const ahead = at.now - tick.now
          const deadline = asker.deadline === null ? null : asker.deadline + ahead
          const next = admit(config, healths, { ...asker, deadline }, at)
          admission = next.admission
          if (admission._tag === "Held") admission = { ...admission, untilMillis: admission.untilMillis - ahead }
          return next.healths
        }
        return Effect.map(ask({ keys: keysOf(candidates), config, tick, answer }), () => admission)
      }),
    report: ({ candidates, config, reporter, signal }, tick) =>
      Effect.suspend(() => {
        let wayOut: number | null = null
        const answer: Ask["answer"] = (healths, at) => {
          const next = report(config, healths, reporter, signal, at)
          wayOut = next.wayOut
          return next.healths
        }
        return Effect.map(ask({ keys: keysOf(candidates), config, tick, answer }), () => wayOut)
      })
  }
}

export const make = (
  options: HealthSharedOptions = {}
): Effect.Effect<HealthStoreShape, never, SharedStore | Scope.Scope> =>
  Effect.gen(function* () {
    const keeper = makeKeeper(yield* SharedStore, makeMemory(options.maxRoutes ?? defaultMaxRoutes))
    const waiting = yield* Queue.unbounded<Ask>()
    let isOpen = true
    const ask = (given: Omit<Ask, "isAnswered">): Effect.Effect<void> =>
      Effect.suspend(() => {
        const one: Ask = { ...given, isAnswered: Deferred.makeUnsafe<void>() }
        if (!isOpen) return Effect.sync(() => keeper.alone(one))
        Queue.offerUnsafe(waiting, one)
        return Deferred.await(one.isAnswered)
      })
    yield* Effect.forkScoped(
      Effect.forever(Effect.flatMap(Queue.takeAll(waiting), (asks) => Effect.uninterruptible(keeper.settle(asks))))
    )
    // Nobody waits for an answer that does not come any more.
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        isOpen = false
        return Effect.flatMap(Queue.clear(waiting), keeper.settle)
      })
    )
    return shapeOf(ask, crypto.randomUUID())
  })

/** The health of every route used below it. */
export const layer = (options: HealthSharedOptions = {}): Layer.Layer<never, never, SharedStore> =>
  Layer.effect(HealthStore, make(options))
