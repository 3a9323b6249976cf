import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { ConfigurationError } from "../../../src/domain/failure/ConfigurationError.ts"
import type { ModelPart } from "../../../src/domain/chat/ModelReply.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { openai } from "../../../src/domain/provider/profiles/openai.ts"
import * as AnthropicModelClient from "../../../src/layers/provider/AnthropicModelClient.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"

const request: WireRequest = {
  messages: [{ role: "user", content: "go" }],
  model: "m",
  maxOutputTokens: 100,
  role: "main"
}

interface Call {
  readonly url: string
  readonly headers: Headers
  readonly body: Readonly<Record<string, unknown>>
}

/** A client whose fetch answers from here; no network. */
const clientOf = (
  answer: () => Response | Promise<Response>,
  options: Partial<OpenAiModelClient.OpenAiOptions> = {}
) => {
  const calls: Array<Call> = []
  const client = OpenAiModelClient.make({
    apiKey: Redacted.make("sk-test-12345678"),
    baseUrl: "http://provider.test/v1",
    fetch: (input, init) => {
      const body: unknown = JSON.parse(String(init?.body))
      calls.push({
        url: String(input),
        headers: new Headers(init?.headers),
        body: typeof body === "object" && body !== null ? { ...body } : {}
      })
      return Promise.resolve(answer())
    },
    ...options
  })
  return { client, calls }
}

const fine = {
  model: "m-2026",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "fine" } }],
  usage: { prompt_tokens: 3, completion_tokens: 1 }
}

const respond =
  (status: number, body: unknown, headers: Record<string, string> = {}) =>
  () =>
    new Response(typeof body === "string" ? body : JSON.stringify(body), {
      status,
      headers: { "content-type": "application/json", ...headers }
    })

