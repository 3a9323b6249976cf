import { assert, describe, it } from "@effect/vitest"
import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { readFileSync } from "node:fs"
import { vi } from "vitest"
import { ConfigurationError } from "../../src/domain/failure/ConfigurationError.ts"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../src/layers/RecoveryLive.ts"
import * as HealthMemory from "../../src/layers/stores/HealthMemory.ts"
import * as AnthropicModelClient from "../../src/layers/provider/AnthropicModelClient.ts"
import * as OpenAiModelClient from "../../src/layers/provider/OpenAiModelClient.ts"
import { createRecovery } from "../../src/promise.ts"
import { ModelClient } from "../../src/services/ModelClient.ts"
import { Recovery } from "../../src/services/Recovery.ts"
import { chaosFetch, chaosServer, faultScript, virtualTime, type ChaosStep } from "../../src/testing.ts"
import { runs } from "../support/runs.ts"

const baseURL = "https://provider.test/v1"
const apiKey = "not-a-key"
const messages = [{ role: "user" as const, content: "go" }]

const clients = {
  chat: (fetch: typeof globalThis.fetch) => OpenAiModelClient.make({ apiKey, baseUrl: baseURL, fetch }),
  responses: (fetch: typeof globalThis.fetch) =>
    OpenAiModelClient.make({ apiKey, baseUrl: baseURL, fetch, api: "responses" }),
  messages: (fetch: typeof globalThis.fetch) =>
    AnthropicModelClient.make({ apiKey, baseUrl: "https://provider.test", fetch })
}
type Wire = keyof typeof clients
const wires: ReadonlyArray<Wire> = ["chat", "responses", "messages"]

const recoveryOver = (wire: Wire, fetch: typeof globalThis.fetch) =>
  Layer.merge(
    RecoveryLive.layer(new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "large" }] })).pipe(
      Layer.provide(ModelSummarizer.layer({ model: "large" })),
      Layer.provide(Layer.succeed(ModelClient, clients[wire](fetch)))
    ),
    HealthMemory.layer()
  )

/** One streamed request: what is on the screen in the end, and the reply. */
const streamed = (wire: Wire, fetch: typeof globalThis.fetch) =>
  Effect.gen(function* () {
    const recovery = yield* Recovery
    let screen = ""
    let reply: string | null = null
    yield* Stream.runForEach(recovery.stream({ messages }), (part) =>
      Effect.sync(() => {
        if (part._tag === "TextDelta") screen += part.text
        if (part._tag === "Reset") screen = ""
        if (part._tag === "Finish") reply = part.reply.text
      })
    )
    return { screen, reply }
  }).pipe(Effect.provide(recoveryOver(wire, fetch)))

