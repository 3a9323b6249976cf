import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { toMessage, type ModelPart, type ModelReply } from "../../../src/domain/chat/ModelReply.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { anthropic } from "../../../src/domain/provider/profiles/anthropic.ts"
import { make } from "../../../src/layers/provider/AnthropicModelClient.ts"
import { EventAssembler } from "../../../src/layers/provider/EventAssembler.ts"
import { eventReaderOf } from "../../../src/domain/wires/anthropicReader.ts"
import { readBody } from "../../../src/domain/wires/anthropicReply.ts"
import { toBody } from "../../../src/domain/wires/anthropicWire.ts"
import { runs } from "../../support/runs.ts"

const context = { profile: anthropic, model: "m", requestId: null }

const request = (messages: ReadonlyArray<Message>, more: Partial<WireRequest> = {}): WireRequest => ({
  messages,
  model: "m",
  maxOutputTokens: 8,
  role: "main",
  ...more
})

const message = (content: ReadonlyArray<unknown>, stop_reason: unknown = "end_turn", more: object = {}): unknown => ({
  type: "message",
  role: "assistant",
  model: "served",
  content,
  stop_reason,
  usage: { input_tokens: 5, output_tokens: 2, cache_read_input_tokens: 3, cache_creation_input_tokens: 4 },
  ...more
})

const text = (value: string) => ({ type: "text", text: value })
const use = { type: "tool_use", id: "t1", name: "f", input: { a: 1 } }

const reply = (body: unknown): ModelReply => {
  const read = readBody(context, JSON.stringify(body), {})
  if (Result.isFailure(read)) throw new Error(JSON.stringify(read.failure))
  return read.success
}

/** By the letter of the API. */
const verdict = (body: unknown): string => {
  const exact = { ...context, profile: { ...anthropic, exact: true } }
  const read = readBody(exact, typeof body === "string" ? body : JSON.stringify(body), {})
  if (Result.isSuccess(read)) return read.success.finishReason
  return "inBand" in read.failure ? `in-band ${read.failure.kind}` : read.failure.code
}

describe("a message body", () => {
  it.each<readonly [string, unknown]>([
    ["stop", message([text("a")])],
    ["stop", message([text("a")], "stop_sequence")],
    ["length", message([text("a")], "max_tokens")],
    ["window_full", message([text("a")], "model_context_window_exceeded")],
    ["pause", message([text("a")], "pause_turn")],
    ["refusal", message([], "refusal")],
    ["tool_calls", message([use], "tool_use")],
    ["empty_reply", message([])],
    ["empty_body", " \n"],
    ["not_json", "<html>"],
    ["not_a_message", {}],
    ["role_not_assistant", message([text("a")], "end_turn", { role: "user" })],
    ["content_not_a_list", message([], "end_turn", { content: "a" })],
    ["content_block_unknown", message([5])],
    ["finish_reason_unknown:whatever", message([text("a")], "whatever")],
    ["finish_reason_unknown", message([text("a")], null)],
    ["usage_not_a_count", message([text("a")], "end_turn", { usage: { input_tokens: -1 } })],
    ["tool_calls_missing", message([text("a")], "tool_use")],
    ["tool_call_not_whole", message([{ ...use, id: "" }], "tool_use")],
    ["in-band overloaded", { type: "error", error: { type: "overloaded_error" } }]
  ])("is %s: %j", (expected, body) => assert.strictEqual(verdict(body), expected))

  it.each<readonly [string, unknown]>([
    ["content that is one text", message([], "end_turn", { content: "a" })],
    ["usage that is no count", message([text("a")], "end_turn", { usage: { input_tokens: -1 } })],
    ["a call without an id", message([text("a"), { ...use, id: "" }], "tool_use")],
    ["two calls with one id", message([text("a"), use, { ...use, name: "g" }], "tool_use")],
    [
      "a block of a server's tool",
      message([text("a"), { type: "server_tool_use", id: "s", name: "search", input: {} }])
    ]
  ])("is read with %s", (_, body) => {
    const read = reply(body)
    assert.strictEqual(read.text, "a")
    assert.strictEqual(new Set(read.toolCalls.map((call) => call.id)).size, read.toolCalls.length)
  })

  it("sends a server's tools back to their model as they came, and to no other", () => {
    const found = [{ type: "web_search_tool_result", tool_use_id: "s", content: [{ encrypted_content: "SEALED" }] }]
    const body = message(
      [{ type: "server_tool_use", id: "s", name: "search", input: { q: 1 } }, ...found, text("a"), use],
      "tool_use"
    )
    const history: ReadonlyArray<Message> = [
      { role: "user", content: "q" },
      toMessage(reply(body)),
      { role: "tool", tool_call_id: "t1", content: "ran" }
    ]
    const sent = (model: string) => toBody(request(history, { model }), anthropic, null, false)["messages"]
    assert.deepInclude(JSON.parse(JSON.stringify(sent("m"))), {
      role: "assistant",
      content: [{ type: "server_tool_use", id: "s", name: "search", input: { q: 1 } }, ...found, text("a"), use]
    })
    assert.notInclude(JSON.stringify(sent("other")), "SEALED")
  })

  it("counts cached and written tokens as parts of the prompt, once", () => {
    assert.deepStrictEqual(reply(message([text("a")])).usage, {
      promptTokens: 12,
      completionTokens: 2,
      cachedTokens: 3,
      cacheWriteTokens: 4,
      reasoningTokens: null
    })
  })

  it("keeps a refusal apart from the text", () => {
    const found = reply(message([text("no")], "refusal"))
    assert.deepStrictEqual([found.text, found.refusal], [null, "no"])
  })
})

