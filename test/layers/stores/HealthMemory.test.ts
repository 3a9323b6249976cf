import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { nothingSeen, type Outcome } from "../../../src/domain/recovery/Outcome.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { initial, type RecoveryState } from "../../../src/domain/recovery/RecoveryState.ts"
import type { Tick } from "../../../src/domain/recovery/Tick.ts"
import * as HealthMemory from "../../../src/layers/stores/HealthMemory.ts"
import { makeRouteDoor, type RouteDoor } from "../../../src/programs/request/routeDoor.ts"
import { HealthStore } from "../../../src/services/HealthStore.ts"

const tick = (now: number, spread = 0.5): Tick => ({ now, wall: now, backoffMillis: null, spread, progressMillis: 0 })
const failed = { _tag: "Failed", ticket: null, hintMillis: null } as const

const breakOpen = (key: string) =>
  Effect.gen(function* () {
    const store = yield* HealthStore
    for (let i = 0; i < 3; i++) yield* store.observe(key, failed, tick(0))
  })

const admission = (key: string, now: number) => Effect.flatMap(HealthStore, (store) => store.admit(key, tick(now)))

it.effect("keeps routes apart", () =>
  Effect.gen(function* () {
    yield* breakOpen("a")
    assert.strictEqual((yield* admission("a", 10))._tag, "Held")
    assert.strictEqual((yield* admission("b", 10))._tag, "Go")
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("is shared by default within one clock, and with no other", () =>
  Effect.gen(function* () {
    yield* breakOpen("shared")
    assert.strictEqual((yield* admission("shared", 10))._tag, "Held")
  })
)

it.effect("starts afresh under another clock", () =>
  Effect.gen(function* () {
    assert.strictEqual((yield* admission("shared", 10))._tag, "Go")
  })
)

it.effect("forgets the route that was used longest ago when it is full", () =>
  Effect.gen(function* () {
    yield* breakOpen("old")
    yield* breakOpen("used")
    yield* admission("used", 10)
    yield* admission("third", 10)
    assert.strictEqual((yield* admission("used", 20))._tag, "Held")
    assert.strictEqual((yield* admission("old", 20))._tag, "Go")
  }).pipe(Effect.provide(HealthMemory.layer({ maxRoutes: 2 })))
)

it.effect("lets one of five thousand fibers probe", () =>
  Effect.gen(function* () {
    yield* breakOpen("a")
    const answers = yield* Effect.forEach(Array.from({ length: 5_000 }), () => admission("a", 5_000), {
      concurrency: "unbounded"
    })
    assert.strictEqual(answers.filter((answer) => answer._tag === "Probe").length, 1)
    assert.strictEqual(answers.filter((answer) => answer._tag === "Held").length, 4_999)
  }).pipe(Effect.provide(HealthMemory.layer()))
)

const policy = new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "large" }, { model: "small" }] })
const state = (more: Partial<RecoveryState> = {}): RecoveryState => ({
  ...initial(policy, { now: 0, deadline: 300_000, route: 0, callerCap: null, streaming: false, background: false }),
  ...more
})
const overloaded: Outcome = {
  _tag: "Faulted",
  kind: "overloaded",
  status: 529,
  code: null,
  hints: [],
  shouldRetry: null,
  ...nothingSeen
}
const completed: Outcome = { _tag: "Completed" }

const door: Effect.Effect<RouteDoor> = Effect.gen(function* () {
  const made = makeRouteDoor(policy, yield* HealthStore)
  return made ?? (yield* Effect.die(new Error("route health is off")))
})

/** Three requests meet an overload on a route. */
const overload = (route: number) =>
  Effect.gen(function* () {
    for (let i = 0; i < 3; i++) {
      const one = yield* door
      assert.isNull(yield* one.admit(state({ route }), tick(0)))
      yield* one.observe(state({ route }), overloaded, tick(0))
    }
  })

it.effect("sends a request to the other route while its own is shut", () =>
  Effect.gen(function* () {
    yield* overload(0)
    const held = yield* (yield* door).admit(state(), tick(10))
    assert.deepStrictEqual(held, { _tag: "Held", untilMillis: 10, reason: "breaker", other: 1 })
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("waits for the earliest route when every route is shut", () =>
  Effect.gen(function* () {
    yield* overload(0)
    yield* overload(1)
    const held = yield* (yield* door).admit(state(), tick(10))
    assert.isNotNull(held)
    assert.isNull(held?.other)
    assert.isAtLeast(held?.untilMillis ?? 0, 5_000)
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("brings a request that starts on a fallback back to the primary", () =>
  Effect.gen(function* () {
    const held = yield* (yield* door).admit(state({ route: 1 }), tick(10))
    assert.deepStrictEqual(held, { _tag: "Held", untilMillis: 10, reason: "return", other: 0 })
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("leaves a route at once, and once, when the own failure has shut it", () =>
  Effect.gen(function* () {
    const one = yield* door
    for (let i = 0; i < 2; i++) {
      yield* one.admit(state(), tick(0))
      yield* one.observe(state(), overloaded, tick(0))
      assert.isNull(yield* one.leave(state({ attempts: 1 }), tick(0)))
    }
    yield* one.admit(state(), tick(0))
    yield* one.observe(state(), overloaded, tick(0))
    const away = yield* one.leave(state({ attempts: 1 }), tick(0))
    assert.strictEqual(away?.other, 1)
    if (away !== null) yield* one.observe(state({ attempts: 1 }), away, tick(0))
    assert.isNull(yield* one.leave(state({ attempts: 1 }), tick(0)))
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("closes a shut route as soon as the probe is accepted, not when it completes", () =>
  Effect.gen(function* () {
    yield* overload(0)
    const probe = yield* door
    assert.isNull(yield* probe.admit(state(), tick(5_000)))
    assert.isNotNull(yield* (yield* door).admit(state(), tick(5_001, 0)))
    yield* probe.accepted(state(), tick(5_100))
    assert.isNull(yield* (yield* door).admit(state(), tick(5_200, 0)))
    yield* probe.observe(state(), completed, tick(60_000))
    assert.isNull(yield* (yield* door).admit(state(), tick(60_000, 1)))
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("gives a probe's place back when its request is interrupted", () =>
  Effect.gen(function* () {
    yield* overload(0)
    const probe = yield* door
    const fiber = yield* Effect.forkChild(
      probe.admit(state(), tick(5_000)).pipe(
        Effect.andThen(Effect.sleep("1 hour")),
        Effect.onExit(() => probe.release(tick(5_050)))
      ),
      { startImmediately: true }
    )
    yield* TestClock.adjust("1 second")
    const other = yield* door
    assert.isNotNull(yield* other.admit(state(), tick(5_040)))
    yield* Fiber.interrupt(fiber)
    assert.isNull(yield* other.admit(state(), tick(5_060)))
    // A second release changes nothing: the place is the next one's now.
    yield* probe.release(tick(5_070))
    assert.isNotNull(yield* (yield* door).admit(state(), tick(5_080)))
  }).pipe(Effect.provide(HealthMemory.layer()))
)
