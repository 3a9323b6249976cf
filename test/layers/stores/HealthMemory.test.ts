import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { RouteHealthConfig } from "../../../src/domain/recovery/RouteHealthConfig.ts"
import type { Tick } from "../../../src/domain/recovery/Tick.ts"
import { newcomer, type Asker } from "../../../src/domain/route/Admission.ts"
import * as HealthMemory from "../../../src/layers/stores/HealthMemory.ts"
import { HealthStore, type HealthStoreShape } from "../../../src/services/HealthStore.ts"

const tick = (now: number, spread = 0.5): Tick => ({ now, wall: now, backoffMillis: null, spread, progressMillis: 0 })
const failed = { _tag: "Failed", ticket: null, hintMillis: null } as const
const config = RouteHealthConfig.defaults
const reporter = { own: 0, priority: "foreground" } as const

const breakOpen = (store: HealthStoreShape, key: string) =>
  Effect.gen(function* () {
    for (let i = 0; i < 3; i++) yield* store.report({ candidates: [key], config, reporter, signal: failed }, tick(0))
  })

const admission = (store: HealthStoreShape, keys: ReadonlyArray<string>, now: number, asker: Partial<Asker> = {}) =>
  store.admit({ candidates: keys, config, asker: { ...newcomer, ...asker } }, tick(now))

/** The store that a recovery would use here. */
const given = Effect.map(HealthStore, (store) => store ?? HealthMemory.ofProcess)

it.effect("keeps routes apart", () =>
  Effect.gen(function* () {
    const store = HealthMemory.make()
    yield* breakOpen(store, "a")
    assert.strictEqual((yield* admission(store, ["a"], 10))._tag, "Held")
    assert.strictEqual((yield* admission(store, ["b"], 10))._tag, "Go")
  })
)

it.effect("is that of the process by default, and a fresh one for each layer", () =>
  Effect.gen(function* () {
    assert.isNull(yield* HealthStore)
    const first = yield* Effect.provide(given, HealthMemory.layer())
    const second = yield* Effect.provide(given, HealthMemory.layer())
    assert.notStrictEqual(first, second)
    assert.notStrictEqual(first, HealthMemory.ofProcess)
  })
)

it.effect("is shared within one clock", () =>
  Effect.gen(function* () {
    yield* breakOpen(HealthMemory.ofProcess, "shared")
    assert.strictEqual((yield* admission(HealthMemory.ofProcess, ["shared"], 10))._tag, "Held")
  })
)

it.effect("starts afresh under another clock", () =>
  Effect.gen(function* () {
    assert.strictEqual((yield* admission(HealthMemory.ofProcess, ["shared"], 10))._tag, "Go")
  })
)

it.effect("forgets the route that was used longest ago when it is full", () =>
  Effect.gen(function* () {
    const store = HealthMemory.make({ maxRoutes: 2 })
    yield* breakOpen(store, "old")
    yield* breakOpen(store, "used")
    yield* admission(store, ["used"], 10)
    yield* admission(store, ["third"], 10)
    assert.strictEqual((yield* admission(store, ["used"], 20))._tag, "Held")
    assert.strictEqual((yield* admission(store, ["old"], 20))._tag, "Go")
  })
)

it.effect("keeps the candidates of one request together, however few it holds", () =>
  Effect.gen(function* () {
    const store = HealthMemory.make({ maxRoutes: 1 })
    yield* breakOpen(store, "a")
    const asker = { leavesFor: ["breaker"] } as const
    const first = yield* admission(store, ["a", "b"], 10, asker)
    const second = { _tag: "Go", candidate: 1, ticket: null, place: 1, isPaced: false, left: "breaker" } as const
    assert.deepStrictEqual(first, second)
    assert.deepStrictEqual(yield* admission(store, ["a", "b"], 20, asker), { ...second, place: 2 })
  })
)

it.effect("lets one of five thousand fibers probe, and sends the others to the route that is open", () =>
  Effect.gen(function* () {
    const store = HealthMemory.make()
    yield* breakOpen(store, "a")
    const fibers = Array.from({ length: 5_000 })
    const answers = yield* Effect.forEach(
      fibers,
      () => admission(store, ["a", "b"], 5_000, { leavesFor: ["breaker"] }),
      { concurrency: "unbounded" }
    )
    const on = (candidate: number) =>
      answers.filter((answer) => answer._tag === "Go" && answer.candidate === candidate).length
    assert.deepStrictEqual([on(0), on(1)], [1, 4_999])
  })
)

it.effect("holds four thousand nine hundred and ninety-nine of them where there is no other", () =>
  Effect.gen(function* () {
    const store = HealthMemory.make()
    yield* breakOpen(store, "a")
    const answers = yield* Effect.forEach(Array.from({ length: 5_000 }), () => admission(store, ["a"], 5_000), {
      concurrency: "unbounded"
    })
    assert.strictEqual(answers.filter((answer) => answer._tag === "Go" && answer.ticket === 0).length, 1)
    assert.strictEqual(answers.filter((answer) => answer._tag === "Held").length, 4_999)
  })
)
