import Anthropic from "@anthropic-ai/sdk"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import type { ServerResponse } from "node:http"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import type { ReplyPart } from "../../../src/domain/chat/ReplyPart.ts"
import * as AnthropicModelClient from "../../../src/layers/provider/AnthropicModelClient.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { json, provider, until, type Answer, type Provider } from "../../support/loopback.ts"
import { completeThree, interruptsClean, threeMessages, worldOver } from "../../support/world.ts"

const layerOf = (
  server: Provider,
  input: Partial<RecoveryPolicyInput> = {},
  client: Partial<AnthropicModelClient.AnthropicOptions> = {}
) =>
  worldOver(
    new RecoveryPolicy({
      ...RecoveryPolicy.broad,
      routeHealth: null,
      backoff: { base: 5, cap: 5 },
      routes: [{ model: "m" }],
      ...input
    }),
    AnthropicModelClient.layer({ apiKey: "sk-ant-12345678", baseUrl: server.baseUrl, ...client })
  ).layer

const fine = {
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text: "fine" }],
  stop_reason: "end_turn"
}

const failure = (type: string) => ({ type: "error", error: { type, message: "no" } })

const event = (body: { readonly type: string } & Readonly<Record<string, unknown>>): string =>
  `event: ${body.type}\ndata: ${JSON.stringify(body)}\n\n`

const ping = event({ type: "ping" })

const text = (words: string): string =>
  event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: words } })

const opening =
  event({ type: "message_start", message: { type: "message", role: "assistant", model: "m" } }) +
  event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } })

const ending =
  event({ type: "content_block_stop", index: 0 }) +
  event({ type: "message_delta", delta: { stop_reason: "end_turn" } }) +
  event({ type: "message_stop" })

const begin = (response: ServerResponse): void => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.write(opening)
}

const messages = threeMessages

const complete = completeThree
const ask = Stream.unwrap(Effect.map(Recovery, (recovery) => recovery.stream({ messages })))

describe("the messages API on real sockets", () => {
  it.live.each([
    {
      when: "a call",
      answer: (() => undefined) satisfies Answer,
      ready: (server: Provider) => server.bodies.length === 1
    },
    {
      when: "a wait",
      answer: ((_request, response) =>
        json(response, 429, failure("rate_limit_error"), { "retry-after": "60" })) satisfies Answer,
      ready: (server: Provider) => server.closed() === 1
    }
  ])("interruption during $when leaves no connection and no timer, and sends nothing more", (interruption) =>
    interruptsClean({ ...interruption, requests: 1, layerOf })
  )

  it.live.each([
    { with: "the default transport", client: () => ({}) },
    {
      with: "the platform's fetch",
      client: () => ({ fetch: globalThis.fetch as AnthropicModelClient.AnthropicOptions["fetch"] & {} })
    },
    {
      with: "a client of the caller's",
      client: (server: Provider) => ({
        client: new Anthropic({ apiKey: "sk-own-12345678", baseURL: server.baseUrl, maxRetries: 5 })
      })
    }
  ])("the SDK never retries by itself, with $with", ({ client }) =>
    Effect.gen(function* () {
      const server = yield* provider((_request, response) => json(response, 500, failure("api_error")))
      const exit = yield* Effect.exit(Effect.provide(complete, layerOf(server, RecoveryPolicy.strict, client(server))))
      assert.isTrue(Exit.isFailure(exit))
      assert.strictEqual(server.bodies.length, 1)
    }).pipe(Effect.scoped)
  )

  it.live("replaces the key in the provider's words and shows no key anywhere", () =>
    Effect.gen(function* () {
      const server = yield* provider((_request, response) =>
        json(response, 401, { type: "error", error: { type: "authentication_error", message: "bad sk-ant-12345678" } })
      )
      const error = yield* Effect.flip(Effect.provide(complete, layerOf(server)))
      assert.isTrue(error._tag === "ModelAuthenticationError" && error.providerMessage === "bad <redacted>")
      assert.notInclude(JSON.stringify(error) + String(error) + String(error.stack), "12345678")
    }).pipe(Effect.scoped)
  )
})

/** Streams with the answers in order, the last one again and again; what was shown after the last Reset, and all parts. */
const played = (answers: ReadonlyArray<(response: ServerResponse) => void>, input: Partial<RecoveryPolicyInput> = {}) =>
  Effect.gen(function* () {
    const server = yield* provider((_request, response) => {
      const at = Math.min(server.bodies.length, answers.length) - 1
      answers[at]?.(response)
    })
    const parts: Array<ReplyPart> = []
    yield* Stream.runForEach(ask, (part) => Effect.sync(() => parts.push(part))).pipe(
      Effect.provide(layerOf(server, input))
    )
    yield* until(() => server.open() === 0)
    const shown = parts.slice(parts.findLastIndex((part) => part._tag === "Reset") + 1)
    const words = shown.map((part) => (part._tag === "TextDelta" ? part.text : "")).join("")
    const end = parts.at(-1)
    return { words, requests: server.bodies.length, reply: end?._tag === "Finish" ? end.reply.text : null, parts }
  }).pipe(Effect.scoped)

