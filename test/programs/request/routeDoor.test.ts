import { assert, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { makeModelError, type Failure } from "../../../src/domain/failure/ModelError.ts"
import type { ModelRequest, WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as HealthMemory from "../../../src/layers/stores/HealthMemory.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { renderFailure } from "../../../src/domain/failure/renderFailure.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { PolicyOverride } from "../../../src/services/Overrides.ts"
import { Recovery } from "../../../src/services/Recovery.ts"

const overloaded: Failure = { kind: "overloaded", status: 529 }

interface Sent {
  readonly atMillis: number
  readonly model: string
}

/** A provider that answers by the time of day; the answer itself takes `takes` milliseconds. */
const worldOf = (
  answer: (now: number, request: WireRequest) => Failure | null,
  input: Partial<RecoveryPolicyInput> = {},
  takes = 0
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
        if (failure !== null) return yield* makeModelError({ model: request.model, ...failure })
        yield* Effect.sleep(takes)
        return makeReply({ text: "done", model: request.model })
      }),
    stream: () => Stream.empty
  })
  const layer = RecoveryLive.layer(policy).pipe(
    Layer.provide(ModelSummarizer.layer({ model: "large" })),
    Layer.provide(Layer.succeed(ModelClient, client)),
    Layer.orDie
  )
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

it.effect("leaves the probe's place to the next when the probe is interrupted, and every waiter free to go", () =>
  Effect.gen(function* () {
    const world = worldOf((now) => (now < 4_000 ? overloaded : null), {}, 3_600_000)
    yield* Effect.gen(function* () {
      const crowd = yield* Effect.forEach(Array.from({ length: 20 }), () => Effect.forkChild(complete()))
      yield* TestClock.adjust("100 seconds")
      const first = world.sent.filter(({ atMillis }) => atMillis >= 4_000).length
      assert.strictEqual(first >= 1, true)
      for (const fiber of crowd) yield* Fiber.interrupt(fiber)
      const before = world.sent.length
      const next = yield* Effect.forkChild(complete())
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(world.sent.length, before + 1)
      yield* Fiber.interrupt(next)
    }).pipe(Effect.provide(world.layer), Random.withSeed("fixed"))
  })
)
