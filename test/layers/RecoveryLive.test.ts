import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { TestClock } from "effect/testing"
import { ConfigurationError } from "../../src/domain/failure/ConfigurationError.ts"
import type { Message } from "../../src/domain/chat/Message.ts"
import type { ModelRequest } from "../../src/domain/chat/ModelRequest.ts"
import { RecoveryPolicy, type RouteInput } from "../../src/domain/recovery/RecoveryPolicy.ts"
import * as BudgetMemory from "../../src/layers/stores/BudgetMemory.ts"
import * as EventsMemory from "../../src/layers/stores/EventsMemory.ts"
import * as ModelSummarizer from "../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../src/layers/ScriptedModel.ts"
import { BudgetLedger } from "../../src/services/BudgetLedger.ts"
import { ModelClient } from "../../src/services/ModelClient.ts"
import { PolicyOverride } from "../../src/services/Overrides.ts"
import { Recovery } from "../../src/services/Recovery.ts"

const primary = ScriptedModel.make([])
const backup = ScriptedModel.make([]).client

const layerOf = (
  routes: ReadonlyArray<RouteInput>,
  options: RecoveryLive.RecoveryOptions = {},
  client = primary.client
) =>
  RecoveryLive.layer(new RecoveryPolicy({ routes }), options).pipe(
    Layer.provide(ModelSummarizer.layer({ model: "m" })),
    Layer.provide(Layer.succeed(ModelClient, client))
  )

const ask = Effect.flatMap(Recovery, (recovery) =>
  recovery.complete({ messages: [{ role: "user", content: "hello" }] })
)

/** The configuration error an effect fails or dies with. */
const faultOf = <A, E>(program: Effect.Effect<A, E>) =>
  Effect.map(Effect.exit(program), (exit) => {
    const found = Exit.isFailure(exit) ? Cause.squash(exit.cause) : null
    if (!(found instanceof ConfigurationError)) throw new Error(`no configuration error: ${String(found)}`)
    return found
  })

describe("the layer", () => {
  it.effect.each<{
    readonly name: string
    readonly client: string | null
    readonly clients: Record<string, typeof backup>
    readonly field: string
  }>([
    { name: "a route of a client that is not registered", client: "backup", clients: {}, field: "routes[0].client" },
    { name: "a name every object has", client: "toString", clients: {}, field: "routes[0].client" },
    { name: "a client no route names", client: null, clients: { backup }, field: "clients.backup" }
  ])("refuses $name", ({ client, clients, field }) =>
    Effect.gen(function* () {
      const fault = yield* faultOf(Effect.provide(ask, layerOf([{ model: "m", client }], { clients })))
      assert.strictEqual(fault.field, field)
    })
  )
})