describe("a scripted provider", () => {
  it.each(wires)("answers the real SDK on the %s wire, streamed and not, in its own words", async (wire) => {
    const answer: ChaosStep = { reply: { text: "Hello, world!", toolCalls: [{ name: "add", args: { a: 1 } }] } }
    const chaos = chaosFetch([answer, answer])
    const client = clients[wire](chaos.fetch)
    const request = { messages, model: "large", maxOutputTokens: 100, role: "main" as const }
    const whole = await Effect.runPromise(client.generate(request))
    const parts = await Effect.runPromise(Stream.runCollect(client.stream(request)))
    const last = parts.at(-1)
    assert.strictEqual(whole.text, "Hello, world!")
    assert.deepStrictEqual(
      whole.toolCalls.map(({ name, arguments: args }) => [name, args]),
      [["add", '{"a":1}']]
    )
    assert.strictEqual(last?._tag === "End" ? last.reply.text : null, "Hello, world!")
    assert.deepStrictEqual([chaos.requests.length, chaos.stepsLeft()], [2, 0])
    await vi.waitFor(() => assert.strictEqual(chaos.connectionsOpen(), 0))
  })
  it.each(wires)("cuts, stalls and fails on the %s wire; broad gets over it in virtual time", async (wire) => {
    const time = virtualTime()
    const chaos = chaosFetch(
      [
        { cut: "Hel" },
        { stall: "" },
        { status: 529 },
        { status: 429, retryAfter: 7 },
        { cut: "" },
        { stall: "Hello, w" },
        { reply: "Hello, world!" }
      ],
      { time }
    )
    const { screen, reply } = await time.runPromise(streamed(wire, chaos.fetch))
    assert.deepStrictEqual([screen, reply], ["Hello, world!", "Hello, world!"])
    assert.deepStrictEqual([chaos.requests.length, chaos.connectionsOpen(), chaos.hasRunOut()], [7, 0, false])
    assert.isAbove(time.now(), 7_000)
  })
  it("tells a request that came behind the last step, and answers it with what nobody repeats", async () => {
    const chaos = chaosFetch([])
    const sdk = new OpenAI({ apiKey, baseURL, fetch: chaos.fetch })
    const failure = await sdk.chat.completions.create({ model: "m", messages }).catch((error: unknown) => error)
    assert.propertyVal(failure, "status", 400)
    assert.deepStrictEqual([chaos.hasRunOut(), chaos.requests.length], [true, 1])
    assert.deepStrictEqual(chaos.differences(), ["a request found no scripted answer"])
  })
  it("plays the fault scripts of the drill to any client, and says what of their expectations does not hold", async () => {
    const file = JSON.parse(readFileSync(new URL("../fixtures/scenarios/dev.json", import.meta.url), "utf8"))
    const scenario = file.scenarios.find((one: { id: string }) => one.id === "D-RT-02") ?? file.scenarios[0]
    const chaos = chaosFetch(JSON.stringify(scenario))
    const sdk = new OpenAI({ apiKey, baseURL, fetch: chaos.fetch, maxRetries: 0 })
    await sdk.chat.completions.create({ model: "primary-model", messages }).catch(() => null)
    assert.isNotEmpty(chaos.differences())
    assert.deepStrictEqual(chaos.differences({ expect: { requestCount: 1, requestModels: ["primary-model"] } }), [])
    assert.lengthOf(chaos.differences({ expect: { requestCount: 2 } }), 1)
    const result = { reply: "x" }
    assert.deepStrictEqual(chaos.differences({ expect: { result: { reply: "x" } }, result }), [])
    assert.lengthOf(chaos.differences({ expect: { result: { reply: "y" } }, result }), 1)
  })
  it("refuses a step that is none, by its place", () => {
    const bad = (script: unknown, field: string): void => {
      try {
        chaosFetch(script as never)
        assert.fail("it was taken")
      } catch (error) {
        assert.instanceOf(error, ConfigurationError)
        assert.strictEqual(error.field, field)
      }
    }
    bad("{", "script")
    bad({}, "provider")
    bad([{ reply: "a" }, { http: "200" }], "provider[1]")
    bad([{ reply: "a", twice: true }], "provider[0]")
    bad([{ status: "529" }], "provider[0]")
    bad([{ status: 529, retryafter: 3 }], "provider[0]")
    bad([{ reply: "a", repeat: -1 }], "provider[0]")
    bad([null], "provider[0]")
  })
  it.each(wires)(
    "says on the %s wire what a provider says beside a status, and a code of one's own instead",
    async (wire) => {
      const client = (step: ChaosStep) => clients[wire](chaosFetch([step]).fetch)
      const request = { messages, model: "large", maxOutputTokens: 100, role: "main" as const }
      const kindOf = (step: ChaosStep) =>
        Effect.runPromise(Effect.map(Effect.flip(client(step).generate(request)), ({ kind }) => kind))
      const kinds = await Promise.all([400, 401, 404, 429, 500, 503, 529].map((status) => kindOf({ status })))
      assert.deepStrictEqual(kinds, [
        "invalid_request",
        "auth",
        "not_found",
        "rate_limited",
        "server_error",
        "overloaded",
        "overloaded"
      ])
      const code = wire === "messages" ? "overloaded_error" : "server_is_overloaded"
      assert.strictEqual(await kindOf({ status: 503, code }), "overloaded")
    }
  )
  it("plays a step as often as it says", async () => {
    const chaos = chaosFetch([{ status: 529, repeat: 2 }, { reply: "at last" }])
    const sdk = new OpenAI({ apiKey, baseURL, fetch: chaos.fetch, maxRetries: 0 })
    const ask = () => sdk.chat.completions.create({ model: "m", messages })
    const seen = [await ask().catch(() => "failed"), await ask().catch(() => "failed"), await ask()]
    assert.deepStrictEqual(seen.slice(0, 2), ["failed", "failed"])
    assert.deepStrictEqual([chaos.requests.length, chaos.stepsLeft()], [3, 0])
  })
  it("names the field that no step has, and those there are", () => {
    assert.throws(
      () => chaosFetch([{ status: 529, retryafter: 3 } as never]),
      /retryafter is not an option: the name is retryAfter/
    )
  })
  it("takes requests however fetch takes them", async () => {
    const chaos = chaosFetch([{ reply: "a" }, { reply: "b" }, { reply: "c" }])
    const body = JSON.stringify({ model: "m", messages })
    const url = `${baseURL}/chat/completions`
    const texts = [
      await chaos.fetch(new Request(url, { method: "POST", body })),
      await chaos.fetch(new URL(url), { method: "POST", body: new TextEncoder().encode(body) }),
      await chaos.fetch("/v1/messages", { method: "POST", body: "no json" })
    ].map((response) => response.text())
    assert.deepStrictEqual(
      (await Promise.all(texts)).map((one) => /"(?:content|text)":"(.)"/.exec(one)?.[1]),
      ["a", "b", "c"]
    )
    assert.strictEqual(chaos.requests[0]?.model, "m")
  })
})

