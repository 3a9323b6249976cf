import { assert, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { initial, type RecoveryState } from "../../../src/domain/recovery/RecoveryState.ts"
import { nothingSeen, type Outcome } from "../../../src/domain/recovery/Outcome.ts"
import type { Tick } from "../../../src/domain/recovery/Tick.ts"
import { makeModelError, type Failure } from "../../../src/domain/failure/ModelError.ts"
import type { ModelRequest, WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as HealthMemory from "../../../src/layers/stores/HealthMemory.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { renderFailure } from "../../../src/domain/failure/renderFailure.ts"
import { makeRouteAdmission, type RouteAdmission } from "../../../src/programs/request/routeAdmission.ts"
import { HealthStore } from "../../../src/services/HealthStore.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { PolicyOverride } from "../../../src/services/Overrides.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { worldOver } from "../../support/world.ts"

const overloaded: Failure = { kind: "overloaded", status: 529 }

interface Sent {
  readonly atMillis: number
  readonly model: string
}

/** A provider that answers by the time of day; the answer itself takes `takes` milliseconds, a refusal `refuses`. */
const worldOf = (
  answer: (now: number, request: WireRequest) => Failure | null,
  input: Partial<RecoveryPolicyInput> = {},
  takes = 0,
  refuses = 0
) => {
  const sent: Array<Sent> = []
  const policy = new RecoveryPolicy({
    ...RecoveryPolicy.broad,
    routes: [{ model: "large" }],
    ...input
  })
  const client = ModelClient.of({
    generate: (request) =>
      Effect.gen(function* () {
        const atMillis = yield* Clock.currentTimeMillis
        sent.push({ atMillis, model: request.model })
        const failure = answer(atMillis, request)
        yield* Effect.sleep(failure === null ? takes : refuses)
        if (failure !== null) return yield* makeModelError({ model: request.model, ...failure })
        return makeReply({ text: "done", model: request.model })
      }),
    stream: () => Stream.empty
  })
  const { layer } = worldOver(policy, client)
  return { sent, layer: Layer.mergeAll(layer, HealthMemory.layer()) }
}

const complete = (more: Partial<ModelRequest> = {}) =>
  Effect.flatMap(Recovery, (recovery) => recovery.complete({ messages: [{ role: "user", content: "hi" }], ...more }))

const many = (count: number) =>
  Effect.forEach(Array.from({ length: count }), (_, i) => Effect.exit(Effect.delay(complete(), i * 10)), {
    concurrency: "unbounded"
  })

const toEnd = <A, E>(layer: Layer.Layer<Recovery>, program: Effect.Effect<A, E, Recovery>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(program)
    yield* TestClock.adjust("10 minutes")
    return yield* Fiber.join(fiber)
  }).pipe(Effect.provide(layer), Random.withSeed("fixed"))

it.effect("saves every request of an outage with a fraction of the requests it would take alone", () =>
  Effect.gen(function* () {
    const world = worldOf((now) => (now < 20_000 ? overloaded : null))
    const exits = yield* toEnd(world.layer, many(300))
    assert.isTrue(exits.every(Exit.isSuccess))
    assert.isAtMost(world.sent.length, 300 * 1.3)
  })
)

it.effect.each([
  { begins: "with the process", from: 0 },
  { begins: "after five seconds of health", from: 5_000 }
])("answers most calls of an outage that begins $begins within five seconds of its end", ({ from }) =>
  Effect.gen(function* () {
    const lasts = 20_000
    const world = worldOf((now) => (now >= from && now < from + lasts ? overloaded : null))
    const took: Array<number> = []
    const timed = Effect.gen(function* () {
      const before = yield* Clock.currentTimeMillis
      yield* complete()
      took.push((yield* Clock.currentTimeMillis) - before)
    })
    yield* toEnd(
      world.layer,
      Effect.forEach(Array.from({ length: 140 }), (_, i) => Effect.delay(timed, i * 250), {
        concurrency: "unbounded",
        discard: true
      })
    )
    assert.strictEqual(took.length, 140)
    assert.isAtMost(world.sent.length, 140 * 1.3)
    const sorted = took.sort((left, right) => left - right)
    assert.isAtMost(sorted[132] ?? Infinity, lasts + 5_000)
  })
)

it.effect("lets one request at most through per cool-down once the only route is open", () =>
  Effect.gen(function* () {
    const world = worldOf((now) => (now < 60_000 ? overloaded : null))
    const exits = yield* toEnd(world.layer, many(300))
    assert.isTrue(exits.every(Exit.isSuccess))
    // The shortest cool-down of a quiet route; what left in the first moment had not been told yet.
    const probes = world.sent.filter(({ atMillis }) => atMillis > 1_000 && atMillis < 60_000)
    assert.isAbove(probes.length, 1)
    for (let i = 1; i < probes.length; i++)
      assert.isAtLeast((probes[i]?.atMillis ?? 0) - (probes[i - 1]?.atMillis ?? 0), 1_000)
  })
)

it.effect("serves an outage from the fallback and comes back to the primary after it", () =>
  Effect.gen(function* () {
    const world = worldOf((now, request) => (request.model === "large" && now < 20_000 ? overloaded : null), {
      routes: [{ model: "large" }, { model: "small" }]
    })
    const exits = yield* toEnd(
      world.layer,
      many(50).pipe(
        Effect.andThen(Effect.delay(complete(), "1 minute")),
        // The ramp after the probe is over.
        Effect.andThen(Effect.delay(many(50), "10 seconds"))
      )
    )
    assert.isTrue(exits.every((exit) => Exit.isSuccess(exit) && exit.value.model === "large"))
    const early = world.sent.filter(({ atMillis, model }) => atMillis < 20_000 && model === "small")
    assert.strictEqual(early.length, 50)
  })
)

/** A token bucket, full in the beginning, that tells its refill in whole seconds or exactly. */
const bucketOf = (perSecond: number, burst: number, isExact = false) => {
  let tokens = burst
  let at = 0
  return (now: number): Failure | null => {
    tokens = Math.min(burst, tokens + ((now - at) / 1_000) * perSecond)
    at = now
    if (tokens >= 1) {
      tokens -= 1
      return null
    }
    const missing = ((1 - tokens) * 1_000) / perSecond
    const millis = isExact ? missing : Math.max(1_000, Math.ceil(missing / 1_000) * 1_000)
    return { kind: "rate_limited", status: 429, hints: [{ _tag: "Delay", source: "retry-after", millis }] }
  }
}

it.effect.each([
  { perSecond: 20, burst: 20, calls: 200, takes: 50, exact: false },
  { perSecond: 20, burst: 20, calls: 200, takes: 50, exact: true },
  { perSecond: 20, burst: 20, calls: 200, takes: 4, exact: false },
  { perSecond: 10, burst: 5, calls: 100, takes: 50, exact: false },
  { perSecond: 50, burst: 100, calls: 500, takes: 200, exact: false }
])(
  "sends $calls calls at once at the pace of a limiter of $perSecond a second, as soon as it shows",
  ({ perSecond, burst, calls, takes, exact }) =>
    Effect.gen(function* () {
      const world = worldOf(bucketOf(perSecond, burst, exact), {}, takes, takes / 2)
      let last = 0
      const timed = Effect.gen(function* () {
        yield* complete()
        last = yield* Clock.currentTimeMillis
      })
      yield* toEnd(
        world.layer,
        Effect.forEach(Array.from({ length: calls }), () => timed, { concurrency: "unbounded", discard: true })
      )
      assert.isAtMost(world.sent.length, 1.35 * calls)
      assert.isAtMost(last, (1.15 * 1_000 * (calls - burst)) / perSecond + takes)
    })
)

it.effect("makes no call wait for another where each is told to come again and is taken then", () =>
  Effect.gen(function* () {
    const hint: Failure = {
      kind: "rate_limited",
      status: 429,
      hints: [{ _tag: "Delay", source: "retry-after", millis: 2_000 }]
    }
    const told = new Set<string>()
    const world = worldOf((_, { messages }) => {
      const { content } = messages[0] ?? { content: "" }
      const name = JSON.stringify(content)
      if (told.has(name)) return null
      told.add(name)
      return hint
    })
    const took: Array<number> = []
    const timed = (call: number) =>
      Effect.gen(function* () {
        const before = yield* Clock.currentTimeMillis
        yield* complete({ messages: [{ role: "user", content: `call ${call}` }] })
        took.push((yield* Clock.currentTimeMillis) - before)
      })
    yield* toEnd(
      world.layer,
      Effect.forEach(Array.from({ length: 200 }), (_, i) => Effect.delay(timed(i), i * 20), {
        concurrency: "unbounded",
        discard: true
      })
    )
    assert.strictEqual(world.sent.length, 400)
    assert.isAtMost(Math.max(...took), 2_500)
  })
)

it.effect("holds new requests until the end of a hint another request was given", () =>
  Effect.gen(function* () {
    let limited = 0
    const world = worldOf(() =>
      limited++ === 0
        ? { kind: "rate_limited", status: 429, hints: [{ _tag: "Delay", source: "retry-after", millis: 10_000 }] }
        : null
    )
    const exits = yield* toEnd(world.layer, many(50))
    assert.isTrue(exits.every(Exit.isSuccess))
    assert.strictEqual(world.sent.length, 51)
    for (const { atMillis } of world.sent.slice(1)) assert.isAtLeast(atMillis, 10_000)
  })
)

it.effect.each([
  { given: "a request of priority background", input: {}, request: { priority: "background" } },
  { given: "the preset background", input: RecoveryPolicy.background, request: {} }
] as const)("sheds $given while the route is open, as an overload and without sending it", ({ input, request }) =>
  Effect.gen(function* () {
    const world = worldOf((now) => (now < 20_000 ? overloaded : null))
    const failure = yield* toEnd(
      world.layer,
      Effect.gen(function* () {
        const crowd = yield* Effect.forkChild(many(10))
        yield* Effect.sleep("1 second")
        const before = world.sent.length
        const policy = Object.keys(input).length === 0 ? null : { ...input, routes: [{ model: "large" }] }
        const found = yield* Effect.flip(Effect.provideService(complete(request), PolicyOverride, policy))
        assert.strictEqual(world.sent.length, before)
        yield* Fiber.join(crowd)
        return found
      })
    )
    assert.strictEqual(failure._tag, "ModelOverloadedError")
    assert.deepInclude(failure, { shed: true, status: null, code: "route_shut", model: "large", attempts: 0 })
    assert.include(renderFailure(failure), "Nothing was sent")
  })
)

it.effect.each([
  { rateLimit: undefined, model: "large", from: 20_000 },
  { rateLimit: 1, model: "small", from: 0 }
])(
  "sends $model from $from ms on while the primary asks for silence and fallbackAfter.rateLimit is $rateLimit",
  (row) =>
    Effect.gen(function* () {
      const { rateLimit, model, from } = row
      const world = worldOf(
        (now, request) =>
          request.model === "large" && now < 20_000
            ? {
                kind: "rate_limited",
                status: 429,
                hints: [{ _tag: "Delay", source: "retry-after", millis: 20_000 - now }]
              }
            : null,
        {
          routes: [{ model: "large" }, { model: "small" }],
          fallbackAfter: rateLimit === undefined ? {} : { rateLimit }
        }
      )
      const exits = yield* toEnd(world.layer, many(10))
      assert.isTrue(exits.every(Exit.isSuccess))
      const [first, ...others] = world.sent
      assert.strictEqual(first?.model, "large")
      assert.strictEqual(others.length, 10)
      assert.isTrue(
        others.every((sent) => sent.model === model && sent.atMillis >= from && sent.atMillis < from + 30_000)
      )
      if (rateLimit !== undefined) assert.isTrue(others.slice(1).every(({ atMillis }) => atMillis < 1_000))
    })
)

it.effect("gives a probe's place back at once when its request is interrupted on the way", () =>
  Effect.gen(function* () {
    const world = worldOf((now) => (now < 4_000 ? overloaded : null), {}, 3_600_000)
    yield* Effect.gen(function* () {
      const crowd = yield* Effect.forEach(Array.from({ length: 20 }), () => Effect.forkChild(complete()))
      // The reply takes an hour: the probe stays out, since no client here tells that it was accepted.
      yield* TestClock.adjust("12 seconds")
      const probes = world.sent.filter(({ atMillis }) => atMillis >= 4_000)
      assert.strictEqual(probes.length, 1)
      for (const fiber of crowd) yield* Fiber.interrupt(fiber)
      const before = world.sent.length
      const next = yield* Effect.forkChild(complete())
      // Far less than the time after which the place of a silent probe is given away.
      yield* TestClock.adjust("1 second")
      assert.strictEqual(world.sent.length, before + 1)
      yield* Fiber.interrupt(next)
    }).pipe(Effect.provide(world.layer), Random.withSeed("fixed"))
  })
)

const policy = new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "large" }, { model: "small" }] })
const state = (more: Partial<RecoveryState> = {}): RecoveryState => ({
  ...initial(policy, { now: 0, deadline: 300_000, route: 0, callerCap: null, streaming: false, background: false }),
  ...more
})
const tick = (now: number, spread = 0.5): Tick => ({ now, wall: now, backoffMillis: null, spread, progressMillis: 0 })
const overload529: Outcome = {
  _tag: "Faulted",
  kind: "overloaded",
  status: 529,
  code: null,
  hints: [],
  shouldRetry: null,
  ...nothingSeen,
  other: null
}
const completed: Outcome = { _tag: "Completed" }

