import { assert, it } from "@effect/vitest"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { RouteHealthConfig } from "../../../../src/domain/recovery/RouteHealthConfig.ts"
import type { Tick } from "../../../../src/domain/recovery/Tick.ts"
import { newcomer, type Asker } from "../../../../src/domain/route/Admission.ts"
import type { Signal } from "../../../../src/domain/route/RouteHealth.ts"
import * as HealthShared from "../../../../src/layers/stores/shared/HealthShared.ts"
import * as StoreSqlite from "../../../../src/layers/stores/shared/StoreSqlite.ts"
import type { HealthStoreShape } from "../../../../src/services/HealthStore.ts"
import { SharedStore, StoreAway, type SharedStoreShape, type Swap } from "../../../../src/services/SharedStore.ts"

const config = RouteHealthConfig.defaults
const failed: Signal = { _tag: "Failed", ticket: null, hintMillis: null }
const candidates = ["a#\u0000x", "b \u0000y"]

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "holdfast-health-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const tickNow = Effect.map(Effect.all([Clock.monotonicTimeNanos, Clock.currentTimeMillis]), ([nanos, wall]): Tick => ({
  now: Number(nanos) / 1e6,
  wall,
  backoffMillis: null,
  spread: 0.5,
  progressMillis: 0
}))

const admit = (store: HealthStoreShape, asker: Partial<Asker> = {}, keys = candidates) =>
  Effect.flatMap(tickNow, (tick) => store.admit({ candidates: keys, config, asker: { ...newcomer, ...asker } }, tick))

const tell = (store: HealthStoreShape, signal: Signal, keys = candidates) =>
  Effect.flatMap(tickNow, (tick) =>
    store.report({ candidates: keys, config, reporter: { own: 0, priority: "foreground" }, signal }, tick)
  )

/** Two processes over one store, the calls of each counted; a store may be cut off. */
const two = Effect.gen(function* () {
  const path = join(yield* folder, "shared.db")
  const part = () =>
    Effect.gen(function* () {
      const store = yield* StoreSqlite.make({ path })
      const swaps: Array<Swap> = []
      let isCut = false
      const shape: SharedStoreShape = {
        ...store,
        isAway: () => isCut,
        swap: (swap, patience) =>
          Effect.suspend(() => {
            swaps.push(swap)
            return isCut
              ? Effect.fail(new StoreAway({ store: "test", reason: "is away", isSent: false }))
              : store.swap(swap, patience)
          })
      }
      const health = yield* HealthShared.make({ maxRoutes: 50 }).pipe(
        Effect.provideService(SharedStore, SharedStore.of(shape))
      )
      return { health, swaps, cut: (next: boolean) => void (isCut = next) }
    })
  return [yield* part(), yield* part()] as const
})

it.effect("asks over all candidates in one call, and one more when another process has written", () =>
  Effect.gen(function* () {
    const [one, other] = yield* two
    yield* admit(one.health)
    yield* admit(one.health)
    assert.deepStrictEqual(
      one.swaps.map(({ known }) => known.length),
      [2, 2]
    )
    yield* tell(one.health, { _tag: "Accepted", ticket: null })
    yield* admit(one.health)
    assert.strictEqual(one.swaps.length, 4)
    yield* tell(other.health, { _tag: "Accepted", ticket: null })
    yield* admit(one.health)
    assert.strictEqual(one.swaps.length, 6)
  })
)

it.effect("holds the requests of one process for the failures of another, and lets one of them probe", () =>
  Effect.gen(function* () {
    const [one, other] = yield* two
    for (let turn = 0; turn < 4; turn += 1) yield* tell(one.health, failed, ["a\u0000x"])
    const held = yield* admit(other.health, {}, ["a\u0000x"])
    assert.strictEqual(held._tag === "Held" ? held.reason : held._tag, "breaker")
    const now = (yield* tickNow).now
    assert.isTrue(held._tag === "Held" && held.untilMillis > now && held.untilMillis < now + 60_000)
    yield* TestClock.adjust("10 seconds")
    const [first, second] = [yield* admit(one.health, {}, ["a\u0000x"]), yield* admit(other.health, {}, ["a\u0000x"])]
    assert.deepStrictEqual([first._tag, second._tag], ["Go", "Held"])
    yield* tell(one.health, { _tag: "Accepted", ticket: first._tag === "Go" ? first.ticket : null }, ["a\u0000x"])
    yield* TestClock.adjust("6 seconds")
    assert.strictEqual((yield* admit(other.health, {}, ["a\u0000x"]))._tag, "Go")
  })
)

it.effect("leaves a route that another process found open for one that takes the call", () =>
  Effect.gen(function* () {
    const [one, other] = yield* two
    for (let turn = 0; turn < 4; turn += 1) yield* tell(one.health, failed)
    const admission = yield* admit(other.health, { leavesFor: ["breaker"] })
    assert.deepStrictEqual(admission, {
      _tag: "Go",
      candidate: 1,
      ticket: null,
      place: 1,
      isPaced: false,
      left: "breaker"
    })
  })
)

it.effect("shares no route whose client is an object of one process", () =>
  Effect.gen(function* () {
    const [one, other] = yield* two
    const own = ["client #1\u0000x"]
    for (let turn = 0; turn < 4; turn += 1) yield* tell(one.health, failed, own)
    assert.strictEqual((yield* admit(one.health, {}, own))._tag, "Held")
    assert.strictEqual((yield* admit(other.health, {}, own))._tag, "Go")
  })
)

it.effect("goes on with what it knows while the store is away, and tells it when that is back", () =>
  Effect.gen(function* () {
    const [one, other] = yield* two
    const keys = ["a\u0000x"]
    yield* tell(one.health, failed, keys)
    yield* tell(one.health, failed, keys)
    other.cut(false)
    one.cut(true)
    yield* tell(one.health, failed, keys)
    yield* tell(one.health, failed, keys)
    assert.strictEqual((yield* admit(one.health, {}, keys))._tag, "Held")
    one.cut(false)
    yield* admit(one.health, {}, keys)
    assert.strictEqual((yield* admit(other.health, {}, keys))._tag, "Held")
  })
)

it.effect("answers a hundred questions at once in a few calls", () =>
  Effect.gen(function* () {
    const [one] = yield* two
    const answers = yield* Effect.forEach(Array.from({ length: 100 }), () => admit(one.health), {
      concurrency: "unbounded"
    })
    // The first of so many leave at once, and the others a moment later.
    const isBurst = answers.map((answer) => (answer._tag === "Held" ? answer.reason === "burst" : null))
    assert.deepStrictEqual(
      isBurst,
      Array.from({ length: 100 }, (_, i) => (i < 24 ? null : true))
    )
    assert.isBelow(one.swaps.length, 10)
  })
)

it.effect("remembers no more routes than it may", () =>
  Effect.gen(function* () {
    const [one] = yield* two
    for (let route = 0; route < 200; route += 1)
      yield* tell(one.health, { _tag: "Accepted", ticket: null }, [`r${route}\u0000m`])
    one.swaps.length = 0
    yield* admit(one.health, {}, ["r0\u0000m"])
    assert.deepStrictEqual(
      one.swaps.map(({ known }) => known[0]?.version),
      [0, 1]
    )
  })
)
