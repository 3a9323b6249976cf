import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import type { ModelPart } from "../../../src/domain/chat/ModelReply.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import type { RecoveryEvent } from "../../../src/domain/recovery/RecoveryEvent.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as EventsMemory from "../../../src/layers/stores/EventsMemory.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { Recovery } from "../../../src/services/Recovery.ts"

const worldOf = (client: (typeof ModelClient)["Service"]) => {
  const events: Array<RecoveryEvent> = []
  const policy = new RecoveryPolicy({
    ...RecoveryPolicy.broad,
    routeHealth: null,
    routes: [{ model: "large", prices: { inputPerM: 1, outputPerM: 1 } }]
  })
  const layer = RecoveryLive.layer(policy).pipe(
    Layer.provide(ModelSummarizer.layer({ model: "large" })),
    Layer.provide(Layer.succeed(ModelClient, client)),
    Layer.provide(EventsMemory.layerTo((event) => Effect.sync(() => events.push(event)))),
    Layer.orDie
  )
  return { layer, events }
}

const messages = [{ role: "user" as const, content: "go" }]
const complete = Effect.flatMap(Recovery, (recovery) => recovery.complete({ messages }))
const overload = (providerRequestId: string): ScriptedModel.Step => ({
  fail: { kind: "overloaded", status: 529, providerRequestId }
})

const failureAfter = (steps: ReadonlyArray<ScriptedModel.Step>) =>
  Effect.gen(function* () {
    const world = worldOf(ScriptedModel.make(steps).client)
    const fiber = yield* Effect.forkChild(Effect.flip(Effect.provide(complete, world.layer)))
    yield* TestClock.adjust("1 hour")
    return { failure: yield* Fiber.join(fiber), events: world.events }
  })

const auth: ScriptedModel.Step = { fail: { kind: "auth", status: 401, providerRequestId: "p-3" } }

describe("the trail of a failure", () => {
  it.effect("tells after which request was waited, how long and why, and both names of each", () =>
    Effect.gen(function* () {
      const hinted: ScriptedModel.Step = {
        fail: {
          kind: "rate_limited",
          status: 429,
          hints: [{ _tag: "Delay", source: "retry-after", millis: 3_000 }]
        }
      }
      const { failure, events } = yield* failureAfter([overload("p-1"), hinted, auth])
      const [first, second, third] = failure.trail
      assert.strictEqual(failure.trail.length, 3)
      assert.deepStrictEqual(
        failure.trail.map((entry) => [entry.waitOrigin, entry.providerRequestId]),
        [
          ["backoff", "p-1"],
          ["hint", null],
          [null, "p-3"]
        ]
      )
      assert.isAbove(first?.waitMs ?? 0, 0)
      assert.isAtLeast(second?.waitMs ?? 0, 3_000)
      assert.isNull(third?.waitMs)
      // Nothing but the waits lies between the requests.
      assert.closeTo(second?.startedMs ?? 0, first?.waitMs ?? -1, 0.01)
      const ids = [failure.requestId, ...failure.trail.map((entry) => entry.requestId)]
      assert.deepStrictEqual(new Set(ids), new Set(events.map((event): string | null => event.requestId)))
      assert.strictEqual("providerRequestId" in failure ? failure.providerRequestId : "", "p-3")
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag === "Transitioned" ? [event.providerRequestId] : [])),
        ["p-1", null, "p-3"]
      )
    })
  )
})

describe("the last event", () => {
  const finishedOf = (events: ReadonlyArray<RecoveryEvent>) => events.filter((event) => event._tag === "Finished")

  it.effect("tells tag, time and cost of a failure", () =>
    Effect.gen(function* () {
      const { events } = yield* failureAfter([overload("p-1"), auth])
      const [finished] = finishedOf(events)
      const waited = events.find((event) => event._tag === "Waiting")
      assert.deepInclude(finished, {
        ok: false,
        tag: "ModelAuthenticationError",
        cancelled: false,
        costUsd: 0,
        attempts: 2
      })
      assert.closeTo(finished?.elapsedMs ?? 0, waited?.remainingMs ?? -1, 0.01)
      assert.closeTo(finished?.epochMs ?? -1, finished?.elapsedMs ?? 0, 1)
    })
  )

  it.effect("tells a reply's cost, and that it is unknown when one request's is", () =>
    Effect.gen(function* () {
      const usage = {
        promptTokens: 600_000,
        completionTokens: 400_000,
        cachedTokens: null,
        cacheWriteTokens: null,
        reasoningTokens: null
      }
      const priced = worldOf(ScriptedModel.make([{ reply: { text: "ok", usage } }]).client)
      yield* Effect.provide(complete, priced.layer)
      assert.deepInclude(finishedOf(priced.events)[0], { ok: true, tag: null, cancelled: false, costUsd: 1 })
      const unknown = worldOf(ScriptedModel.make([{ reply: { text: "ok" } }]).client)
      yield* Effect.provide(complete, unknown.layer)
      assert.deepInclude(finishedOf(unknown.events)[0], { ok: true, costUsd: null })
    })
  )

  it.effect("tells that the caller took the request back, and names a fault of the program", () =>
    Effect.gen(function* () {
      const hangs = worldOf(ScriptedModel.make([{ stall: "" }]).client)
      const fiber = yield* Effect.forkChild(Effect.provide(complete, hangs.layer))
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.interrupt(fiber)
      assert.deepInclude(finishedOf(hangs.events)[0], { ok: false, tag: null, cancelled: true, elapsedMs: 5_000 })
      const dies = worldOf(ScriptedModel.make([{ run: () => Effect.die(new Error("mine")) }]).client)
      yield* Effect.exit(Effect.provide(complete, dies.layer))
      assert.deepInclude(finishedOf(dies.events)[0], { ok: false, tag: "Defect", cancelled: false })
    })
  )
})

describe("a consumer that takes nothing", () => {
  it.effect("stops the reads once sixteen parts wait for it", () =>
    Effect.gen(function* () {
      let read = 0
      const parts = Stream.fromIterable(Array.from({ length: 200 }, (_, at) => `${at}`)).pipe(
        Stream.rechunk(1),
        Stream.map((text): ModelPart => {
          read += 1
          return { _tag: "Text", text }
        })
      )
      const client = ModelClient.of({ generate: () => Effect.never, stream: () => parts })
      const stuck = Effect.flatMap(Recovery, (recovery) =>
        Stream.runForEach(recovery.stream({ messages }), () => Effect.never)
      )
      const fiber = yield* Effect.forkChild(Effect.provide(stuck, worldOf(client).layer))
      yield* TestClock.adjust("1 second")
      // Sixteen are in the consumer's hands, sixteen wait in the queue, and one waits for a place there.
      assert.strictEqual(read, 33)
      yield* Fiber.interrupt(fiber)
    })
  )
})