describe("a request", () => {
  it("has a budget even when none is wanted: the API demands one", () => {
    const given = request([{ role: "user", content: "go" }])
    assert.strictEqual(toBody({ ...given, maxOutputTokens: null }, anthropic, null, false)["max_tokens"], 8_000)
  })

  it("puts leading system messages first and pairs results with the user's next words", () => {
    const body = toBody(
      request([
        { role: "system", content: "rules" },
        { role: "user", content: "go" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "t1", type: "function", function: { name: "f", arguments: '{"a":1}' } }]
        },
        { role: "tool", tool_call_id: "t1", content: "ran" },
        { role: "user", content: "more" }
      ]),
      anthropic,
      null,
      false
    )
    assert.deepStrictEqual(body["system"], [text("rules")])
    assert.deepStrictEqual(body["messages"], [
      { role: "user", content: [text("go")] },
      { role: "assistant", content: [use] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "ran" }, text("more")] }
    ])
  })

  it("leaves manual thinking out in the middle of a tool loop that began without", () => {
    const call = (parts: object): Message => ({
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
      ...parts
    })
    const result: Message = { role: "tool", tool_call_id: "c", content: "ok" }
    const thought = { reasoning_parts: [{ model: "m", text: "hm", signature: "s" }] }
    const thinking = (type: string, ...messages: ReadonlyArray<Message>) =>
      toBody(
        {
          model: "m",
          messages: [{ role: "user", content: "go" }, ...messages],
          maxOutputTokens: 9_000,
          role: "main",
          params: { thinking: { type } }
        },
        anthropic,
        null,
        false
      )["thinking"]
    assert.isUndefined(thinking("enabled", call({}), result))
    assert.isUndefined(thinking("enabled", call(thought), result, call({ content: "so" }), result))
    assert.deepStrictEqual(thinking("enabled", call(thought), result), { type: "enabled" })
    // A new turn of the user, other ways to think, and a request without a loop keep it.
    assert.deepStrictEqual(
      thinking("enabled", call({}), result, { role: "assistant", content: "a" }, { role: "user", content: "b" }),
      { type: "enabled" }
    )
    assert.deepStrictEqual(thinking("adaptive", call({}), result), { type: "adaptive" })
    assert.deepStrictEqual(thinking("enabled"), { type: "enabled" })
  })

  it("sends thinking back to its own model and never to another", () => {
    const body = message([
      { type: "thinking", thinking: "hm", signature: "s" },
      { type: "redacted_thinking", data: "d" },
      text("a")
    ])
    const history: ReadonlyArray<Message> = [{ role: "user", content: "q" }, toMessage(reply(body))]
    const sent = (model: string) =>
      JSON.stringify(toBody(request(history, { model }), anthropic, null, false)["messages"])
    assert.include(
      sent("m"),
      '{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"}'
    )
    assert.notInclude(sent("other"), "thinking")
  })

  it("marks at most four places, and none without a lifetime", () => {
    const given = request(
      [
        { role: "system", content: "rules" },
        ...["a", "b", "c", "d"].flatMap((word): ReadonlyArray<Message> => [
          { role: "user", content: word },
          { role: "assistant", content: word }
        ]),
        { role: "user", content: "e" }
      ],
      { tools: [{ type: "function", function: { name: "f" } }] }
    )
    const count = (ttl: "5m" | null) =>
      JSON.stringify(toBody(given, anthropic, ttl, false)).split("cache_control").length - 1
    assert.strictEqual(count("5m"), 4)
    assert.strictEqual(count(null), 0)
  })

  it("translates what OpenAI spells otherwise and passes the rest", () => {
    const body = toBody(
      request([{ role: "user", content: "a" }], {
        tools: [{ type: "function", function: { name: "f" } }],
        params: { stop: "x", tool_choice: "required", parallel_tool_calls: false, top_k: 3, max_tokens: 99 }
      }),
      anthropic,
      null,
      true
    )
    assert.deepInclude(body, {
      max_tokens: 8,
      stop_sequences: ["x"],
      tool_choice: { type: "any", disable_parallel_tool_use: true },
      top_k: 3,
      stream: true
    })
  })

  it("sends a file by its address as a document", () => {
    const file = { file_url: "https://example.org/a.pdf" }
    const body = toBody(request([{ role: "user", content: [{ type: "file", file }] }]), anthropic, null, false)
    assert.deepInclude(
      JSON.stringify(body),
      '{"type":"document","source":{"type":"url","url":"https://example.org/a.pdf"}}'
    )
  })
})

