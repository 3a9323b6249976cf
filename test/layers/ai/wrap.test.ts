import { assert, describe, it } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { failureOf } from "../../../src/layers/ai/aiFailure.ts"
import { readAiError } from "../../../src/layers/ai/providerFailure.ts"
import * as RecoveredModel from "../../../src/layers/ai/RecoveredModel.ts"
import { recoverTransient } from "../../../src/programs/request/singleRoad.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { counted, finish, foreign, shownText, toolkit, wrapped, type Answer } from "./model.ts"

const aiError = (reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "Provider", method: "generateText", reason })

const http = (status: number, headers: Record<string, string> = {}, body?: string) => ({
  response: { status, headers },
  ...(body === undefined ? {} : { body })
})

const overloaded = aiError(new AiError.InternalProviderError({ description: "busy", http: http(529) }))
const limited = aiError(new AiError.RateLimitError({ retryAfter: Duration.seconds(7), http: http(429) }))

const toolCall: Response.PartEncoded = { type: "tool-call", id: "c1", name: "GetWeather", params: { city: "Oslo" } }
const said = (text: string): Answer => [{ type: "text", text }, finish("stop")]

const deltas = (text: string): ReadonlyArray<Response.StreamPartEncoded> => [
  { type: "text-start", id: "t" },
  ...(text.match(/.{1,4}/g) ?? []).map((delta) => ({ type: "text-delta" as const, id: "t", delta }))
]

const wholeStream = (text: string, ...rest: ReadonlyArray<Response.StreamPartEncoded>): Answer => ({
  stream: [...deltas(text), { type: "text-end", id: "t" }, ...rest, finish(rest.length === 0 ? "stop" : "tool-calls")]
})

const inTime = <A, E, R>(program: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(program)
    yield* TestClock.adjust("4 minutes")
    return yield* Fiber.join(fiber)
  })