describe("a call", () => {
  it.effect("sends nothing to the default client when an override names a client that is not registered", () =>
    Effect.gen(function* () {
      const model = ScriptedModel.make([{ reply: { text: "from the wrong provider" } }])
      const fault = yield* ask.pipe(
        Effect.provideService(PolicyOverride, { routes: [{ model: "m" }, { model: "n", client: "elsewhere" }] }),
        Effect.provide(layerOf([{ model: "m" }], {}, model.client)),
        faultOf
      )
      assert.strictEqual(fault.field, "routes[1].client")
      assert.strictEqual(model.requests.length, 0)
    })
  )

  it.effect("is not failed by a listener that breaks", () =>
    Effect.gen(function* () {
      const model = ScriptedModel.make([{ reply: { text: "fine" } }])
      const broken = EventsMemory.layerTo(() => Effect.die(new Error("a bug of the listener")))
      const reply = yield* Effect.provide(ask, layerOf([{ model: "m" }], {}, model.client).pipe(Layer.provide(broken)))
      assert.strictEqual(reply.text, "fine")
    })
  )

  it.effect("skips a fallback without tools when it has some, and stays on the one it found for the turn", () =>
    Effect.gen(function* () {
      const overloaded: ScriptedModel.Step = { fail: { kind: "overloaded", status: 529 } }
      const script: ReadonlyArray<ScriptedModel.Step> = [
        overloaded,
        overloaded,
        overloaded,
        { reply: { text: "one" } },
        { reply: { text: "two" } }
      ]
      const tools = [{ type: "function", function: { name: "look" } }] as const
      const modelsOf = (first: ModelRequest, second: ModelRequest) =>
        Effect.gen(function* () {
          const model = ScriptedModel.make(script)
          const turn = Effect.flatMap(Recovery, (recovery) =>
            recovery.turn(Effect.andThen(recovery.complete(first), recovery.complete(second)))
          )
          const fiber = yield* turn.pipe(
            Effect.provide(layerOf([{ model: "a" }, { model: "b", tools: false }, { model: "c" }], {}, model.client)),
            Effect.forkChild
          )
          yield* TestClock.adjust("1 minute")
          yield* Fiber.join(fiber)
          return model.requests.slice(3).map((request) => request.model)
        })
      const plain: ModelRequest = { messages: [{ role: "user", content: "hello" }] }
      assert.deepStrictEqual(yield* modelsOf(plain, plain), ["b", "b"])
      assert.deepStrictEqual(yield* modelsOf({ ...plain, tools }, plain), ["c", "c"])
      assert.deepStrictEqual(yield* modelsOf(plain, { ...plain, tools }), ["b", "a"])
    })
  )

  it.effect("sends a route no thinking when it takes none back", () =>
    Effect.gen(function* () {
      const messages: ReadonlyArray<Message> = [
        { role: "user", content: "hello" },
        { role: "assistant", content: "hi", reasoning_parts: [{ model: "m", text: "hm" }] },
        { role: "user", content: "and?" }
      ]
      for (const thinking of [true, false]) {
        const model = ScriptedModel.make([{ reply: { text: "fine" } }])
        yield* Effect.flatMap(Recovery, (recovery) => recovery.complete({ messages })).pipe(
          Effect.provide(layerOf([{ model: "m", thinking }], {}, model.client))
        )
        assert.strictEqual("reasoning_parts" in (model.requests[0]?.messages[1] ?? {}), thinking)
      }
    })
  )

  it.effect("is one span with one for its request inside, whether it streams or not", () =>
    Effect.gen(function* () {
      const spans: Array<string> = []
      const tracer = Tracer.make({
        span: (options) => {
          spans.push(options.name)
          return new Tracer.NativeSpan(options)
        }
      })
      const model = ScriptedModel.make([{ reply: { text: "one" } }, { reply: { text: "two" } }])
      const streamed = Effect.flatMap(Recovery, (recovery) =>
        Stream.runDrain(recovery.stream({ messages: [{ role: "user", content: "hello" }] }))
      )
      yield* Effect.andThen(ask, streamed).pipe(
        Effect.provide(layerOf([{ model: "m" }], {}, model.client)),
        Effect.withTracer(tracer)
      )
      assert.deepStrictEqual(spans, ["holdfast.complete", "chat m", "holdfast.stream", "chat m"])
    })
  )

  it.effect("is refused before its first request when a limit in USD meets a model without prices", () =>
    Effect.gen(function* () {
      const model = ScriptedModel.make([{ reply: { text: "of unknown cost" } }])
      const session = yield* BudgetMemory.make({ maxTokens: null, maxCostUsd: 1 })
      const child = yield* session.child({ maxTokens: 10_000, maxCostUsd: null })
      for (const ledger of [session, child]) {
        const fault = yield* ask.pipe(
          Effect.provideService(BudgetLedger, ledger),
          Effect.provide(layerOf([{ model: "large" }], {}, model.client)),
          faultOf
        )
        assert.strictEqual(fault.field, "routes[0].prices")
        assert.include(fault.message, "large")
      }
      assert.strictEqual(model.requests.length, 0)
    })
  )
})
