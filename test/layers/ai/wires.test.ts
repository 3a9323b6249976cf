import { assert, describe, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { ConfigurationError } from "../../../src/domain/failure/ConfigurationError.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as RecoveredModel from "../../../src/layers/ai/RecoveredModel.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as AnthropicModelClient from "../../../src/layers/provider/AnthropicModelClient.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import type { ModelClient } from "../../../src/services/ModelClient.ts"
import { json, provider, type Answer } from "../../support/loopback.ts"
import { counted, shownText, toolkit } from "./model.ts"

/** What a provider of each wire says, whole and as a stream. */
interface Wire {
  readonly name: string
  readonly client: (baseUrl: string) => Layer.Layer<ModelClient, ConfigurationError>
  readonly calling: unknown
  readonly saying: (text: string) => unknown
  /** Events of a stream that says this, whole or cut behind it. */
  readonly events: (text: string, isWhole: boolean) => ReadonlyArray<unknown>
  /** Where a body asks for an answer by a schema. */
  readonly schemaOf: (body: Record<string, unknown>) => unknown
}

const args = '{"city":"Oslo"}'
const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 }

const chatBody = (message: object, finish_reason: string): unknown => ({
  id: "r1",
  object: "chat.completion",
  model: "served",
  choices: [{ index: 0, message: { role: "assistant", content: null, ...message }, finish_reason }],
  usage
})

const chunk = (delta: object, finish_reason: string | null = null): unknown => ({
  id: "r1",
  object: "chat.completion.chunk",
  model: "served",
  choices: [{ index: 0, delta, finish_reason }]
})

const responseBody = (output: ReadonlyArray<object>): unknown => ({
  id: "resp_1",
  object: "response",
  status: "completed",
  model: "served",
  output,
  usage: { input_tokens: 9, output_tokens: 3, total_tokens: 12 }
})

const messageItem = (text: string): object => ({
  type: "message",
  id: "m1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }]
})

const messageBody = (content: ReadonlyArray<object>, stop_reason: string): unknown => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "served",
  content,
  stop_reason,
  usage: { input_tokens: 9, output_tokens: 3 }
})

const wires: ReadonlyArray<Wire> = [
  {
    name: "OpenAI chat",
    client: (baseUrl) => OpenAiModelClient.layer({ baseUrl, apiKey: "k" }),
    calling: chatBody(
      { tool_calls: [{ id: "c1", type: "function", function: { name: "GetWeather", arguments: args } }] },
      "tool_calls"
    ),
    saying: (text) => chatBody({ content: text }, "stop"),
    events: (text, isWhole) => [chunk({ role: "assistant", content: text }), ...(isWhole ? [chunk({}, "stop")] : [])],
    schemaOf: (body) => Reflect.get(Reflect.get(body, "response_format") as object, "json_schema")
  },
  {
    name: "OpenAI Responses",
    client: (baseUrl) => OpenAiModelClient.layer({ baseUrl, apiKey: "k", api: "responses" }),
    calling: responseBody([{ type: "function_call", id: "f1", call_id: "c1", name: "GetWeather", arguments: args }]),
    saying: (text) => responseBody([messageItem(text)]),
    events: (text, isWhole) => [
      {
        type: "response.created",
        response: { id: "resp_1", object: "response", status: "in_progress", model: "served" }
      },
      { type: "response.output_item.added", output_index: 0, item: { ...messageItem(""), content: [] } },
      { type: "response.output_text.delta", output_index: 0, content_index: 0, item_id: "m1", delta: text },
      ...(isWhole ? [{ type: "response.completed", response: responseBody([messageItem(text)]) }] : [])
    ],
    schemaOf: (body) => Reflect.get(Reflect.get(body, "text") as object, "format")
  },
  {
    name: "Anthropic",
    client: (baseUrl) => AnthropicModelClient.layer({ baseUrl, apiKey: "k" }),
    calling: messageBody([{ type: "tool_use", id: "c1", name: "GetWeather", input: { city: "Oslo" } }], "tool_use"),
    saying: (text) => messageBody([{ type: "text", text }], "end_turn"),
    events: (text, isWhole) => [
      { type: "message_start", message: { model: "served", usage: { input_tokens: 9, output_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } },
      ...(isWhole
        ? [
            { type: "content_block_stop", index: 0 },
            { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } },
            { type: "message_stop" }
          ]
        : [])
    ],
    schemaOf: (body) => Reflect.get(Reflect.get(body, "output_config") as object, "format")
  }
]