const events: ReadonlyArray<unknown> = [
  { type: "message_start", message: { model: "served", usage: { input_tokens: 5, output_tokens: 1 } } },
  { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "hm" } },
  { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "s" } },
  { type: "content_block_stop", index: 0 },
  { type: "ping" },
  { type: "content_block_start", index: 1, content_block: text("") },
  { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "hé" } },
  { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "llo" } },
  { type: "content_block_stop", index: 1 },
  { type: "content_block_start", index: 2, content_block: { type: "tool_use", id: "t1", name: "f", input: {} } },
  { type: "content_block_delta", index: 2, delta: { type: "input_json_delta", partial_json: '{"a"' } },
  { type: "content_block_delta", index: 2, delta: { type: "input_json_delta", partial_json: ":1}" } },
  { type: "content_block_stop", index: 2 },
  { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 9 } },
  { type: "message_stop" }
]

const sse = (list: ReadonlyArray<unknown>): string =>
  list.map((event) => `event: x\ndata: ${JSON.stringify(event)}\n\n`).join("")

const play = (pieces: ReadonlyArray<string>) => {
  const assembler = new EventAssembler(eventReaderOf(context, {}))
  const parts = pieces.flatMap((piece) => assembler.feed(piece))
  if (!assembler.done) parts.push(...assembler.end())
  return { parts: parts.filter((part) => part._tag !== "Life"), fault: assembler.fault }
}

const endOf = (parts: ReadonlyArray<ModelPart>): ModelReply | undefined =>
  parts.flatMap((part) => (part._tag === "End" ? [part.reply] : []))[0]

const withoutCalls = [...events.slice(0, 10), { type: "message_delta", delta: { stop_reason: "max_tokens" } }]