describe("a scripted provider over sockets", () => {
  it("answers SDKs that know nothing of holdfast", async () => {
    const chaos = await chaosServer([
      { status: 500 },
      { reply: "from chat" },
      { cut: "Hel" },
      { reply: "from messages" }
    ])
    const sdk = new OpenAI({ apiKey, baseURL: chaos.baseUrl, maxRetries: 1 })
    const reply = await sdk.chat.completions.create({ model: "m", messages })
    assert.strictEqual(reply.choices[0]?.message.content, "from chat")
    const anthropic = new Anthropic({ apiKey, baseURL: chaos.baseUrl.replace(/\/v1$/, ""), maxRetries: 0 })
    const params = { model: "m", max_tokens: 9, messages }
    const cut = await anthropic.messages
      .stream(params)
      .finalMessage()
      .catch((error: unknown) => error)
    assert.instanceOf(cut, Error)
    const whole = await anthropic.messages.stream(params).finalText()
    assert.strictEqual(whole, "from messages")
    assert.deepStrictEqual([chaos.requests.length, chaos.stepsLeft()], [4, 0])
    await chaos.close()
  })
})

describe("fake timers of a test runner", () => {
  it("move a program of promises on", async () => {
    vi.useFakeTimers()
    try {
      const chaos = chaosFetch([{ status: 429, retryAfter: 3600 }, { reply: "an hour later" }])
      const recovery = createRecovery({
        policy: { ...RecoveryPolicy.unattended, routes: [{ model: "large" }] },
        client: OpenAiModelClient.make({ apiKey, baseUrl: baseURL, fetch: chaos.fetch }),
        health: "own"
      })
      const asked = recovery.complete({ messages })
      let isOver = false
      void asked.finally(() => (isOver = true))
      while (!isOver) await vi.advanceTimersByTimeAsync(60_000)
      const { text } = await asked
      assert.strictEqual(text, "an hour later")
      assert.isAtLeast((chaos.requests[1]?.atMs ?? 0) - (chaos.requests[0]?.atMs ?? 0), 3_600_000)
    } finally {
      vi.useRealTimers()
    }
  })
})

describe("a fault script from a number", () => {
  it("is the same for the same number, and another one for another", () => {
    assert.deepStrictEqual(faultScript(7), faultScript(7))
    const texts = new Set(Array.from({ length: 50 }, (_, seed) => JSON.stringify(faultScript(seed))))
    assert.isAbove(texts.size, 40)
    for (let seed = 0; seed < 200; seed += 1) assert.isAtMost(faultScript(seed, { maxFaults: 2 }).length, 3)
    assert.throws(() => faultScript(0.5), /seed/)
    assert.throws(() => faultScript(1, { maxFaults: 101 }), /maxFaults/)
  })
  it("is survived by broad on every wire: one whole reply, no text twice, nothing left open", async () => {
    const text = "All is well, \u{1F30D} and nothing is lost."
    for (let seed = 1; seed <= runs(300); seed += 1) {
      const wire = wires[seed % wires.length] ?? "chat"
      const time = virtualTime()
      const chaos = chaosFetch(faultScript(seed, { text }), { time })
      const { screen, reply } = await time.runPromise(streamed(wire, chaos.fetch))
      assert.deepStrictEqual([seed, screen, reply, chaos.connectionsOpen()], [seed, text, text, 0])
    }
  })
})