const admission: Effect.Effect<RouteAdmission> = Effect.gen(function* () {
  const made = makeRouteAdmission(policy, (yield* HealthStore) ?? HealthMemory.ofProcess)
  return made ?? (yield* Effect.die(new Error("route health is off")))
})

/** Three requests meet an overload on a route. */
const overload = (route: number) =>
  Effect.gen(function* () {
    for (let i = 0; i < 3; i++) {
      const one = yield* admission
      assert.isNull(yield* one.admit(state({ route }), tick(0)))
      yield* one.observe(state({ route }), overload529, tick(0))
    }
  })

it.effect("sends a request to the other route while its own is shut", () =>
  Effect.gen(function* () {
    yield* overload(0)
    const held = yield* (yield* admission).admit(state(), tick(10))
    assert.deepStrictEqual(held, { _tag: "Held", untilMillis: 10, reason: "breaker", other: 1 })
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("waits for the earliest route when every route is shut", () =>
  Effect.gen(function* () {
    yield* overload(0)
    yield* overload(1)
    const held = yield* (yield* admission).admit(state(), tick(10))
    assert.isNotNull(held)
    assert.isNull(held?.other)
    assert.isAtLeast(held?.untilMillis ?? 0, 5_000)
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("brings a request that starts on a fallback back to the primary", () =>
  Effect.gen(function* () {
    const held = yield* (yield* admission).admit(state({ route: 1 }), tick(10))
    assert.deepStrictEqual(held, { _tag: "Held", untilMillis: 10, reason: "return", other: 0 })
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("puts the way out into the outcome when the own failure has opened the breaker", () =>
  Effect.gen(function* () {
    const one = yield* admission
    const others: Array<unknown> = []
    for (let i = 0; i < 3; i++) {
      yield* one.admit(state(), tick(0))
      const observed = yield* one.observe(state(), overload529, tick(0))
      others.push(observed._tag === "Faulted" ? observed.other : observed)
    }
    assert.deepStrictEqual(others, [null, null, 1])
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("keeps the place it was given on another route until the attempt there", () =>
  Effect.gen(function* () {
    yield* overload(0)
    yield* overload(1)
    const probe = yield* admission
    // The fallback's cool-down is over, the primary's probe is out: the request is the fallback's probe.
    const first = yield* admission
    assert.isNull(yield* first.admit(state(), tick(5_000)))
    const held = yield* probe.admit(state(), tick(5_000))
    assert.strictEqual(held?.other, 1)
    if (held !== null) yield* probe.observe(state(), held, tick(5_000))
    // Nobody comes between: the place is its own.
    assert.isNotNull(yield* (yield* admission).admit(state({ route: 1 }), tick(5_001)))
    assert.isNull(yield* probe.admit(state({ route: 1 }), tick(5_002)))
    yield* probe.observe(state({ route: 1 }), completed, tick(5_100))
    assert.isNull(yield* (yield* admission).admit(state({ route: 1, attempts: 1 }), tick(10_200)))
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("gives the place on another route back when the request ends before its attempt", () =>
  Effect.gen(function* () {
    yield* overload(0)
    yield* overload(1)
    const first = yield* admission
    assert.isNull(yield* first.admit(state(), tick(5_000)))
    const probe = yield* admission
    assert.strictEqual((yield* probe.admit(state(), tick(5_000)))?.other, 1)
    yield* probe.release(tick(5_001))
    assert.strictEqual((yield* (yield* admission).admit(state(), tick(5_002)))?.other, 1)
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("closes a shut route as soon as the probe is accepted, not when it completes", () =>
  Effect.gen(function* () {
    yield* overload(0)
    const probe = yield* admission
    assert.isNull(yield* probe.admit(state(), tick(5_000)))
    assert.isNotNull(yield* (yield* admission).admit(state(), tick(5_001, 0)))
    yield* probe.accepted(tick(5_100))
    assert.isNull(yield* (yield* admission).admit(state(), tick(5_200, 0)))
    yield* probe.observe(state(), completed, tick(60_000))
    assert.isNull(yield* (yield* admission).admit(state(), tick(60_000, 1)))
  }).pipe(Effect.provide(HealthMemory.layer()))
)

it.effect("gives a probe's place back when its request is interrupted", () =>
  Effect.gen(function* () {
    yield* overload(0)
    const probe = yield* admission
    const fiber = yield* Effect.forkChild(
      probe.admit(state(), tick(5_000)).pipe(
        Effect.andThen(Effect.sleep("1 hour")),
        Effect.onExit(() => probe.release(tick(5_050)))
      ),
      { startImmediately: true }
    )
    yield* TestClock.adjust("1 second")
    const other = yield* admission
    assert.isNotNull(yield* other.admit(state(), tick(5_040)))
    yield* Fiber.interrupt(fiber)
    assert.isNull(yield* other.admit(state(), tick(5_060)))
    // A second release changes nothing: the place is the next one's now.
    yield* probe.release(tick(5_070))
    assert.isNotNull(yield* (yield* admission).admit(state(), tick(5_080)))
  }).pipe(Effect.provide(HealthMemory.layer()))
)
