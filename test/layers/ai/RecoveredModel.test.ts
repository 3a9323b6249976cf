import { assert, describe, it } from "@effect/vitest"
import * as Chat from "effect/ai/Chat"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as RecoveredModel from "../../../src/layers/ai/RecoveredModel.ts"
import type { Step } from "../../../src/layers/ScriptedModel.ts"
import { counted, overScript, shownText, toolkit } from "./model.ts"

const call = (city: string, id = "call_1") => ({ id, name: "GetWeather", arguments: JSON.stringify({ city }) })
const calling: Step = { reply: { text: null, toolCalls: [call("Oslo")], finishReason: "tool_calls" } }
const overloaded: Step = { fail: { kind: "overloaded", status: 529 } }
const limited: Step = {
  fail: { kind: "rate_limited", status: 429, hints: [{ _tag: "Delay", source: "retry-after", millis: 2_000 }] }
}

/** Runs a program while time goes on as far as it needs. */
const inTime = <A, E, R>(program: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(program)
    yield* TestClock.adjust("4 minutes")
    return yield* Fiber.join(fiber)
  })

describe("generateText", () => {
  it.effect("gives text, reasoning, usage, finish reason and who has answered", () => {
    const { layer, script } = overScript([
      {
        reply: {
          text: "hello",
          reasoning: "thinking",
          model: "m",
          servedModel: "m-2026",
          usage: {
            promptTokens: 10,
            completionTokens: 5,
            cachedTokens: 4,
            cacheWriteTokens: null,
            reasoningTokens: 2
          }
        }
      }
    ])
    return Effect.gen(function* () {
      const response = yield* LanguageModel.generateText({ prompt: "hi" })
      assert.strictEqual(response.text, "hello")
      assert.strictEqual(response.reasoningText, "thinking")
      assert.strictEqual(response.finishReason, "stop")
      assert.deepStrictEqual(
        { ...response.usage.inputTokens },
        { total: 10, uncached: 6, cacheRead: 4, cacheWrite: undefined }
      )
      assert.deepStrictEqual({ ...response.usage.outputTokens }, { total: 5, reasoning: 2, text: 3 })
      const head = response.content.find((part) => part.type === "response-metadata")
      assert.strictEqual(head?.modelId, "m-2026")
      assert.deepStrictEqual(script.requests[0]?.messages, [{ role: "user", content: "hi" }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("asks again after faults before, in and after a tool call, and runs the tool once", () => {
    const { cities, handlers } = counted()
    const { layer, script } = overScript([
      overloaded,
      limited,
      calling,
      overloaded,
      { fail: { kind: "interrupted", status: null } },
      { reply: { text: "21 degrees" } }
    ])
    return Effect.gen(function* () {
      const first = yield* inTime(LanguageModel.generateText({ prompt: "weather in Oslo?", toolkit }))
      assert.deepStrictEqual(cities, ["Oslo"])
      assert.deepStrictEqual(first.toolResults[0]?.result, { degrees: 21 })
      assert.strictEqual(script.requests.length, 3)
      const history = Prompt.concat(Prompt.make("weather in Oslo?"), Prompt.fromResponseParts(first.content))
      const second = yield* inTime(LanguageModel.generateText({ prompt: history, toolkit }))
      assert.strictEqual(second.text, "21 degrees")
      assert.deepStrictEqual(cities, ["Oslo"])
      assert.strictEqual(script.requests.length, 6)
      assert.deepStrictEqual(script.requests[5]?.messages, [
        { role: "user", content: "weather in Oslo?" },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "call_1", type: "function", function: { name: "GetWeather", arguments: '{"city":"Oslo"}' } }
          ]
        },
        { role: "tool", tool_call_id: "call_1", content: '{"degrees":21}' }
      ])
    }).pipe(Effect.provide([layer, handlers]))
  })

  it.effect("tells the model of tools with their schemas, and of the choice among them", () => {
    const { handlers } = counted()
    const { layer, script } = overScript([calling, calling])
    return Effect.gen(function* () {
      yield* LanguageModel.generateText({ prompt: "?", toolkit, toolChoice: "required" })
      yield* LanguageModel.generateText({ prompt: "?", toolkit, toolChoice: { tool: "GetWeather" } })
      const [spec] = script.requests[0]?.tools ?? []
      assert.strictEqual(spec?.function.description, "The weather of a city")
      assert.deepInclude(spec?.function.parameters as object, { type: "object", required: ["city"] })
      assert.deepStrictEqual(script.requests[0]?.params, { tool_choice: "required" })
      assert.deepStrictEqual(script.requests[1]?.params, {
        tool_choice: { type: "function", function: { name: "GetWeather" } }
      })
    }).pipe(Effect.provide([layer, handlers]))
  })

  it.effect("takes signed reasoning and data of a provider back to the model that made them", () => {
    const reasoningParts = [{ model: "m", text: "secret", signature: "sig" }]
    const { layer, script } = overScript([
      {
        reply: {
          text: "a",
          model: "m",
          reasoning: "secret",
          reasoningParts,
          extra: { annotations: [{ type: "url_citation", url_citation: { url: "https://example.org/x", title: "X" } }] }
        }
      },
      { reply: { text: "b" } }
    ])
    return Effect.gen(function* () {
      const chat = yield* Chat.fromPrompt("be brief")
      const first = yield* chat.generateText({ prompt: "one" })
      assert.deepInclude(
        first.content.find((part) => part.type === "source"),
        { sourceType: "url", title: "X" }
      )
      yield* chat.generateText({ prompt: "two" })
      const assistant = script.requests[1]?.messages.find(({ role }) => role === "assistant")
      assert.deepInclude(assistant, { role: "assistant", content: "a", reasoning_parts: reasoningParts })
      assert.strictEqual(Reflect.get(Reflect.get(assistant ?? {}, "provider_meta"), "model"), "m")
    }).pipe(Effect.provide(layer))
  })

  it.effect("sends pictures, sounds and files in the shape each wire maps", () => {
    const { layer, script } = overScript([{ reply: { text: "seen" } }])
    const content = [
      Prompt.makePart("text", { text: "look" }),
      Prompt.makePart("file", { mediaType: "image/png", data: new Uint8Array([1, 2, 3]) }),
      Prompt.makePart("file", { mediaType: "image/png", data: new URL("https://example.org/a.png") }),
      Prompt.makePart("file", { mediaType: "audio/mpeg", data: "AQID" }),
      Prompt.makePart("file", { mediaType: "application/pdf", fileName: "a.pdf", data: "AQID" })
    ]
    return Effect.gen(function* () {
      yield* LanguageModel.generateText({ prompt: [{ role: "user", content }] })
      assert.deepStrictEqual(script.requests[0]?.messages, [
        {
          role: "user",
          content: [
            { type: "text", text: "look" },
            { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } },
            { type: "image_url", image_url: { url: "https://example.org/a.png" } },
            { type: "input_audio", input_audio: { data: "AQID", format: "mp3" } },
            { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AQID" } }
          ]
        }
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("joins a cut answer and its continuation into one text", () => {
    const { layer } = overScript(
      [
        { reply: { text: "one two ", finishReason: "length" } },
        { reply: { text: "three four five six seven eight nine ten eleven twelve" } }
      ],
      { raise: "never" }
    )
    return Effect.gen(function* () {
      const response = yield* inTime(LanguageModel.generateText({ prompt: "count" }))
      assert.strictEqual(response.text, "one two three four five six seven eight nine ten eleven twelve")
      assert.strictEqual(response.finishReason, "stop")
    }).pipe(Effect.provide(layer))
  })

  it.effect("ends the request when its fiber is interrupted, and sends nothing after", () => {
    let ended = 0
    const { layer, script } = overScript([
      {
        run: () =>
          Effect.onInterrupt(Effect.never, () =>
            Effect.sync(() => {
              ended += 1
            })
          )
      }
    ])
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(LanguageModel.generateText({ prompt: "hi" }))
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(ended, 1)
      assert.strictEqual(script.requests.length, 1)
    }).pipe(Effect.provide(layer))
  })
})

describe("generateObject", () => {
  const Person = Schema.Struct({ name: Schema.String, age: Schema.optionalKey(Schema.Number) })

  it.effect("asks for the schema and decodes what comes", () => {
    const { layer, script } = overScript([overloaded, { reply: { text: '{"name":"Ada","age":null}' } }])
    return Effect.gen(function* () {
      const response = yield* inTime(
        LanguageModel.generateObject({ prompt: "who?", schema: Person, objectName: "person of note" })
      )
      assert.deepStrictEqual(response.value, { name: "Ada" })
      const format = Reflect.get(script.requests[1]?.params ?? {}, "response_format") as Record<string, unknown>
      assert.strictEqual(format["type"], "json_schema")
      assert.deepInclude(format["json_schema"] as object, { name: "person_of_note", strict: true })
    }).pipe(Effect.provide(layer))
  })

  it.effect("is never continued: a cut object is asked for again or fails, and no fragment is sent", () => {
    const cut: Step = { reply: { text: '{"name":"Ad', finishReason: "length" } }
    const { layer, script } = overScript([cut, cut], { raise: "always" })
    return Effect.gen(function* () {
      const error = yield* inTime(Effect.flip(LanguageModel.generateObject({ prompt: "who?", schema: Person })))
      assert.strictEqual(error.reason._tag, "InvalidOutputError")
      assert.strictEqual(script.requests.length, 2)
      for (const { messages } of script.requests) assert.deepStrictEqual(messages, [{ role: "user", content: "who?" }])
    }).pipe(Effect.provide(layer))
  })
})

describe("streamText", () => {
  it.effect("says no text twice when a stream broke off, and goes on from what was shown", () => {
    const { layer, script } = overScript([{ cut: "Once upon " }, { reply: { text: "a time" } }])
    return Effect.gen(function* () {
      const parts = yield* inTime(Stream.runCollect(LanguageModel.streamText({ prompt: "tell" })))
      assert.strictEqual(shownText(parts), "Once upon a time")
      assert.deepStrictEqual(
        parts.filter(({ type }) => type !== "text-delta").map(({ type }) => type),
        ["text-start", "response-metadata", "text-end", "finish"]
      )
      assert.strictEqual(script.requests.length, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("drops what a replay repeats", () => {
    const { layer, script } = overScript(
      [{ cut: "Once upon " }, { reply: { text: "Once upon a time" } }],
      {},
      { onCut: "splice" }
    )
    return Effect.gen(function* () {
      const parts = yield* inTime(Stream.runCollect(LanguageModel.streamText({ prompt: "tell" })))
      assert.strictEqual(shownText(parts), "Once upon a time")
      assert.deepStrictEqual(script.requests[1]?.messages, [{ role: "user", content: "tell" }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("runs the tool of a stream once, after faults before it and in it", () => {
    const { cities, handlers } = counted()
    const { layer, script } = overScript([
      overloaded,
      { cut: "Let me look. " },
      { reply: { text: "I look.", toolCalls: [call("Oslo")], finishReason: "tool_calls" } }
    ])
    return Effect.gen(function* () {
      const parts = yield* inTime(Stream.runCollect(LanguageModel.streamText({ prompt: "weather?", toolkit })))
      assert.deepStrictEqual(cities, ["Oslo"])
      assert.strictEqual(shownText(parts), "Let me look. I look.")
      assert.deepStrictEqual(
        parts.slice(-3).map(({ type }) => type),
        ["tool-call", "tool-result", "finish"]
      )
      assert.strictEqual(script.requests.length, 3)
    }).pipe(Effect.provide([layer, handlers]))
  })

  it.effect("closes the request when its consumer leaves", () => {
    let ended = 0
    const { layer } = overScript([
      {
        run: () =>
          Effect.onInterrupt(Effect.never, () =>
            Effect.sync(() => {
              ended += 1
            })
          )
      }
    ])
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Stream.runDrain(LanguageModel.streamText({ prompt: "hi" })))
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(ended, 1)
    }).pipe(Effect.provide(layer))
  })
})

it.effect("refuses options it does not know, by their names", () =>
  Effect.gen(function* () {
    for (const [options, field] of [
      [{ onCut: "restart" }, "onCut"],
      [{ onCutt: "resume" }, "onCutt"]
    ] as const) {
      const { layer } = overScript([], {}, options as unknown as RecoveredModel.RecoveredOptions)
      const exit = yield* Effect.exit(Effect.provide(LanguageModel.generateText({ prompt: "?" }), layer))
      assert.isTrue(Exit.isFailure(exit))
      if (Exit.isFailure(exit)) assert.strictEqual(Reflect.get(Cause.squash(exit.cause) as object, "field"), field)
    }
  })
)