const policy = new RecoveryPolicy({
  ...RecoveryPolicy.broad,
  routes: [{ model: "m" }],
  backoff: { base: 1, cap: 1 }
})

const modelOver = (wire: Wire, baseUrl: string) =>
  RecoveredModel.layer().pipe(
    Layer.provide(RecoveryLive.layer(policy)),
    Layer.provide(ModelSummarizer.layer({ model: "m" })),
    Layer.provide(wire.client(baseUrl))
  )

const busy: Answer = (_, response) => json(response, 529, { error: { type: "overloaded_error" } })
const giving =
  (body: unknown): Answer =>
  (_, response) =>
    json(response, 200, body)

/** Events as the provider sends them; without its end the connection is cut. */
const streaming =
  (events: ReadonlyArray<unknown>, isWhole: boolean): Answer =>
  (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    for (const event of events)
      response.write(`event: ${String(Reflect.get(event as object, "type"))}\ndata: ${JSON.stringify(event)}\n\n`)
    if (isWhole) response.end("data: [DONE]\n\n")
    else setImmediate(() => response.destroy())
  }

/** A provider that gives one answer per request, in order. */
const playing = (answers: ReadonlyArray<Answer>) => {
  const left = [...answers]
  return provider((request, response, body) => {
    const next = left.shift()
    if (next === undefined) json(response, 500, { error: { code: "no_more_answers" } })
    else next(request, response, body)
  })
}

describe.each(wires)("over $name", (wire) => {
  it.live("runs a tool once between failed requests, and says what it was told", () =>
    Effect.gen(function* () {
      const { cities, handlers } = counted()
      const { baseUrl, bodies } = yield* playing([busy, giving(wire.calling), busy, giving(wire.saying("21 degrees"))])
      yield* Effect.gen(function* () {
        const first = yield* LanguageModel.generateText({ prompt: "weather?", toolkit })
        assert.strictEqual(first.finishReason, "tool-calls")
        assert.strictEqual(first.usage.outputTokens.total, 3)
        const history = Prompt.concat(Prompt.make("weather?"), Prompt.fromResponseParts(first.content))
        const second = yield* LanguageModel.generateText({ prompt: history, toolkit })
        assert.strictEqual(second.text, "21 degrees")
      }).pipe(Effect.provide([modelOver(wire, baseUrl), handlers]))
      assert.deepStrictEqual(cities, ["Oslo"])
      assert.strictEqual(bodies.length, 4)
      assert.include(JSON.stringify(bodies[3]), "degrees")
    })
  )

  it.live("says no text of a stream twice when the line is cut", () =>
    Effect.gen(function* () {
      const { baseUrl } = yield* playing([
        streaming(wire.events("Once upon ", false), false),
        streaming(wire.events("a time", true), true)
      ])
      const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "tell" })).pipe(
        Effect.provide(modelOver(wire, baseUrl))
      )
      assert.strictEqual(shownText(parts), "Once upon a time")
      assert.strictEqual(parts.at(-1)?.type, "finish")
    })
  )

  it.live("asks for an object by its schema, in the words of the wire", () =>
    Effect.gen(function* () {
      const { baseUrl, bodies } = yield* playing([busy, giving(wire.saying('{"name":"Ada"}'))])
      const schema = Schema.Struct({ name: Schema.String })
      const { value } = yield* LanguageModel.generateObject({ prompt: "who?", schema }).pipe(
        Effect.provide(modelOver(wire, baseUrl))
      )
      assert.deepStrictEqual(value, { name: "Ada" })
      const asked = wire.schemaOf(bodies[1] ?? {}) as { readonly schema: object }
      assert.deepInclude(asked.schema, { type: "object", required: ["name"], additionalProperties: false })
    })
  )
})