describe("around a LanguageModel that exists", () => {
  it.effect("recovers below the resolution of tools: a retry never runs a tool again", () => {
    const { cities, handlers } = counted()
    const inner = foreign([limited, overloaded, [toolCall, finish("tool-calls")], overloaded, said("21")])
    return Effect.gen(function* () {
      const first = yield* inTime(LanguageModel.generateText({ prompt: "weather?", toolkit }))
      assert.deepStrictEqual(first.toolResults[0]?.result, { degrees: 21 })
      const history = Prompt.concat(Prompt.make("weather?"), Prompt.fromResponseParts(first.content))
      const second = yield* inTime(LanguageModel.generateText({ prompt: history, toolkit }))
      assert.strictEqual(second.text, "21")
      assert.deepStrictEqual(cities, ["Oslo"])
      assert.strictEqual(inner.asked.length, 5)
    }).pipe(Effect.provide([wrapped(inner), handlers]))
  })

  it.effect("waits as long as the provider asked, to the millisecond", () => {
    const inner = foreign([limited, said("ok")])
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(LanguageModel.generateText({ prompt: "?" }))
      yield* TestClock.adjust("6999 millis")
      assert.strictEqual(inner.asked.length, 1)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual((yield* Fiber.join(fiber)).text, "ok")
    }).pipe(Effect.provide(wrapped(inner)))
  })

  it.effect("asks word for word what the caller asked: prompt, options of providers, tools and choice", () => {
    const { handlers } = counted()
    const inner = foreign([overloaded, said("ok")])
    const prompt = Prompt.make([
      { role: "system", content: "rules", options: { anthropic: { cacheControl: { type: "ephemeral" } } } },
      { role: "user", content: [{ type: "text", text: "hi", options: { openai: { tag: "x" } } }] },
      {
        role: "assistant",
        content: [
          { type: "reasoning", text: "hm", options: { anthropic: { signature: "s" } } },
          { type: "text", text: "yes" }
        ]
      },
      { role: "user", content: [{ type: "text", text: "go on" }] }
    ])
    return Effect.gen(function* () {
      yield* inTime(LanguageModel.generateText({ prompt, toolkit, toolChoice: "required" }))
      for (const asked of inner.asked) {
        assert.deepStrictEqual(asked.prompt.content, prompt.content)
        assert.deepStrictEqual(
          asked.tools.map(({ name }) => name),
          ["GetWeather"]
        )
        assert.strictEqual(asked.toolChoice, "required")
      }
    }).pipe(Effect.provide([wrapped(inner), handlers]))
  })

  it.effect("hands every part of the provider on: sources, files, its own tools, metadata, reason and usage", () => {
    const parts: ReadonlyArray<Response.PartEncoded> = [
      { type: "response-metadata", id: "r1", modelId: "served", timestamp: "2026-01-02T03:04:05.000Z" },
      { type: "reasoning", text: "hm", metadata: { anthropic: { signature: "s" } } },
      { type: "text", text: "see", metadata: { openai: { itemId: "i1" } } },
      { type: "source", sourceType: "url", id: "s1", url: "https://example.org/", title: "E" },
      { type: "file", mediaType: "image/png", data: "AQID" },
      finish("other", { input: 3, output: 4 })
    ]
    const inner = foreign([overloaded, parts])
    return Effect.gen(function* () {
      const got = yield* inTime(LanguageModel.generateText({ prompt: "?" }))
      const direct = yield* Effect.flatMap(foreign([parts]).model, (model) => model.generateText({ prompt: "?" }))
      assert.deepStrictEqual(got.content, direct.content)
    }).pipe(Effect.provide(wrapped(inner)))
  })

  it.effect("decodes an object that the inner model asked for in a form of its own", () => {
    const Person = Schema.Struct({ name: Schema.String, age: Schema.optionalKey(Schema.Number) })
    const answer: Answer = [{ type: "text", text: '{"name":"Ada","age":null}' }, finish("stop")]
    const inner = foreign([overloaded, answer], OpenAiStructuredOutput.toCodecOpenAI)
    return Effect.gen(function* () {
      const got = yield* inTime(LanguageModel.generateObject({ prompt: "?", schema: Person, objectName: "person" }))
      assert.deepStrictEqual(got.value, { name: "Ada" })
      const format = inner.asked[1]?.responseFormat
      assert.strictEqual(format?.type === "json" ? format.objectName : null, "person")
    }).pipe(Effect.provide(wrapped(inner)))
  })

  it.effect("gives the model of each route to the function, with its budget, and falls back to the next", () => {
    const asked: Array<unknown> = []
    const small = foreign([said("from small")])
    const large = foreign([overloaded, overloaded, overloaded])
    const layer = RecoveredModel.wrap({
      policy: {
        ...RecoveryPolicy.strict,
        initialMaxTokens: 50,
        routes: [{ model: "large" }, { model: "small" }]
      },
      modelOf: (route) => {
        asked.push(route)
        return route.model === "large" ? large.model : small.model
      }
    })
    return Effect.gen(function* () {
      const got = yield* inTime(LanguageModel.generateText({ prompt: "?" }))
      assert.strictEqual(got.text, "from small")
      assert.strictEqual(large.asked.length, 3)
      assert.deepStrictEqual(asked.at(-1), { model: "small", maxOutputTokens: 50 })
    }).pipe(Effect.provide(layer))
  })

  it.effect("takes the LanguageModel of the context when no function is given", () => {
    const inner = foreign([overloaded, said("ok")])
    const layer = RecoveredModel.wrap({ policy: { ...RecoveryPolicy.broad, routes: [{ model: "m" }] } }).pipe(
      Layer.provide(Layer.effect(LanguageModel.LanguageModel, inner.model))
    )
    return Effect.gen(function* () {
      assert.strictEqual((yield* inTime(LanguageModel.generateText({ prompt: "?" }))).text, "ok")
    }).pipe(Effect.provide(layer))
  })

  it.effect("refuses several routes without a function that tells them apart", () =>
    Effect.gen(function* () {
      const layer = RecoveredModel.wrap({ policy: { routes: [{ model: "a" }, { model: "b" }] } }).pipe(
        Layer.provide(Layer.effect(LanguageModel.LanguageModel, foreign([]).model))
      )
      const error = yield* Effect.flip(Effect.provide(LanguageModel.generateText({ prompt: "?" }), layer))
      assert.strictEqual(Reflect.get(error, "field"), "routes")
    })
  )
})

