import { assert, describe, it } from "@effect/vitest"
import OpenAI from "openai"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as AnthropicModelClient from "../../../src/layers/provider/AnthropicModelClient.ts"
import { identityOf } from "../../../src/layers/provider/clientIdentity.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as HealthMemory from "../../../src/layers/stores/HealthMemory.ts"
import { HealthStore } from "../../../src/services/HealthStore.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { Recovery } from "../../../src/services/Recovery.ts"

const openAi = (options: OpenAiModelClient.OpenAiOptions = {}): string =>
  identityOf(OpenAiModelClient.make({ apiKey: "sk-one", baseUrl: "https://a.example.com/v1", ...options }))
const anthropic = (options: AnthropicModelClient.AnthropicOptions = {}): string =>
  identityOf(AnthropicModelClient.make({ apiKey: "sk-one", ...options }))
const other: typeof fetch = () => Promise.resolve(new Response(""))

describe("a client is known by its provider and key", () => {
  it("which two adapters of one address and key share, also over an SDK client of the caller's", () => {
    const sdk = () => new OpenAI({ apiKey: "sk-one", baseURL: "https://a.example.com/v1" })
    assert.strictEqual(openAi(), openAi())
    assert.strictEqual(openAi(), openAi({ client: sdk() }))
    assert.strictEqual(anthropic(), anthropic())
    assert.strictEqual(openAi({ fetch: other }), openAi({ fetch: other }))
  })

  it.each([
    ["another address", openAi({ baseUrl: "https://b.example.com/v1" })],
    ["another key", openAi({ apiKey: "sk-two" })],
    ["another transport", openAi({ fetch: other })],
    ["a transport with options", openAi({ fetchOptions: {} })],
    ["a key that is fetched", openAi({ client: new OpenAI({ apiKey: () => Promise.resolve("sk-one") }) })],
    [
      "another organisation",
      openAi({ client: new OpenAI({ apiKey: "sk-one", organization: "o", baseURL: "https://a.example.com/v1" }) })
    ],
    ["another provider", anthropic()]
  ])("which tells %s apart", (_, identity) => {
    assert.notStrictEqual(identity, openAi())
    assert.notInclude(identity, "sk-")
  })

  it("or by the object when it says nothing: no two scripts share", () => {
    const { client } = ScriptedModel.make([])
    assert.strictEqual(identityOf(client), identityOf(client))
    assert.notStrictEqual(identityOf(client), identityOf(ScriptedModel.make([]).client))
  })
})

const policy = new RecoveryPolicy({
  ...RecoveryPolicy.broad,
  routes: [{ model: "large" }, { model: "small" }],
  backoff: { base: 1, cap: 1 }
})
const overloaded: ScriptedModel.Step = { fail: { kind: "overloaded", status: 529 } }
const whole: ScriptedModel.Step = { reply: { text: "whole" } }

/** The model a recovery of its own over this client gets its reply from. */
const modelOf = Effect.fnUntraced(function* (client: (typeof ModelClient)["Service"]) {
  const recovery = RecoveryLive.layer(policy).pipe(
    Layer.provide(ModelSummarizer.layer({ model: "small" })),
    Layer.provide(Layer.succeed(ModelClient, client))
  )
  const fiber = yield* Effect.flatMap(Recovery, ({ complete }) =>
    complete({ messages: [{ role: "user", content: "go" }] })
  ).pipe(Effect.provide(recovery), Effect.forkChild)
  yield* TestClock.adjust("1 second")
  return (yield* Fiber.join(fiber)).model
})

it.effect("route health of one scripted client says nothing about another one", () =>
  Effect.gen(function* () {
    const steps = [overloaded, overloaded, overloaded, whole, whole]
    const ill = ScriptedModel.make(steps).client
    assert.strictEqual(yield* modelOf(ill), "small")
    assert.strictEqual(yield* modelOf(ScriptedModel.make([whole]).client), "large")
    // What is known of the same client is kept.
    assert.strictEqual(yield* modelOf(ill), "small")
    // Clients that say they are one share.
    const named = { ...ScriptedModel.make(steps).client, identity: "gateway" }
    assert.strictEqual(yield* modelOf(named), "small")
    assert.strictEqual(yield* modelOf({ ...ScriptedModel.make([whole]).client, identity: "gateway" }), "small")
  }).pipe(Effect.provideService(HealthStore, HealthMemory.make()))
)