const whole = (response: ServerResponse): void => {
  begin(response)
  response.end(text("hello ") + text("world") + ending)
}

describe("streams of events on real sockets", () => {
  it.live.each([
    {
      how: "interruption in mid-stream",
      leave: (server: Provider) =>
        Effect.gen(function* () {
          const seen: Array<string> = []
          const fiber = yield* Effect.forkChild(
            Stream.runForEach(ask, (part) => Effect.sync(() => seen.push(part._tag))).pipe(
              Effect.provide(layerOf(server))
            )
          )
          yield* until(() => seen.includes("TextDelta"))
          yield* Fiber.interrupt(fiber)
        })
    },
    {
      how: "leaving the stream early",
      leave: (server: Provider) => Stream.runDrain(Stream.take(ask, 1)).pipe(Effect.provide(layerOf(server)))
    }
  ])("$how closes the socket", ({ leave }) =>
    Effect.gen(function* () {
      const server = yield* provider((_request, response) => {
        begin(response)
        response.write(text("hello "))
      })
      yield* leave(server)
      yield* until(() => server.open() === 0)
      assert.strictEqual(server.bodies.length, 1)
    }).pipe(Effect.scoped)
  )

  it.live("a consumer that stops reading makes the server's writes stop", () =>
    Effect.gen(function* () {
      let written = 0
      let isBlocked = false
      const big = text("x".repeat(64_000))
      const server = yield* provider((_request, response) => {
        begin(response)
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
      yield* until(() => server.open() === 0)
    }).pipe(Effect.scoped)
  )

  it.live.each([
    {
      how: "a connection that is reset",
      cause: "ModelStreamInterruptedError",
      first: (response: ServerResponse): void => {
        begin(response)
        response.write(text("hel"), () => setTimeout(() => response.destroy(), 20))
      }
    },
    {
      how: "an end without message_stop",
      cause: "ModelStreamInterruptedError",
      first: (response: ServerResponse): void => {
        begin(response)
        response.end(text("hel"))
      }
    },
    {
      how: "an overloaded_error in the middle",
      cause: "ModelOverloadedError",
      first: (response: ServerResponse): void => {
        begin(response)
        response.write(text("hel"))
        response.end(event({ type: "error", error: { type: "overloaded_error", message: "busy" } }))
      }
    },
    {
      how: "a server that is silent but for its socket",
      cause: "ModelTimeoutError",
      first: (response: ServerResponse): void => {
        begin(response)
        response.write(text("hel"))
      }
    }
  ])("recovers from $how, and shows no word twice; alone it is $cause", ({ cause, first }) =>
    Effect.gen(function* () {
      const { reply, requests, words, parts } = yield* played([first, whole], { idleTimeout: 300 })
      assert.deepStrictEqual([reply, words, requests], ["hello world", "hello world", 2])
      assert.strictEqual(parts.filter((part) => part._tag === "Reset").length, 1)
      const failure = yield* Effect.flip(played([first], { idleTimeout: 300, maxAttempts: 1 }))
      assert.strictEqual(failure._tag === "RecoveryRetriesExhausted" ? failure.lastCause : failure._tag, cause)
    })
  )

  it.live("pings are signs of life and nothing to show", () =>
    Effect.gen(function* () {
      const { reply, requests } = yield* played(
        [
          (response) => {
            begin(response)
            response.write(text("hello "))
            let beats = 0
            const timer = setInterval(() => {
              beats += 1
              if (beats < 10) return void response.write(ping)
              clearInterval(timer)
              response.end(text("world") + ending)
            }, 60)
          }
        ],
        { idleTimeout: 400 }
      )
      assert.deepStrictEqual([reply, requests], ["hello world", 1])
    })
  )

  it.live("reuses the connection after a stream that ended with message_stop", () =>
    Effect.gen(function* () {
      const ports = new Set<number | undefined>()
      const server = yield* provider((request, response) => {
        ports.add(request.socket.remotePort)
        whole(response)
      })
      yield* Effect.provide(Effect.andThen(Stream.runDrain(ask), Stream.runDrain(ask)), layerOf(server))
      assert.strictEqual(ports.size, 1)
    }).pipe(Effect.scoped)
  )

  it.live("a whole message in place of events is the reply", () =>
    Effect.gen(function* () {
      const { reply, words } = yield* played([(response) => json(response, 200, fine)])
      assert.deepStrictEqual([reply, words], ["fine", "fine"])
    })
  )
})
