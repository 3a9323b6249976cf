/**
 * The library around a provider a test makes up: recovery by a policy, over a client, with every event it tells. The
 * client is a script, a client written for the test, or an adapter over real sockets.
 */
import { assert } from "@effect/vitest"
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import { TestClock } from "effect/testing"
import type { Message } from "../../src/domain/chat/Message.ts"
import type { RecoveryEvent } from "../../src/domain/recovery/RecoveryEvent.ts"
import type { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../src/layers/ScriptedModel.ts"
import * as EventsMemory from "../../src/layers/stores/EventsMemory.ts"
import { ModelClient } from "../../src/services/ModelClient.ts"
import { Recovery } from "../../src/services/Recovery.ts"
import type { Summarizer } from "../../src/services/Summarizer.ts"
import { provider, timers, until, type Answer, type Provider } from "./loopback.ts"

export interface World {
  readonly events: Array<RecoveryEvent>
  readonly layer: Layer.Layer<Recovery>
}

type Client = ModelClient["Service"] | Layer.Layer<ModelClient, unknown>

interface WorldOptions {
  readonly recovery?: RecoveryLive.RecoveryOptions
  /** Default: the model itself, asked by the first route's name. */
  readonly summarizer?: Layer.Layer<Summarizer, never, ModelClient>
}

const clientLayer = (client: Client): Layer.Layer<ModelClient> =>
  Layer.isLayer(client)
    ? Layer.orDie(client as Layer.Layer<ModelClient, unknown>)
    : Layer.succeed(ModelClient, client as ModelClient["Service"])

export const worldOver = (policy: RecoveryPolicy, client: Client, options: WorldOptions = {}): World => {
  const events: Array<RecoveryEvent> = []
  const summarizer = options.summarizer ?? ModelSummarizer.layer({ model: policy.routes[0].model })
  const layer = RecoveryLive.layer(policy, options.recovery).pipe(
    Layer.provide(summarizer),
    Layer.provide(clientLayer(client)),
    Layer.provide(EventsMemory.layerTo((event) => Effect.sync(() => events.push(event)))),
    Layer.orDie
  )
  return { events, layer }
}

export interface ScriptedWorld extends World {
  readonly model: ScriptedModel.ScriptedModel
}

export const scriptedWorld = (policy: RecoveryPolicy, steps: ReadonlyArray<ScriptedModel.Step>): ScriptedWorld => {
  const model = ScriptedModel.make(steps)
  return { model, ...worldOver(policy, model.client) }
}

/** Chance that always answers 0: every delay is its step. */
export const fixedRandom = { nextDoubleUnsafe: () => 0, nextIntUnsafe: () => 0 }

/** Runs a program under the test clock until it ends, however long it waits. */
export const toEnd = <A, E>(
  world: Pick<World, "layer">,
  program: Effect.Effect<A, E, Recovery>,
  time: Duration.Input = "8 hours"
) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Effect.exit(program))
    yield* TestClock.adjust(time)
    return yield* Fiber.join(fiber)
  }).pipe(Effect.provide(world.layer), Effect.provideService(Random.Random, fixedRandom))

export const freeze = <A>(value: A): A => {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const entry of Object.values(value)) freeze(entry)
  }
  return value
}

/** The failure a program ended with. */
export const errorOf = <A, E>(exit: Exit.Exit<A, E>): E => {
  if (Exit.isSuccess(exit)) throw new Error("it succeeded")
  const found = Cause.findErrorOption(exit.cause)
  if (found._tag === "None") throw new Error(Cause.pretty(exit.cause))
  return found.value
}

/** A history that can be shortened: a question, its answer, another question. */
export const threeMessages: ReadonlyArray<Message> = [
  { role: "user", content: "one" },
  { role: "assistant", content: "two" },
  { role: "user", content: "three" }
]

export const completeThree = Effect.flatMap(Recovery, (recovery) => recovery.complete({ messages: threeMessages }))

/** When an interruption over real sockets comes, and what has been sent by then. */
export interface Interruption {
  readonly answer: Answer
  readonly ready: (server: Provider) => boolean
  readonly requests: number
  readonly layerOf: (server: Provider) => Layer.Layer<Recovery, unknown>
}

/** Interrupts a call over real sockets: no connection and no timer is left, and nothing more is sent. */
export const interruptsClean = ({ answer, ready, requests, layerOf }: Interruption) =>
  Effect.gen(function* () {
    const server = yield* provider(answer)
    const before = timers()
    const fiber = yield* Effect.forkChild(Effect.provide(completeThree, layerOf(server)))
    yield* until(() => ready(server))
    yield* Effect.sleep(20)
    yield* Fiber.interrupt(fiber)
    yield* until(() => server.open() === 0)
    assert.strictEqual(server.bodies.length, requests)
    // The agent's own keep-alive timers aside, nothing of the request is left.
    assert.isAtMost(timers(), before + 1)
  }).pipe(Effect.scoped)
