import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import type { ModelPart, ModelReply, ToolCall } from "../../../src/domain/chat/ModelReply.ts"
import { generic } from "../../../src/domain/provider/profiles/generic.ts"
import { openai } from "../../../src/domain/provider/profiles/openai.ts"
import type { ProviderProfile } from "../../../src/domain/provider/ProviderProfile.ts"
import { eventReaderOf } from "../../../src/domain/wires/responsesReader.ts"
import { readBody } from "../../../src/domain/wires/responsesReply.ts"
import { EventAssembler } from "../../../src/layers/provider/EventAssembler.ts"

type Json = Readonly<Record<string, unknown>>

const contextOf = (profile: ProviderProfile) => ({ profile, model: "m", requestId: "r" })

const response = (output: unknown, more: Json = {}): Json => ({
  id: "a",
  object: "response",
  status: "completed",
  output,
  ...more
})

const message = (content: unknown, more: Json = {}): Json => ({ type: "message", role: "assistant", content, ...more })
const text = (value: string, more: Json = {}): Json => ({ type: "output_text", text: value, ...more })
const call = (fields: Json): Json => ({
  type: "function_call",
  call_id: "1",
  name: "f",
  arguments: "{}",
  ...fields
})
const without = (object: Json, key: string): Json =>
  Object.fromEntries(Object.entries(object).filter(([name]) => name !== key))

const whole = (body: Json, profile: ProviderProfile = generic): ModelReply | string => {
  const read = readBody(contextOf(profile), JSON.stringify(body), {})
  if (Result.isSuccess(read)) return read.success
  return "inBand" in read.failure ? `${read.failure.kind} in band` : `${read.failure.kind} ${read.failure.code}`
}

interface Streamed {
  readonly reply: ModelReply | string
  readonly parts: ReadonlyArray<ModelPart>
}