describe("a stream around a LanguageModel", () => {
  it.effect("says no text twice after a cut, and tells the continuation what was said", () => {
    const inner = foreign([{ stream: deltas("Once upon ") }, wholeStream("a time")])
    return Effect.gen(function* () {
      const parts = yield* inTime(Stream.runCollect(LanguageModel.streamText({ prompt: "tell" })))
      assert.strictEqual(shownText(parts), "Once upon a time")
      const roles = inner.asked[1]?.prompt.content.map(({ role }) => role)
      assert.deepStrictEqual(roles, ["user", "assistant", "user"])
      const fragment = inner.asked[1]?.prompt.content[1]
      assert.deepInclude(fragment?.content[0] as object, { type: "text", text: "Once upon " })
    }).pipe(Effect.provide(wrapped(inner)))
  })

  it.effect("runs the tool of a stream once, though its first call was cut", () => {
    const { cities, handlers } = counted()
    const cutCall: Answer = {
      stream: [
        ...deltas("Let me look."),
        { type: "text-end", id: "t" },
        { type: "tool-params-start", id: "c0", name: "GetWeather" },
        { type: "tool-params-delta", id: "c0", delta: '{"ci' }
      ]
    }
    const inner = foreign([overloaded, cutCall, wholeStream("I will look.", { ...toolCall, type: "tool-call" })])
    return Effect.gen(function* () {
      const parts = yield* inTime(Stream.runCollect(LanguageModel.streamText({ prompt: "weather?", toolkit })))
      assert.deepStrictEqual(cities, ["Oslo"])
      assert.strictEqual(shownText(parts), "Let me look.")
      assert.deepStrictEqual(
        parts.slice(-3).map(({ type }) => type),
        ["tool-call", "tool-result", "finish"]
      )
    }).pipe(Effect.provide([wrapped(inner), handlers]))
  })

  it.effect("keeps the answer that comes in place of a cut call, as a text of its own", () => {
    const { cities, handlers } = counted()
    const cutCall: Answer = {
      stream: [...deltas("Let me look."), { type: "tool-params-start", id: "c0", name: "GetWeather" }]
    }
    const inner = foreign([cutCall, wholeStream("It is warm.")])
    return Effect.gen(function* () {
      const parts = yield* inTime(Stream.runCollect(LanguageModel.streamText({ prompt: "weather?", toolkit })))
      assert.strictEqual(shownText(parts), "Let me look.It is warm.")
      assert.deepStrictEqual(cities, [])
      assert.strictEqual(parts.filter(({ type }) => type === "text-start").length, 2)
      const history = Prompt.fromResponseParts(parts)
      assert.strictEqual(history.content.length, 1)
    }).pipe(Effect.provide([wrapped(inner), handlers]))
  })

  it.effect("asks again when a stream falls silent", () => {
    const inner = foreign([{ stream: deltas("Hel"), then: "silence" }, wholeStream("lo")])
    return Effect.gen(function* () {
      const parts = yield* inTime(Stream.runCollect(LanguageModel.streamText({ prompt: "?" })))
      assert.strictEqual(shownText(parts), "Hello")
    }).pipe(Effect.provide(wrapped(inner)))
  })

  it.effect("reads an error part like the failed answer it stands for", () => {
    const failing: Answer = {
      stream: [...deltas("Hel"), { type: "error", error: { type: "error", error: { type: "overloaded_error" } } }]
    }
    const inner = foreign([failing, wholeStream("lo")])
    return Effect.gen(function* () {
      const parts = yield* inTime(Stream.runCollect(LanguageModel.streamText({ prompt: "?" })))
      assert.strictEqual(shownText(parts), "Hello")
      assert.isFalse(parts.some(({ type }) => type === "error"))
    }).pipe(Effect.provide(wrapped(inner)))
  })
})