describe("a stream of events", () => {
  it("gives text, thinking, whole calls and usage from start and delta", () => {
    const { parts, fault } = play([sse(events)])
    assert.isNull(fault)
    const end = endOf(parts)!
    assert.deepStrictEqual(
      [end.text, end.reasoning, end.finishReason, end.servedModel],
      ["héllo", "hm", "tool_calls", "served"]
    )
    assert.deepStrictEqual(end.reasoningParts, [{ model: "m", text: "hm", signature: "s" }])
    assert.deepStrictEqual(end.toolCalls, [{ id: "t1", name: "f", arguments: '{"a":1}' }])
    assert.deepStrictEqual([end.usage.promptTokens, end.usage.completionTokens], [5, 9])
    assert.strictEqual(parts.filter((part) => part._tag === "ToolCall").length, 1)
  })

  it.effect.prop(
    "is read the same wherever the network cuts it",
    { cuts: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1500 }))) },
    ({ cuts }) =>
      Effect.sync(() => {
        const whole = sse(events)
        const edges = [0, ...cuts.filter((cut) => cut < whole.length).sort((a, b) => a - b), whole.length]
        const pieces = edges.slice(1).map((edge, at) => whole.slice(edges[at], edge))
        assert.deepStrictEqual(endOf(play(pieces).parts), endOf(play([whole]).parts))
      }),
    { arbitrary: { runs: runs(100) } }
  )

  it("is complete with its stop reason, and cut without", () => {
    assert.strictEqual(endOf(play([sse(withoutCalls)]).parts)?.finishReason, "length")
    assert.strictEqual(play([sse(events.slice(0, 10))]).fault?.kind, "interrupted")
  })

  it("fails with the error that comes in the middle", () => {
    const fault = play([sse([...events.slice(0, 9), { type: "error", error: { type: "overloaded_error" } }])]).fault
    assert.strictEqual(fault?.kind, "overloaded")
  })

  it("never announces a call that the budget cut", () => {
    const cut = [...events.slice(0, 12), events[13], { type: "message_delta", delta: { stop_reason: "max_tokens" } }]
    const { parts } = play([sse(cut)])
    assert.isFalse(parts.some((part) => part._tag === "ToolCall"))
    assert.strictEqual(endOf(parts)?.toolCalls.length, 1)
  })
})

const answering = (body: unknown, init: ResponseInit = {}) => {
  const sent: Array<{ readonly url: string; readonly body: string }> = []
  const client = make({
    apiKey: "sk-ant-test-0000",
    fetch: (input, options) => {
      sent.push({ url: String(input), body: String(options?.body) })
      return Promise.resolve(new Response(typeof body === "string" ? body : JSON.stringify(body), init))
    }
  })
  return { client, sent }
}

const asked = request([{ role: "user", content: "a" }])

describe("the client", () => {
  it.effect("asks the messages API once and reads the reply", () =>
    Effect.gen(function* () {
      const { client, sent } = answering(message([text("hi")]), { headers: { "request-id": "r1" } })
      const found = yield* client.generate(asked)
      assert.deepStrictEqual([found.text, found.providerRequestId], ["hi", "r1"])
      assert.deepStrictEqual([sent.length, sent[0]?.url.endsWith("/v1/messages")], [1, true])
    })
  )

  it.effect("fails with the kind of the answer, after one request, without the key in it", () =>
    Effect.gen(function* () {
      const body = { type: "error", error: { type: "overloaded_error", message: "sk-ant-test-0000 busy" } }
      const { client, sent } = answering(body, { status: 529 })
      const error = yield* Effect.flip(client.generate(asked))
      assert.deepStrictEqual([error._tag, error.status, error.code], ["ModelOverloadedError", 529, "overloaded_error"])
      assert.strictEqual(error.providerMessage, "<redacted> busy")
      assert.strictEqual(sent.length, 1)
    })
  )

  it.effect("names its own class for a malformed answer", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(answering("<html>").client.generate(asked))
      assert.strictEqual(error._tag, "AnthropicResponseError")
    })
  )

  it.effect("streams events, and reads a whole message in their place", () =>
    Effect.gen(function* () {
      const headers = { "content-type": "text/event-stream" }
      const streamed = yield* Stream.runCollect(answering(sse(events), { headers }).client.stream(asked))
      assert.strictEqual(endOf(streamed)?.text, "héllo")
      const json = { headers: { "content-type": "application/json" } }
      const whole = yield* Stream.runCollect(answering(message([text("hi")]), json).client.stream(asked))
      assert.strictEqual(endOf(whole)?.text, "hi")
    })
  )

  it.effect("fails a stream that is cut as interrupted", () =>
    Effect.gen(function* () {
      const headers = { "content-type": "text/event-stream" }
      const { client } = answering(sse(events.slice(0, 9)), { headers })
      const exit = yield* Effect.exit(Stream.runDrain(client.stream(asked)))
      assert.isTrue(Exit.isFailure(exit))
      const error = yield* Effect.flip(Stream.runDrain(client.stream(asked)))
      assert.strictEqual(error._tag, "ModelStreamInterruptedError")
    })
  )
})
