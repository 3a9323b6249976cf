import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { isModelError } from "../../../src/domain/failure/ModelError.ts"
import { toMessage, type ModelPart } from "../../../src/domain/chat/ModelReply.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { openai } from "../../../src/domain/provider/profiles/openai.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"

type Json = Readonly<Record<string, unknown>>

const request: WireRequest = {
  messages: [
    { role: "system", content: "be brief" },
    {
      role: "user",
      content: [
        { type: "text", text: "go" },
        { type: "image_url", image_url: { url: "https://a.test/b.png" } }
      ]
    }
  ],
  model: "gpt-5",
  maxOutputTokens: 100,
  role: "main"
}

const clientOf = (answer: () => Response) => {
  const sent: Array<{ readonly url: string; readonly body: Json }> = []
  const client = OpenAiModelClient.make({
    api: "responses",
    apiKey: Redacted.make("sk-test-12345678"),
    baseUrl: "http://provider.test/v1",
    profile: openai,
    fetch: (input, init) => {
      sent.push({ url: String(input), body: JSON.parse(String(init?.body)) as Json })
      return Promise.resolve(answer())
    }
  })
  return { client, sent }
}

const usage = {
  input_tokens: 40,
  input_tokens_details: { cached_tokens: 10 },
  output_tokens: 20,
  output_tokens_details: { reasoning_tokens: 5 },
  total_tokens: 60
}

const response = (fields: Json): Json => ({
  id: "resp_1",
  object: "response",
  status: "completed",
  error: null,
  model: "gpt-5-2026",
  output: [],
  usage,
  ...fields
})

const message = (text: string): Json => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }]
})

const reasoning = {
  id: "rs_1",
  type: "reasoning",
  summary: [{ type: "summary_text", text: "think" }],
  encrypted_content: "sealed"
}
const call = {
  id: "fc_1",
  type: "function_call",
  call_id: "call_1",
  name: "read",
  arguments: '{"a":1}',
  status: "completed"
}
const custom = { id: "ct_1", type: "custom_tool_call", call_id: "call_2", name: "patch", input: "*** Begin" }

const json =
  (body: unknown, status = 200) =>
  () =>
    new Response(JSON.stringify(body), {
      status,
      headers: { "content-type": "application/json", "x-request-id": "req-1" }
    })