const streamed = (profile: ProviderProfile, events: ReadonlyArray<Json | string>): Streamed => {
  const assembler = new EventAssembler(eventReaderOf(contextOf(profile), {}))
  const parts = events.flatMap((event) => {
    if (assembler.fault !== null || assembler.done) return []
    return assembler.feed(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`)
  })
  if (assembler.fault === null && !assembler.done) parts.push(...assembler.end())
  const { fault } = assembler
  const end = parts.find((part) => part._tag === "End")
  const told = fault === null ? "no end" : "inBand" in fault ? `${fault.kind} in band` : `${fault.kind} ${fault.code}`
  return { parts, reply: end?.reply ?? told }
}

const shownCalls = ({ parts }: Streamed): ReadonlyArray<ToolCall> =>
  parts.flatMap((part) => (part._tag === "ToolCall" ? [part.call] : []))

const shownText = ({ parts }: Streamed): string => parts.map((part) => (part._tag === "Text" ? part.text : "")).join("")

const named = (calls: ReadonlyArray<ToolCall>): string => calls.map((one) => `${one.name}(${one.arguments})`).join(" ")

/** The events a body would have come in; with `isBare` the last one repeats no items. */
const eventsOf = (body: Json, isBare = false): ReadonlyArray<Json> => {
  const items = Array.isArray(body["output"]) ? (body["output"] as ReadonlyArray<Json>) : []
  return [
    { type: "response.created", response: { ...body, status: "in_progress", output: [], usage: null } },
    ...items.flatMap((item, output_index): ReadonlyArray<Json> => [
      { type: "response.output_item.added", output_index, item: { ...item, arguments: "", content: [] } },
      { type: "response.output_item.done", output_index, item }
    ]),
    {
      type: body["status"] === "incomplete" ? "response.incomplete" : "response.completed",
      response: isBare ? { ...body, output: [] } : body
    }
  ]
}

interface Row {
  readonly name: string
  readonly body: Json
  /** Text, then calls. */
  readonly reads: string
  readonly warning: RegExp | null
  /** What the API's own profile makes of it. */
  readonly exact: string | null
}

const rows: ReadonlyArray<Row> = [
  {
    name: "a call without an id",
    body: response([without(call({}), "call_id")]),
    reads: "f({})",
    warning: /without an id/,
    exact: "malformed_response tool_call_not_whole"
  },
  {
    name: "two calls with one id",
    body: response([call({}), call({ name: "g" })]),
    reads: "f({}) g({})",
    warning: /without an id/,
    exact: null
  },
  {
    name: "a call without arguments",
    body: response([without(call({}), "arguments")]),
    reads: "f({})",
    warning: /without arguments/,
    exact: "malformed_response tool_call_not_whole"
  },
  {
    name: "arguments as an object",
    body: response([call({ arguments: { a: 1 } })]),
    reads: 'f({"a":1})',
    warning: /as an object/,
    exact: "malformed_response tool_call_not_whole"
  },
  {
    name: "content as one text",
    body: response([message("fine")]),
    reads: "fine",
    warning: /one text in place/,
    exact: "malformed_response content_not_a_list"
  },
  {
    name: "a text among the parts",
    body: response([message(["fi", text("ne")])]),
    reads: "fine",
    warning: /one text in place/,
    exact: "malformed_response content_not_text"
  },
  {
    name: "parts by their chat name",
    body: response([message([{ type: "text", text: "fine" }])]),
    reads: "fine",
    warning: null,
    exact: ""
  },
  {
    name: "a message without a role",
    body: response([without(message([text("fine")]), "role")]),
    reads: "fine",
    warning: /no role/,
    exact: "malformed_response role_not_assistant"
  },
  {
    name: "an answer that does not say what it is",
    body: without(response([message([text("fine")])]), "object"),
    reads: "fine",
    warning: /did not say/,
    exact: "malformed_response not_a_response"
  },
  {
    name: "an answer without a status",
    body: without(response([message([text("fine")])]), "status"),
    reads: "fine",
    warning: null,
    exact: "malformed_response finish_reason_unknown"
  },
  ...[{ input_tokens: -1 }, { output_tokens: "7" }, { input_tokens: 1.5 }, "free", []].map((usage): Row => ({
    name: `a usage that is none: ${JSON.stringify(usage)}`,
    body: response([message([text("fine")])], { usage }),
    reads: "fine",
    warning: /no count/,
    exact:
      typeof usage === "string" || Array.isArray(usage)
        ? "malformed_response usage_not_an_object"
        : "malformed_response usage_not_a_count"
  }))
]

const readsAs = (reply: ModelReply | string): string =>
  typeof reply === "string" ? reply : [reply.text ?? "", named(reply.toolCalls)].join("")

describe("a small deviation of a response", () => {
  it.each(rows)("$name is read with a warning, whole and streamed alike", ({ body, reads, warning }) => {
    const reply = whole(body)
    assert.strictEqual(readsAs(reply), reads)
    const { warnings } = reply as ModelReply
    if (warning === null) assert.deepStrictEqual(warnings, [])
    else assert.match(warnings.join(" "), warning)
    for (const isBare of [false, true]) {
      const read = streamed(generic, eventsOf(body, isBare))
      assert.deepStrictEqual(read.reply, reply)
      assert.strictEqual(shownText(read), (reply as ModelReply).text ?? "")
      assert.deepStrictEqual(shownCalls(read), (reply as ModelReply).toolCalls)
    }
  })

  it.each(rows.filter(({ exact }) => exact !== null && exact !== ""))(
    "$name is malformed to the letter of the API",
    ({ body, exact }) => {
      assert.strictEqual(whole(body, openai), exact)
      assert.strictEqual(streamed(openai, eventsOf(body)).reply, exact)
    }
  )
})

const created = { type: "response.created", response: { id: "a" } }
const completed = (more: Json = {}): Json => ({ type: "response.completed", response: response([], more) })
const added = (item: Json, more: Json = {}): Json => ({
  type: "response.output_item.added",
  output_index: 0,
  item,
  ...more
})
const done = (item: Json, more: Json = {}): Json => ({
  type: "response.output_item.done",
  output_index: 0,
  item,
  ...more
})
const piece = (delta: string, more: Json = {}): Json => ({
  type: "response.function_call_arguments.delta",
  output_index: 0,
  delta,
  ...more
})
const say = (delta: string, more: Json = {}): Json => ({
  type: "response.output_text.delta",
  output_index: 0,
  delta,
  ...more
})

describe("an index that is used again on the responses wire", () => {
  it.each<readonly [string, string, ReadonlyArray<Json>]>([
    [
      "by every call",
      'f({"a":1}) g({"b":2})',
      [done(call({ arguments: '{"a":1}' })), done(call({ call_id: "2", name: "g", arguments: '{"b":2}' }))]
    ],
    [
      "by calls under way at once, told apart by their items",
      'f({"a":1}) g({"b":2})',
      [
        added(call({ id: "i1", arguments: "" })),
        added(call({ id: "i2", call_id: "2", name: "g", arguments: "" })),
        piece('{"a"', { item_id: "i1" }),
        piece('{"b":2}', { item_id: "i2" }),
        piece(":1}", { item_id: "i1" })
      ]
    ],
    [
      "by a text and a call",
      'hi f({"a":1})',
      [say("hi "), added(call({ arguments: "" })), piece('{"a":1}'), done(call({ arguments: '{"a":1}' }))]
    ],
    [
      "by one call told twice",
      "f({})",
      [added(call({ id: "i1" })), done(call({ id: "i1" })), done(call({ id: "i1" }), { output_index: 3 })]
    ],
    [
      "by calls of which no event says that they end",
      'f({"a":1}) g({})',
      [
        added(call({ arguments: "" })),
        piece('{"a":1}'),
        added(call({ call_id: "2", name: "g", arguments: "" }), { output_index: 1 }),
        piece("{}", { output_index: 1 })
      ]
    ]
  ])("%s", (_, reads, events) => {
    const read = streamed(generic, [created, ...events, completed()])
    assert.strictEqual(readsAs(read.reply), reads)
    assert.deepStrictEqual(shownCalls(read), (read.reply as ModelReply).toolCalls)
  })

  it("shows calls in the order they began, whichever ends first", () => {
    const read = streamed(generic, [
      added(call({ id: "i1", arguments: "" })),
      added(call({ id: "i2", call_id: "2", name: "g", arguments: "" }), { output_index: 1 }),
      done(call({ id: "i2", call_id: "2", name: "g" }), { output_index: 1 }),
      done(call({ id: "i1" })),
      completed()
    ])
    assert.strictEqual(named(shownCalls(read)), "f({}) g({})")
    assert.deepStrictEqual(shownCalls(read), (read.reply as ModelReply).toolCalls)
  })

  it("believes no last event that tells other calls than those that were shown", () => {
    const read = streamed(generic, [
      done(call({})),
      { type: "response.completed", response: response([call({ arguments: '{"all":true}' })]) }
    ])
    assert.strictEqual(read.reply, "malformed_response tool_calls_differ")
  })
})

describe("a response that ends", () => {
  it.each<readonly [string, Json, string]>([
    ["for want of budget", { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }, "length"],
    ["at a filter", { status: "incomplete", incomplete_details: { reason: "content_filter" } }, "content_filter"],
    ["for a reason of the chat wire", { status: "incomplete", incomplete_details: { reason: "length" } }, "length"],
    [
      "for a reason nobody knows",
      { status: "incomplete", incomplete_details: { reason: "tired" } },
      "malformed_response finish_reason_unknown:tired"
    ],
    [
      "incomplete and by itself, which cannot both be",
      { status: "incomplete", incomplete_details: { reason: "stop" } },
      "malformed_response finish_reason_unknown:stop"
    ],
    ["incomplete without a reason", { status: "incomplete" }, "malformed_response finish_reason_unknown"],
    ["with a status nobody knows", { status: "paused" }, "malformed_response finish_reason_unknown:paused"],
    ["before it has", { status: "in_progress" }, "malformed_response response_not_finished"],
    ["as cancelled", { status: "cancelled" }, "malformed_response response_not_finished"],
    ["as failed, without a word", { status: "failed", error: null }, "server_error in band"]
  ])("%s", (_, more, expected) => {
    const body = response([message([text("fine")])], more)
    for (const reply of [whole(body), streamed(generic, eventsOf(body)).reply])
      assert.strictEqual(typeof reply === "string" ? reply : reply.finishReason, expected)
  })

  it.each<readonly [string, Json, string]>([
    ["a call that was cut", call({ arguments: '{"a', status: "incomplete" }), "malformed_response tool_call_not_whole"],
    ["a call without a name", call({ name: "" }), "malformed_response tool_call_without_name"],
    ["a call whose name is none", call({ name: 7 }), "malformed_response tool_call_not_whole"],
    ["nothing", message([text("")]), "empty_reply empty_reply"]
  ])("with %s is no reply", (_, item, expected) => {
    assert.strictEqual(whole(response([item])), expected)
    for (const isBare of [false, true])
      assert.strictEqual(streamed(generic, eventsOf(response([item]), isBare)).reply, expected)
  })

  it("keeps a cut call under a length stop, so that nobody goes on behind it", () => {
    const body = response([call({ arguments: '{"a', status: "incomplete" })], {
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" }
    })
    assert.strictEqual((whole(body) as ModelReply).toolCalls.length, 1)
    const read = streamed(generic, eventsOf(body))
    assert.deepStrictEqual([read.reply, shownCalls(read)], [whole(body), []])
  })
})

describe("what stands beside the text of a response", () => {
  const search = { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "q" } }
  const body = response(
    [
      search,
      message([
        text("fine", { annotations: [{ type: "url_citation", url: "https://a.test" }], logprobs: [{ token: "fine" }] })
      ])
    ],
    { service_tier: "flex", created_at: 5, instructions: "a prompt", tools: [] }
  )

  it("is kept, the same whether it came whole or in a stream, and without what the request said", () => {
    const reply = whole(body)
    assert.notTypeOf(reply, "string")
    const { extra, details } = reply as ModelReply
    assert.deepStrictEqual(extra, {
      annotations: [{ type: "url_citation", url: "https://a.test" }],
      output_items: [search]
    })
    assert.deepStrictEqual(details, { id: "a", service_tier: "flex", created_at: 5, logprobs: [{ token: "fine" }] })
    assert.deepStrictEqual(streamed(generic, eventsOf(body)).reply, reply)
    assert.deepStrictEqual(streamed(generic, eventsOf(body, true)).reply, reply)
  })

  it("is an answer by itself: a picture needs no text", () => {
    const picture = { type: "image_generation_call", id: "ig_1", status: "completed", result: "aGk=" }
    const reply = whole(response([picture])) as ModelReply
    assert.deepStrictEqual([reply.text, reply.extra], [null, { output_items: [picture] }])
  })

  it("is a refusal when the model refuses, however it is told", () => {
    const refused = response([message([{ type: "refusal", refusal: "no" }])])
    const reply = whole(refused) as ModelReply
    assert.deepStrictEqual([reply.text, reply.refusal], [null, "no"])
    const inPieces = [
      added(message([])),
      { type: "response.refusal.delta", output_index: 0, delta: "n" },
      { type: "response.refusal.delta", output_index: 0, delta: "o" }
    ]
    assert.strictEqual((streamed(generic, [created, ...inPieces, completed()]).reply as ModelReply).refusal, "no")
  })
})

describe("a stream of responses", () => {
  it.each<readonly [string, string]>([
    ["a line that is a piece of JSON", '{"type":"response.output_text.del'],
    ["a line without its beginning", 'a":1}']
  ])("is cut by %s", (_, line) => {
    assert.strictEqual(
      streamed(generic, [say("Do "), line, say("delete it."), completed()]).reply,
      "interrupted chunk_not_json"
    )
  })

  it("that says in words what is wrong has failed", () => {
    assert.strictEqual(streamed(generic, [say("Do "), "upstream has gone away"]).reply, "server_error in band")
  })

  it.each(["ping", "null", '""', "[]"])("passes over %s between its events", (line) => {
    const read = streamed(generic, [say("fine"), line, completed()])
    assert.strictEqual(readsAs(read.reply), "fine")
  })

  it("shows what only its last event told", () => {
    const read = streamed(generic, [
      say("fi"),
      { type: "response.completed", response: response([message([text("fine")])]) }
    ])
    assert.deepStrictEqual([readsAs(read.reply), shownText(read)], ["fine", "fine"])
  })

  it("that ends without its last event is cut", () => {
    assert.strictEqual(
      streamed(generic, [say("fine"), done(message([text("fine")]))]).reply,
      "interrupted no_finish_reason"
    )
  })
})
