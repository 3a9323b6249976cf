import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { ConfigurationError } from "../../src/domain/ConfigurationError.ts"
import { RecoveryPolicy, type RouteInput } from "../../src/domain/RecoveryPolicy.ts"
import * as BudgetMemory from "../../src/layers/BudgetMemory.ts"
import * as EventsMemory from "../../src/layers/EventsMemory.ts"
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

  it.effect("is one span, whether it streams or not", () =>
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
      assert.deepStrictEqual(spans, ["holdfast.complete", "holdfast.stream"])
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