const events = (list: ReadonlyArray<Json>) => () =>
  new Response(list.map((event) => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`).join(""), {
    headers: { "content-type": "text/event-stream" }
  })

describe("a request on the responses wire", () => {
  it.effect("sends items, asks for sealed thinking and stores nothing", () =>
    Effect.gen(function* () {
      const { client, sent } = clientOf(json(response({ output: [message("fine")] })))
      yield* client.generate({
        ...request,
        tools: [{ type: "function", function: { name: "read", parameters: { type: "object" }, strict: true } }],
        params: {
          response_format: { type: "json_schema", json_schema: { name: "n", schema: {} } },
          reasoning_effort: "low"
        }
      })
      assert.strictEqual(sent[0]?.url, "http://provider.test/v1/responses")
      assert.deepStrictEqual(sent[0]?.body, {
        store: false,
        include: ["reasoning.encrypted_content"],
        text: { format: { type: "json_schema", name: "n", schema: {} } },
        reasoning: { effort: "low" },
        model: "gpt-5",
        input: [
          { role: "system", content: "be brief" },
          {
            role: "user",
            content: [
              { type: "input_text", text: "go" },
              { type: "input_image", image_url: "https://a.test/b.png", detail: "auto" }
            ]
          }
        ],
        tools: [{ type: "function", name: "read", parameters: { type: "object" }, strict: true }],
        max_output_tokens: 100
      })
    })
  )

  it.effect("asks no model that does not think for its thinking", () =>
    Effect.gen(function* () {
      const { client, sent } = clientOf(json(response({ output: [message("fine")] })))
      yield* client.generate({ ...request, model: "gpt-4o" })
      assert.isFalse("include" in (sent[0]?.body ?? {}))
    })
  )

  it.effect("gives thinking back to the model that thought, custom calls as what they are, and to no other model", () =>
    Effect.gen(function* () {
      const { client, sent } = clientOf(json(response({ output: [reasoning, message("so"), call, custom] })))
      const reply = yield* client.generate(request)
      const history = [
        ...request.messages,
        toMessage(reply),
        { role: "tool" as const, tool_call_id: "call_1", content: "one" },
        { role: "tool" as const, tool_call_id: "call_2", content: "two" }
      ]
      yield* client.generate({ ...request, messages: history })
      yield* client.generate({ ...request, messages: history, model: "gpt-5-mini" })
      const tails = sent.slice(1).map(({ body }) => (body["input"] as ReadonlyArray<Json>).slice(2))
      const functionCall = { type: "function_call", call_id: "call_1", name: "read", arguments: '{"a":1}' }
      const functionOutput = { type: "function_call_output", call_id: "call_1", output: "one" }
      assert.deepStrictEqual(tails[0], [
        reasoning,
        { role: "assistant", content: "so" },
        functionCall,
        { type: "custom_tool_call", call_id: "call_2", name: "patch", input: "*** Begin" },
        functionOutput,
        { type: "custom_tool_call_output", call_id: "call_2", output: "two" }
      ])
      assert.isFalse(JSON.stringify(tails[1]).includes("sealed"))
    })
  )
})

describe("an answer on the responses wire", () => {
  it.effect("becomes a reply with its calls, thinking, usage and id", () =>
    Effect.gen(function* () {
      const { client } = clientOf(json(response({ output: [reasoning, message("so"), call, custom] })))
      const reply = yield* client.generate(request)
      assert.deepInclude(reply, {
        text: "so",
        refusal: null,
        reasoning: "think",
        finishReason: "tool_calls",
        model: "gpt-5",
        servedModel: "gpt-5-2026",
        providerRequestId: "req-1",
        responseId: "resp_1"
      })
      assert.deepStrictEqual(reply.usage, {
        promptTokens: 40,
        completionTokens: 20,
        cachedTokens: 10,
        cacheWriteTokens: null,
        reasoningTokens: 5
      })
      assert.deepStrictEqual(
        reply.toolCalls.map(({ id, name, arguments: args }) => [id, name, args]),
        [
          ["call_1", "read", '{"a":1}'],
          ["call_2", "patch", "*** Begin"]
        ]
      )
    })
  )

  it.effect.each([
    ["max_output_tokens", "length"],
    ["content_filter", "content_filter"]
  ] as const)("that is incomplete for %s stops with %s", ([reason, finishReason]) =>
    Effect.gen(function* () {
      const body = response({ status: "incomplete", incomplete_details: { reason }, output: [message("half")] })
      const reply = yield* clientOf(json(body)).client.generate(request)
      assert.deepInclude(reply, { text: "half", finishReason })
    })
  )

  it.effect("holds a refusal as one", () =>
    Effect.gen(function* () {
      const refused = { ...message(""), content: [{ type: "refusal", refusal: "no" }] }
      const reply = yield* clientOf(json(response({ output: [refused] }))).client.generate(request)
      assert.deepInclude(reply, { text: null, refusal: "no", finishReason: "stop" })
    })
  )

  it.effect.each([
    [response({ status: "failed", error: { code: "server_error", message: "synthetic" } }), "ModelServerError"],
    [
      response({ status: "failed", error: { code: "rate_limit_exceeded", message: "synthetic" } }),
      "ModelRateLimitError"
    ],
    [response({ status: "failed", error: null }), "ModelServerError"],
    [response({ status: "incomplete", incomplete_details: { reason: "new_word" } }), "OpenAIResponseError"],
    [response({ status: "queued" }), "OpenAIResponseError"],
    [response({ output: [{ ...call, call_id: "" }] }), "OpenAIResponseError"],
    [response({ output: [message("x")], usage: { input_tokens: -1 } }), "OpenAIResponseError"],
    [response({ output: [] }), "OpenAIResponseError"],
    [{ object: "chat.completion", choices: [] }, "OpenAIResponseError"]
  ] as ReadonlyArray<readonly [Json, string]>)("%j fails with %s", ([body, tag]) =>
    Effect.gen(function* () {
      const exit = yield* Effect.result(clientOf(json(body)).client.generate(request))
      assert.strictEqual(exit._tag === "Failure" ? exit.failure._tag : "ok", tag)
    })
  )
})

const added = (index: number, item: Json): Json => ({ type: "response.output_item.added", output_index: index, item })
const done = (index: number, item: Json): Json => ({ type: "response.output_item.done", output_index: index, item })
const delta = (index: number, text: string): Json => ({
  type: "response.output_text.delta",
  output_index: index,
  delta: text
})
const created: Json = { type: "response.created", response: response({ status: "in_progress" }) }

const whole = [reasoning, message("hello"), call]

const script: ReadonlyArray<Json> = [
  created,
  added(0, { ...reasoning, summary: [] }),
  { type: "response.reasoning_summary_text.delta", output_index: 0, delta: "think" },
  done(0, reasoning),
  added(1, { ...message(""), content: [] }),
  delta(1, "hel"),
  delta(1, "lo"),
  done(1, message("hello")),
  added(2, { ...call, arguments: "" }),
  { type: "response.function_call_arguments.delta", output_index: 2, delta: '{"a":1}' },
  done(2, call),
  { type: "response.completed", response: response({ output: whole }) }
]

const partsOf = (list: ReadonlyArray<Json>) =>
  Effect.gen(function* () {
    const seen: Array<ModelPart> = []
    const exit = yield* Effect.exit(
      Stream.runForEach(clientOf(events(list)).client.stream(request), (part) =>
        Effect.sync(() => void seen.push(part))
      )
    )
    return { seen: seen.filter((part) => part._tag !== "Life"), exit }
  })

describe("a stream on the responses wire", () => {
  it.effect("brings thinking, text and the whole call, then the reply", () =>
    Effect.gen(function* () {
      const { seen } = yield* partsOf(script)
      assert.deepStrictEqual(
        seen.map((part) => part._tag),
        ["Reasoning", "Text", "Text", "ToolCallDelta", "ToolCallDelta", "ToolCall", "Usage", "End"]
      )
      const end = seen.at(-1)
      assert.deepInclude(end?._tag === "End" ? end.reply : {}, { text: "hello", finishReason: "tool_calls" })
    })
  )

  it.effect("that repeats no items at its end is read from its events", () =>
    Effect.gen(function* () {
      const { seen } = yield* partsOf([...script.slice(0, -1), { type: "response.completed", response: response({}) }])
      const end = seen.at(-1)
      assert.deepInclude(end?._tag === "End" ? end.reply : {}, { text: "hello", finishReason: "tool_calls" })
    })
  )

  it.effect.each([
    [script.slice(0, -1), "ModelStreamInterruptedError"],
    [[created, delta(0, "a"), { type: "error", code: "server_error", message: "synthetic" }], "ModelServerError"],
    [[created, { type: "error", error: { type: "tokens", code: "rate_limit_exceeded" } }], "ModelRateLimitError"],
    [
      [created, { type: "response.failed", response: response({ status: "failed", error: { code: "server_error" } }) }],
      "ModelServerError"
    ],
    [[created, { type: "response.completed", response: response({ status: "in_progress" }) }], "OpenAIResponseError"],
    [
      [created, delta(0, "ab"), { type: "response.completed", response: response({ output: [message("a")] }) }],
      "OpenAIResponseError"
    ]
  ] as ReadonlyArray<readonly [ReadonlyArray<Json>, string]>)("number %# ends as it should", ([list, tag]) =>
    Effect.gen(function* () {
      const { exit } = yield* partsOf(list)
      const failure = Exit.isFailure(exit) ? exit.cause.reasons[0] : undefined
      const error = failure !== undefined && "error" in failure ? failure.error : null
      assert.strictEqual(isModelError(error) ? error._tag : "ok", tag)
    })
  )
})
