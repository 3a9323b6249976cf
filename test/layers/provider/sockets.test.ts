import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import OpenAI from "openai"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as AnthropicModelClient from "../../../src/layers/provider/AnthropicModelClient.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { json, provider, until, type Answer, type Provider } from "../../support/loopback.ts"
import { completeThree, interruptsClean, threeMessages, worldOver } from "../../support/world.ts"

const layerOf = (
  server: Provider,
  input: Partial<RecoveryPolicyInput> = {},
  client: Partial<OpenAiModelClient.OpenAiOptions> = {}
) =>
  worldOver(
    new RecoveryPolicy({ ...RecoveryPolicy.strict, routes: [{ model: "m" }], ...input }),
    OpenAiModelClient.layer({ apiKey: "sk-test-12345678", baseUrl: server.baseUrl, ...client })
  ).layer

const fine = { choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "fine" } }] }

const messages = threeMessages

const complete = completeThree

describe("on real sockets", () => {
  const hang: Answer = () => undefined
  it.live.each([
    { when: "a call", answer: hang, ready: (server: Provider) => server.bodies.length === 1, requests: 1 },
    {
      when: "a wait",
      answer: ((_request, response) => json(response, 429, {}, { "retry-after": "60" })) satisfies Answer,
      ready: (server: Provider) => server.closed() === 1,
      requests: 1
    },
    {
      when: "a compaction",
      answer: ((_request, response, body) => {
        if (JSON.stringify(body).includes("Summarise")) return
        json(response, 400, { error: { code: "context_length_exceeded" } })
      }) satisfies Answer,
      ready: (server: Provider) => server.bodies.length === 2,
      requests: 2
    }
  ])("interruption during $when leaves no connection and no timer, and sends nothing more", (interruption) =>
    interruptsClean({
      ...interruption,
      layerOf: (server) => layerOf(server, { compaction: { mode: "once", keepRecentMessages: 1 } })
    })
  )

  it.live.each([
    { with: "the default transport", client: () => ({}) },
    {
      with: "the platform's fetch",
      client: () => ({ fetch: globalThis.fetch as OpenAiModelClient.OpenAiOptions["fetch"] & {} })
    },
    {
      with: "a client of the caller's",
      client: (server: Provider) => ({
        client: new OpenAI({ apiKey: "sk-own-12345678", baseURL: server.baseUrl, maxRetries: 5 })
      })
    }
  ])("the SDK never retries by itself, with $with", ({ client }) =>
    Effect.gen(function* () {
      const server = yield* provider((_request, response) => json(response, 500, { error: { message: "no" } }))
      const exit = yield* Effect.exit(Effect.provide(complete, layerOf(server, {}, client(server))))
      assert.isTrue(Exit.isFailure(exit))
      assert.strictEqual(server.bodies.length, 1)
    }).pipe(Effect.scoped)
  )

  it.live.each([
    { name: "openai", make: OpenAiModelClient.make, header: "x-request-id" },
    { name: "anthropic", make: AnthropicModelClient.make, header: "request-id" }
  ])("tells a body that breaks off from a connection that never answered: $name", ({ make, header }) =>
    Effect.gen(function* () {
      const request = { messages, model: "m", maxOutputTokens: 5, role: "main" } as const
      const server = yield* provider((_request, response) => {
        const status = server.bodies.length === 1 ? 200 : 529
        response.writeHead(status, { "content-type": "application/json", "content-length": "500", [header]: "r1" })
        response.write('{"id":')
        setTimeout(() => response.destroy(), 20)
      })
      const { generate } = make({ apiKey: "sk-test-12345678", baseUrl: server.baseUrl })
      const cut = yield* Effect.flip(generate(request))
      assert.deepStrictEqual([cut._tag, cut.status, cut.providerRequestId], ["ModelStreamInterruptedError", null, "r1"])
      // Of a failure the status is enough.
      const overloaded = yield* Effect.flip(generate(request))
      assert.deepStrictEqual([overloaded._tag, overloaded.status], ["ModelOverloadedError", 529])
      const gone = yield* Effect.flip(
        make({ apiKey: "sk-test-12345678", baseUrl: "http://127.0.0.1:1" }).generate(request)
      )
      assert.strictEqual(gone._tag, "ModelConnectionError")
    }).pipe(Effect.scoped)
  )

  it.live("keeps a sibling code and an array body that the SDK would drop", () =>
    Effect.gen(function* () {
      const bodies: ReadonlyArray<unknown> = [
        { code: "insufficient_quota", error: "some text" },
        [{ error: { code: "context_length_exceeded" } }]
      ]
      const seen: Array<string> = []
      for (const body of bodies) {
        const server = yield* provider((_request, response) => json(response, body === bodies[0] ? 429 : 400, body))
        const failure = yield* Effect.flip(Effect.provide(complete, layerOf(server, { compaction: { mode: "off" } })))
        seen.push(`${failure._tag} ${"code" in failure ? failure.code : ""}`)
      }
      assert.deepStrictEqual(seen, [
        "ModelQuotaExhaustedError insufficient_quota",
        "ModelPromptTooLongError context_length_exceeded"
      ])
    }).pipe(Effect.scoped)
  )

  it.live("replaces the key in the provider's words and shows no key anywhere", () =>
    Effect.gen(function* () {
      const server = yield* provider((_request, response) =>
        json(response, 401, { error: { message: "bad key sk-test-12345678" } })
      )
      const failure = yield* Effect.flip(Effect.provide(complete, layerOf(server)))
      assert.isTrue(failure._tag === "ModelAuthenticationError" && failure.providerMessage === "bad key <redacted>")
      assert.notInclude(JSON.stringify(failure) + String(failure) + String(failure.stack), "12345678")
    }).pipe(Effect.scoped)
  )

  it.live("passes unknown fields, content parts and extra parameters through", () =>
    Effect.gen(function* () {
      const server = yield* provider((_request, response) => json(response, 200, fine))
      const part = { type: "input_thing", thing: { deep: [1, { a: null }] } }
      const ask = Effect.flatMap(Recovery, (recovery) =>
        recovery.complete({
          messages: [{ role: "user", content: [part], name: "ann" }],
          params: { temperature: 0.5, vendor_option: { x: true } }
        })
      )
      yield* Effect.provide(ask, layerOf(server))
      const body = server.bodies[0] ?? {}
      assert.deepStrictEqual(body["messages"], [{ role: "user", content: [part], name: "ann" }])
      assert.deepStrictEqual(
        [body["temperature"], body["vendor_option"], body["max_tokens"]],
        [0.5, { x: true }, 8_000]
      )
    }).pipe(Effect.scoped)
  )
})