describe("failures", () => {
  const failing = (answers: ReadonlyArray<Answer>) => {
    const inner = foreign(answers)
    return Effect.map(
      inTime(Effect.flip(LanguageModel.generateText({ prompt: "?" }))).pipe(
        Effect.provide(wrapped(inner, { maxAttempts: 3 }))
      ),
      (error) => ({ error, asked: inner.asked.length })
    )
  }

  it.effect("hands an error on unchanged that nobody can mend, and knows its typed failure", () =>
    Effect.gen(function* () {
      const refused = aiError(new AiError.AuthenticationError({ kind: "InvalidKey", http: http(401) }))
      const { error, asked } = yield* failing([refused])
      assert.strictEqual(error, refused)
      assert.strictEqual(asked, 1)
      assert.deepInclude(failureOf(error), { _tag: "ModelAuthenticationError", status: 401 })
    })
  )

  it.effect.each<{
    readonly reason: AiError.AiErrorReason
    readonly tag: string
    readonly code: string | null
    readonly status: number | null
  }>([
    {
      reason: new AiError.InvalidRequestError({
        metadata: { openai: { errorCode: "context_length_exceeded" } },
        http: http(400)
      }),
      tag: "PromptTooLongRetryError",
      code: "context_length_exceeded",
      status: 400
    },
    {
      reason: new AiError.InvalidRequestError({
        parameter: "temperature",
        http: http(400, {}, '{"error":{"code":"unknown_parameter"}}')
      }),
      tag: "ModelRequestError",
      code: "unknown_parameter",
      status: 400
    },
    { reason: new AiError.QuotaExhaustedError({}), tag: "ModelQuotaExhaustedError", code: null, status: 429 },
    {
      reason: new AiError.ContentPolicyError({ description: "no" }),
      tag: "ModelContentFilteredError",
      code: null,
      status: 400
    },
    {
      reason: new AiError.UnsupportedSchemaError({ description: "no" }),
      tag: "ModelRequestError",
      code: "unsupported_schema",
      status: null
    },
    {
      reason: new AiError.StructuredOutputError({ description: "no", responseText: "x" }),
      tag: "OpenAIResponseError",
      code: "structured_output",
      status: 200
    }
  ])("reads $tag of a reason and tells its code and status", ({ reason, tag, code, status }) =>
    Effect.gen(function* () {
      const { error } = yield* failing([aiError(reason)])
      const failure = failureOf(error)
      assert.strictEqual(failure?._tag, tag)
      assert.strictEqual(failure?.code, code)
      assert.strictEqual(failure !== null && "status" in failure ? failure.status : failure?.lastStatus, status)
    })
  )

  it.effect("gives up with the reason of the last failure, its status, and the typed failure behind it", () =>
    Effect.gen(function* () {
      const busy = aiError(new AiError.InternalProviderError({ description: "busy", http: http(500) }))
      const { error } = yield* failing(Array.from({ length: 3 }, () => busy))
      assert.strictEqual(error.reason._tag, "InternalProviderError")
      const failure = failureOf(error)
      assert.include(["RecoveryRetriesExhausted", "RecoveryDeadlineExceeded"], failure?._tag)
      assert.strictEqual(failure !== null && "lastStatus" in failure ? failure.lastStatus : null, 500)
      assert.isAbove(failure?.trail.length ?? 0, 1)
      // As JSON, for another process: the same failure without texts.
      const sent = JSON.parse(
        JSON.stringify(Schema.encodeSync(AiError.AiError)(error))
      ) as typeof AiError.AiError.Encoded
      const copy = failureOf(Schema.decodeSync(AiError.AiError)(sent))
      assert.strictEqual(copy?._tag, failure?._tag)
      assert.deepStrictEqual(copy?.trail, failure?.trail)
      assert.strictEqual(Reflect.get(copy ?? {}, "lastStatus"), 500)
    })
  )

  it.effect("retries a lost line and tells it as what it was when it stays lost", () =>
    Effect.gen(function* () {
      const lost = aiError(
        new AiError.NetworkError({
          reason: "TransportError",
          method: "POST",
          url: "https://example.org",
          cause: { code: "ECONNRESET" }
        })
      )
      const { error, asked } = yield* failing(Array.from({ length: 3 }, () => lost))
      assert.isAbove(asked, 1)
      assert.strictEqual(error.reason._tag, "NetworkError")
      assert.deepInclude(failureOf(error), { code: "ECONNRESET", lastStatus: null })
    })
  )

  it.effect("asks once for a refused request though effect/ai would ask again without increments", () => {
    const refused = aiError(new AiError.InvalidRequestError({ http: http(400) }))
    const inner = foreign([refused, said("never")])
    return Effect.gen(function* () {
      const error = yield* Effect.flip(LanguageModel.generateText({ prompt: "?" }))
      assert.strictEqual(error, refused)
      assert.strictEqual(inner.asked.length, 1)
    }).pipe(Effect.provide(wrapped(inner)))
  })
})

it.effect("lets an embedding of effect/ai be recovered by the same reader", () =>
  Effect.gen(function* () {
    let sent = 0
    const embed = Effect.suspend(() => {
      sent += 1
      return sent < 3 ? Effect.fail(sent === 1 ? overloaded : limited) : Effect.succeed([1, 2])
    })
    const given = { policy: { ...RecoveryPolicy.broad, routes: [{ model: "embed" }] }, errorOf: readAiError() }
    assert.deepStrictEqual(yield* inTime(recoverTransient(embed, given)), [1, 2])
    assert.strictEqual(sent, 3)
  })
)