describe("an answer", () => {
  it.effect("becomes a reply with the provider's model name and request id, after one request", () =>
    Effect.gen(function* () {
      const { client, calls } = clientOf(respond(200, fine, { "x-request-id": "req-1" }))
      const reply = yield* client.generate(request)
      assert.deepInclude(reply, { text: "fine", model: "m", servedModel: "m-2026", providerRequestId: "req-1" })
      assert.strictEqual(calls.length, 1)
      assert.strictEqual(calls[0]?.url, "http://provider.test/v1/chat/completions")
      assert.strictEqual(calls[0]?.headers.get("authorization"), "Bearer sk-test-12345678")
    })
  )

  it.effect.each([
    [400, {}, "ModelRequestError"],
    [400, { error: { code: "context_length_exceeded" } }, "ModelPromptTooLongError"],
    [400, { error: { type: "prompt_too_long" } }, "ModelPromptTooLongError"],
    [401, {}, "ModelAuthenticationError"],
    [403, {}, "ModelPermissionError"],
    [404, "<html>", "ModelNotFoundError"],
    [408, {}, "ModelTimeoutError"],
    [413, {}, "ModelPayloadTooLargeError"],
    [429, {}, "ModelRateLimitError"],
    [429, { error: { code: "insufficient_quota" } }, "ModelQuotaExhaustedError"],
    [429, { error: { code: "context_length_exceeded" } }, "ModelRateLimitError"],
    [500, "", "ModelServerError"],
    [503, {}, "ModelServerError"],
    [503, { error: { code: "slow_down" } }, "ModelOverloadedError"],
    [529, {}, "ModelOverloadedError"],
    [200, { error: { code: 429 } }, "ModelRateLimitError"],
    [200, { choices: [] }, "OpenAIResponseError"],
    [200, "", "OpenAIResponseError"]
  ] as const)("%i %j is %s, to the stream too, and is never sent twice", ([status, body, tag]) =>
    Effect.gen(function* () {
      const { client, calls } = clientOf(respond(status, body), { profile: openai })
      const failure = yield* Effect.flip(client.generate(request))
      assert.deepStrictEqual([failure._tag, failure.status], [tag, status])
      const streamed = yield* Effect.flip(Stream.runDrain(client.stream(request)))
      assert.deepStrictEqual([streamed._tag, streamed.status, streamed.code], [tag, status, failure.code])
      assert.strictEqual(calls.length, 2)
    })
  )

  it.effect("keeps hints and the retry advice of the headers, and no other header", () =>
    Effect.gen(function* () {
      const headers = { "retry-after": "7", "x-should-retry": "false", "set-cookie": "secret=1", "x-request-id": "r" }
      const { client } = clientOf(respond(429, {}, headers))
      const failure = yield* Effect.flip(client.generate(request))
      assert.deepStrictEqual(failure.hints, [{ _tag: "Delay", source: "retry-after", millis: 7_000 }])
      assert.strictEqual(failure.shouldRetry, false)
      assert.strictEqual(failure.providerRequestId, "r")
      assert.notInclude(JSON.stringify(failure), "secret")
    })
  )

  it.effect("that never comes is a connection error with the system's code", () =>
    Effect.gen(function* () {
      const reset = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" })
      const { client, calls } = clientOf(() => Promise.reject(new TypeError("fetch failed", { cause: reset })))
      const failure = yield* Effect.flip(client.generate(request))
      assert.deepStrictEqual([failure._tag, failure.status, failure.code], ["ModelConnectionError", null, "ECONNRESET"])
      assert.strictEqual(calls.length, 1)
    })
  )

  it.effect("to a stream request may be plain JSON, and is validated as such", () =>
    Effect.gen(function* () {
      const { client } = clientOf(respond(200, fine))
      const parts: Array<ModelPart> = []
      yield* Stream.runForEach(client.stream(request), (part) => Effect.sync(() => parts.push(part)))
      const end = parts.at(-1)
      assert.deepInclude(end?._tag === "End" ? end.reply : {}, { text: "fine", finishReason: "stop" })
      assert.deepStrictEqual(
        parts.flatMap((part) => (part._tag === "Text" ? [part.text] : [])),
        ["fine"]
      )
    })
  )

  it.effect.each([
    ["cut", "ModelStreamInterruptedError"],
    ["silent end", "ModelStreamInterruptedError"]
  ] as const)("stream with a %s shows what came and is %s", ([how, tag]) =>
    Effect.gen(function* () {
      const chunk = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "he" }, finish_reason: null }] })}\n\n`
      let isSent = false
      const { client } = clientOf(
        () =>
          new Response(
            new ReadableStream<Uint8Array>({
              pull: (controller) => {
                if (!isSent) controller.enqueue(new TextEncoder().encode(chunk))
                else if (how === "cut") controller.error(new Error("socket hang up"))
                else controller.close()
                isSent = true
              }
            }),
            { status: 200, headers: { "content-type": "text/event-stream" } }
          )
      )
      const texts: Array<string> = []
      const exit = yield* client.stream(request).pipe(
        Stream.runForEach((part) => Effect.sync(() => part._tag === "Text" && texts.push(part.text))),
        Effect.flip,
        Effect.exit
      )
      assert.isTrue(Exit.isSuccess(exit) && exit.value._tag === tag && exit.value.status === null)
      assert.deepStrictEqual(texts, ["he"])
    })
  )
})

describe("a request", () => {
  it.effect.each([
    ["max_tokens", "m", {}],
    ["max_completion_tokens", "o3-mini", { profile: openai }],
    ["max_completion_tokens", "m", { budgetParam: { m: "max_completion_tokens" } }]
  ] as const)("names its budget %s for %s", ([name, model, options]) =>
    Effect.gen(function* () {
      const { client, calls } = clientOf(respond(200, fine), options)
      yield* client.generate({ ...request, model })
      assert.strictEqual(calls[0]?.body[name], 100)
    })
  )

  it.effect("carries the caller's headers per request", () =>
    Effect.gen(function* () {
      const { client, calls } = clientOf(respond(200, fine), {
        headers: (sent) => ({ "x-title": sent.role })
      })
      yield* client.generate({ ...request, role: "summarizer" })
      assert.strictEqual(calls[0]?.headers.get("x-title"), "summarizer")
    })
  )
})

describe("a bad option", () => {
  it.each(["ftp://provider.test", "provider.test", "file:///etc/hosts"])(
    "%s as base URL is refused by name",
    (baseUrl) => {
      assert.throws(
        () => OpenAiModelClient.make({ apiKey: "sk-test-12345678", baseUrl }),
        ConfigurationError,
        /baseUrl/
      )
    }
  )

  it.effect("fails the layer, and shows no key", () =>
    Effect.gen(function* () {
      const exit = yield* OpenAiModelClient.layer({ apiKey: "sk-test-12345678", baseUrl: "ftp://x" }).pipe(
        (layer) => Effect.provide(Effect.void, layer),
        Effect.flip
      )
      assert.strictEqual(exit._tag, "ConfigurationError")
      assert.notInclude(JSON.stringify(exit) + String(exit), "12345678")
    })
  )
})

it("refuses a profile that cannot work, and names the field", () => {
  const profile = { ...openai, rows: [{ status: 401, at: null, value: "x", kind: "overloaded" as const }] }
  for (const make of [OpenAiModelClient.make, AnthropicModelClient.make])
    assert.throws(() => make({ apiKey: "sk-test", profile }), ConfigurationError, /profile\.rows\[0\]/)
})