const chunk = (text: string): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text }, finish_reason: null }] })}\n\n`

describe("streams on real sockets", () => {
  const ask = Stream.unwrap(Effect.map(Recovery, (recovery) => recovery.stream({ messages })))

  it.live("interruption in mid-stream closes the socket", () =>
    Effect.gen(function* () {
      const server = yield* provider((_request, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(chunk("hello "))
      })
      const seen: Array<string> = []
      const fiber = yield* Effect.forkChild(
        Stream.runForEach(ask, (part) => Effect.sync(() => seen.push(part._tag))).pipe(Effect.provide(layerOf(server)))
      )
      yield* until(() => seen.includes("TextDelta"))
      yield* Fiber.interrupt(fiber)
      yield* until(() => server.open() === 0)
    }).pipe(Effect.scoped)
  )

  it.live("leaving the stream early closes the socket", () =>
    Effect.gen(function* () {
      const server = yield* provider((_request, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(chunk("hello "))
      })
      yield* Stream.runDrain(Stream.take(ask, 1)).pipe(Effect.provide(layerOf(server)))
      yield* until(() => server.open() === 0)
    }).pipe(Effect.scoped)
  )

  it.live("a consumer that stops reading makes the server's writes stop", () =>
    Effect.gen(function* () {
      let written = 0
      let isBlocked = false
      const big = chunk("x".repeat(64_000))
      const server = yield* provider((_request, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        const write = (): void => {
          if (response.destroyed || written > 2_000) return
          written += 1
          if (response.write(big)) setImmediate(write)
          else {
            isBlocked = true
            response.once("drain", () => {
              isBlocked = false
              write()
            })
          }
        }
        write()
      })
      const fiber = yield* Effect.forkChild(
        Stream.runForEach(ask, () => Effect.never).pipe(Effect.provide(layerOf(server)))
      )
      // The buffers on the way take some; a busy machine fills them slowly.
      let before = -1
      while (written <= 2_000 && !(isBlocked && written === before)) {
        before = written
        yield* Effect.sleep(300)
      }
      assert.isTrue(isBlocked)
      assert.isBelow(written, 1_000)
      yield* Fiber.interrupt(fiber)
    }).pipe(Effect.scoped)
  )

  it.live("reuses the connection after a stream that ended with [DONE]", () =>
    Effect.gen(function* () {
      const ports = new Set<number | undefined>()
      const server = yield* provider((request, response) => {
        ports.add(request.socket.remotePort)
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write(chunk("hello"))
        response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\n`)
        response.end("data: [DONE]\n\n")
      })
      const layer = layerOf(server)
      const twice = Effect.andThen(Stream.runDrain(ask), Stream.runDrain(ask))
      yield* Effect.provide(twice, layer)
      assert.strictEqual(ports.size, 1)
    }).pipe(Effect.scoped)
  )
})
