import { assert, it } from "@effect/vitest"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as RateShared from "../../../../src/layers/stores/shared/RateShared.ts"
import * as StoreSqlite from "../../../../src/layers/stores/shared/StoreSqlite.ts"
import { SharedStore, StoreAway, type SharedStoreShape } from "../../../../src/services/SharedStore.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "holdfast-rate-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const rateOn = (store: SharedStoreShape, options: Partial<RateShared.RateSharedOptions> = {}) =>
  RateShared.make({ name: "r", window: "1 minute", requests: 3, ...options }).pipe(
    Effect.provideService(SharedStore, SharedStore.of(store))
  )

const two = Effect.flatMap(folder, (path) =>
  Effect.all([StoreSqlite.make({ path: join(path, "a.db") }), StoreSqlite.make({ path: join(path, "a.db") })])
)

it.effect("counts the requests of all processes in one window, and begins anew with the next", () =>
  Effect.gen(function* () {
    const [one, other] = yield* two
    const [left, right] = [yield* rateOn(one), yield* rateOn(other)]
    const taken = [yield* left.take(), yield* right.take(), yield* left.take(), yield* right.take()]
    assert.deepStrictEqual(taken, [null, null, null, 60_000])
    yield* TestClock.adjust("60 seconds")
    assert.isNull(yield* right.take())
  })
)

it.effect("lets whoever waits go in a later window, and never more than its limit in one", () =>
  Effect.gen(function* () {
    const [one, other] = yield* two
    const rates = [yield* rateOn(one), yield* rateOn(other)]
    const windows: Array<number> = []
    const note = Effect.map(Clock.currentTimeMillis, (now) => void windows.push(Math.floor(now / 60_000)))
    const fibers = yield* Effect.forEach(
      Array.from({ length: 10 }, (_, index) => rates[index % 2]!),
      (rate) => Effect.forkChild(rate.limited(note))
    )
    yield* TestClock.adjust("10 minutes")
    yield* Effect.forEach(fibers, Fiber.join)
    assert.deepStrictEqual(windows, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
  })
)

it.effect("counts tokens, and lets a request larger than the window have one for itself", () =>
  Effect.gen(function* () {
    const [one] = yield* two
    const rate = yield* rateOn(one, { tokens: 100, requests: 100 })
    assert.deepStrictEqual([yield* rate.take(60), yield* rate.take(60)], [null, 60_000])
    assert.strictEqual(yield* rate.take(500), 60_000)
    yield* TestClock.adjust("60 seconds")
    assert.isNull(yield* rate.take(500))
  })
)

it.effect("lets everything go while the store is away, or nothing, as it is told", () =>
  Effect.gen(function* () {
    const [one] = yield* two
    const away = Effect.fail(new StoreAway({ store: "test", reason: "is away", isSent: false }))
    const gone: SharedStoreShape = { ...one, reserve: () => away }
    assert.isNull(yield* (yield* rateOn(gone)).take())
    const closed = yield* rateOn(gone, { whileAway: "closed" })
    assert.instanceOf(yield* Effect.flip(closed.take()), StoreAway)
  })
)

it.effect.each([
  { options: { name: "" }, field: "name" },
  { options: { window: "1 millis" as const }, field: "window" },
  { options: { requests: 0 }, field: "requests" },
  { options: { tokens: 1.5 }, field: "tokens" }
])("names the field that cannot work: $field", ({ options, field }) =>
  Effect.gen(function* () {
    const [one] = yield* two
    assert.strictEqual((yield* Effect.flip(rateOn(one, options))).field, field)
  })
)
