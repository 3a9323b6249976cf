import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import type { ModelPart, ModelReply, ToolCall } from "../../../src/domain/chat/ModelReply.ts"
import { gemini } from "../../../src/domain/provider/profiles/gemini.ts"
import { generic } from "../../../src/domain/provider/profiles/generic.ts"
import { openai } from "../../../src/domain/provider/profiles/openai.ts"
import type { ProviderProfile } from "../../../src/domain/provider/ProviderProfile.ts"
import { eventReaderOf } from "../../../src/domain/wires/openAiReader.ts"
import { readBody } from "../../../src/domain/wires/openAiWire.ts"
import { EventAssembler, eventsAsReply } from "../../../src/layers/provider/EventAssembler.ts"

const contextOf = (profile: ProviderProfile) => ({ profile, model: "m", requestId: "r" })

const body = (message: object, finish_reason: unknown = "stop", more: object = {}): string =>
  JSON.stringify({
    id: "a",
    choices: [{ index: 0, finish_reason, message: { role: "assistant", ...message } }],
    ...more
  })

const whole = (text: string, profile: ProviderProfile = generic): ModelReply => {
  const read = readBody(contextOf(profile), text, {})
  if (Result.isFailure(read)) throw new Error(JSON.stringify(read.failure))
  return read.success
}

const data = (value: unknown): string => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`
const delta = (value: object, finish_reason: string | null = null): string =>
  data({ id: "a", choices: [{ index: 0, delta: value, finish_reason }] })
const call = (value: object): string => delta({ tool_calls: [value] })

interface Streamed {
  readonly reply: ModelReply | null
  readonly fault: string | null
  readonly parts: ReadonlyArray<ModelPart>
}

const streamed = (profile: ProviderProfile, ...events: ReadonlyArray<string>): Streamed => {
  const assembler = new EventAssembler(eventReaderOf(contextOf(profile), {}))
  const parts = events.flatMap((event) => (assembler.fault === null && !assembler.done ? assembler.feed(event) : []))
  if (assembler.fault === null && !assembler.done) parts.push(...assembler.end())
  const { fault } = assembler
  const end = parts.find((part) => part._tag === "End")
  return {
    parts,
    reply: end?.reply ?? null,
    fault:
      fault === null
        ? null
        : "inBand" in fault
          ? `${fault.kind} ${fault.providerMessage}`
          : `${fault.kind} ${fault.code}`
  }
}

const shown = (read: Streamed): ReadonlyArray<ToolCall> =>
  read.parts.flatMap((part) => (part._tag === "ToolCall" ? [part.call] : []))

const named = (calls: ReadonlyArray<ToolCall>): string => calls.map((one) => `${one.name}(${one.arguments})`).join(" ")

const end = delta({}, "tool_calls")

describe("an index that is used again", () => {
  it.each<readonly [string, string, ReadonlyArray<string>]>([
    [
      "with another id",
      'f({"a":1}) f({"a":2})',
      [
        call({ index: 0, id: "1", function: { name: "f", arguments: '{"a":1}' } }),
        call({ index: 0, id: "2", function: { name: "f", arguments: '{"a":2}' } })
      ]
    ],
    [
      "with another id before any argument came",
      'f() g({"a":2})',
      [
        call({ index: 0, id: "1", function: { name: "f", arguments: "" } }),
        call({ index: 0, id: "2", function: { name: "g", arguments: '{"a":2}' } })
      ]
    ],
    [
      "without ids",
      'f({"a":1}) f({"a":2})',
      [
        call({ index: 0, id: "", function: { name: "f", arguments: '{"a":1}' } }),
        call({ index: 0, id: "", function: { name: "f", arguments: '{"a":2}' } })
      ]
    ],
    [
      "with another name once the value has closed",
      "f({}) g({})",
      [
        call({ index: 0, id: "1", function: { name: "f", arguments: "{}" } }),
        call({ index: 0, id: "1", function: { name: "g", arguments: "{}" } })
      ]
    ],
    [
      "with the same id for every call",
      'f({"a":1}) f({"a":2})',
      [
        call({ index: 0, id: "1", function: { name: "f", arguments: '{"a":1}' } }),
        call({ index: 0, id: "1", function: { name: "f", arguments: '{"a":2}' } })
      ]
    ],
    [
      "in pieces",
      'f({"a":1}) g({"b":2})',
      [
        call({ index: 0, id: "1", function: { name: "f", arguments: '{"a"' } }),
        call({ index: 0, function: { arguments: ":1}" } }),
        call({ index: 0, id: "2", function: { name: "g", arguments: "" } }),
        call({ index: 0, function: { arguments: '{"b":2}' } })
      ]
    ],
    [
      "with the name on every piece",
      'f({"a":1})',
      [
        call({ index: 0, id: "1", function: { name: "f", arguments: '{"a"' } }),
        call({ index: 0, id: "1", function: { name: "f", arguments: ":1}" } })
      ]
    ],
    [
      "with a new id on every piece",
      'f({"a":1})',
      [
        call({ index: 0, id: "1", function: { name: "f", arguments: '{"a"' } }),
        call({ index: 0, id: "x", function: { arguments: ":1}" } })
      ]
    ],
    [
      "for the same call told twice",
      'f({"a":1})',
      [
        call({ index: 0, id: "1", function: { name: "f", arguments: '{"a":1}' } }),
        call({ index: 0, id: "1", function: { name: "f", arguments: '{"a":1}' } })
      ]
    ],
    [
      "without an index at all",
      'f({"a":1}) g({})',
      [
        call({ id: "", function: { name: "f", arguments: '{"a":1}' } }),
        call({ id: "", function: { name: "g", arguments: "{}" } })
      ]
    ]
  ])("%s", (_, expected, events) => {
    const read = streamed(generic, ...events, end)
    assert.strictEqual(named(read.reply?.toolCalls ?? []), expected)
    // What a consumer saw is what the reply holds, in the same order and with the same ids.
    assert.deepStrictEqual(shown(read), read.reply?.toolCalls)
    assert.strictEqual(new Set(shown(read).map((one) => one.id)).size, shown(read).length)
  })

  it("never runs one call with the arguments of another", () => {
    const read = streamed(
      generic,
      call({ index: 0, id: "1", function: { name: "wipe", arguments: '{"a"' } }),
      call({ index: 0, id: "1", function: { name: "read", arguments: ":1}" } }),
      end
    )
    assert.deepStrictEqual([read.fault, shown(read)], ["malformed_response tool_call_not_whole", []])
  })

  it("announces calls in the order of the reply, whichever closes first", () => {
    const read = streamed(
      generic,
      call({ index: 0, id: "1", function: { name: "f", arguments: "{" } }),
      call({ index: 1, id: "2", function: { name: "g", arguments: "{}" } }),
      call({ index: 0, function: { arguments: "}" } }),
      end
    )
    assert.deepStrictEqual(shown(read), read.reply?.toolCalls)
    assert.strictEqual(named(shown(read)), "f({}) g({})")
  })
})

describe("a small deviation", () => {
  const use = { id: "c", type: "function", function: { name: "f", arguments: "{}" } }
  it.each<readonly [string, string]>([
    ["a call without an id", body({ content: null, tool_calls: [{ ...use, id: undefined }] }, "tool_calls")],
    [
      "a call without arguments",
      body({ content: null, tool_calls: [{ ...use, function: { name: "f" } }] }, "tool_calls")
    ],
    [
      "arguments as an object",
      body({ content: null, tool_calls: [{ ...use, function: { name: "f", arguments: { a: [1] } } }] }, "tool_calls")
    ],
    [
      "content as a list of texts",
      body({
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "b" }
        ]
      })
    ],
    [
      "thinking as a part",
      body({
        content: [
          { type: "thinking", thinking: [{ type: "text", text: "hm" }] },
          { type: "text", text: "a" }
        ]
      })
    ],
    ["a negative count", body({ content: "a" }, "stop", { usage: { completion_tokens: -35 } })],
    ["a fraction of a token", body({ content: "a" }, "stop", { usage: { prompt_tokens: 1.5 } })],
    ["a count as a text", body({ content: "a" }, "stop", { usage: { prompt_tokens: "9" } })],
    ["usage that is a text", body({ content: "a" }, "stop", { usage: "none" })],
    ["a message without a role", JSON.stringify({ choices: [{ finish_reason: "stop", message: { content: "a" } }] })]
  ])("%s is read with a warning, and refused by the letter", (_, text) => {
    assert.isAbove(whole(text).warnings.length, 0)
    assert.isTrue(Result.isFailure(readBody(contextOf(openai), text, {})))
  })

  it.each<readonly [string, object]>([
    [
      "an empty stub of a legacy call",
      { content: null, tool_calls: [use], function_call: { name: "", arguments: "" } }
    ],
    ["a legacy call of null", { content: null, tool_calls: [use], function_call: { name: null, arguments: null } }]
  ])("%s beside real calls is none", (_, message) => {
    assert.strictEqual(whole(body(message, "tool_calls")).toolCalls.length, 1)
  })

  it.each<readonly [string, object]>([
    ["sound", { audio: { id: "x", data: "AAAA" } }],
    ["pictures", { images: [{ type: "image_url" }] }],
    ["a picture among the parts", { content: [{ type: "image_url", image_url: { url: "data:" } }] }]
  ])("a reply of %s is a reply", (_, message) => {
    assert.isNull(whole(body({ content: null, ...message })).text)
    assert.strictEqual(streamed(generic, delta(message), delta({}, "stop")).fault, null)
  })

  it.each(["ping", "null", '""', "keep-alive", ": heartbeat", ": OPENROUTER PROCESSING", "{}", "[]", "[PING]"])(
    "a line of %s keeps a stream alive",
    (line) => {
      assert.strictEqual(
        streamed(
          generic,
          data(line),
          delta({ content: "fi" }),
          data(line),
          delta({ content: "ne" }),
          data(line),
          delta({}, "stop")
        ).reply?.text,
        "fine"
      )
    }
  )

  it.each(["upstream timeout", "Internal Server Error", '"quota service unavailable"', "<html>502</html>"])(
    "%s in place of an event is the server's failure",
    (line) => {
      assert.include(streamed(generic, delta({ content: "Half" }), data(line)).fault, "server_error")
    }
  )

  it.each([
    '{"choices":[{"delta":{"content":"not "}',
    '{"choices":nul}',
    'x":0,"delta":{"content":"b"}}]}',
    '[{"a":1}',
    '"half'
  ])("%s breaks the stream on every profile", (line) => {
    for (const profile of [openai, generic, gemini])
      assert.strictEqual(
        streamed(profile, delta({ content: "Do " }), data(line), delta({ content: "delete it." }), delta({}, "stop"))
          .fault,
        "interrupted chunk_not_json"
      )
  })

  it("gives a call whose id is a number one of its own: servers count the calls of one answer", () => {
    const made = (id: unknown) =>
      whole(body({ content: null, tool_calls: [{ id, function: { name: "f", arguments: "{}" } }] }, "tool_calls"))
    assert.match(made(0).toolCalls[0]!.id, /^call_/)
    assert.deepStrictEqual(made(0).toolCalls, made(null).toolCalls)
    const both = [0, 1].map((id) => call({ index: id, id, function: { name: `f${id}`, arguments: "{}" } }))
    const read = streamed(generic, ...both, end)
    assert.strictEqual(named(shown(read)), "f0({}) f1({})")
    assert.strictEqual(new Set(shown(read).map((one) => one.id)).size, 2)
    assert.strictEqual(streamed(openai, ...both, end).fault, "malformed_response tool_call_not_whole")
  })

  it.each<readonly [string, string]>([
    ["function_call_filter: MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"],
    ["function_call_filter: UNEXPECTED_TOOL_CALL", "UNEXPECTED_TOOL_CALL"],
    ["a:b:MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"],
    ["stopped: error", "error"]
  ])("reads the word behind a filter's name: %s is %s", (reason, code) => {
    for (const choice of [{ message: { role: "assistant" } }, {}]) {
      const text = JSON.stringify({ id: "a", choices: [{ index: 0, finish_reason: reason, ...choice }] })
      const read = readBody(contextOf(gemini), text, {})
      assert.strictEqual(Result.isFailure(read) ? read.failure.code : null, code)
    }
    const letter = readBody(contextOf(openai), body({ content: null }, reason), {})
    assert.match(Result.isFailure(letter) ? (letter.failure.code ?? "") : "", /^finish_reason_unknown/)
  })

  it("a filter that leaves the message out is a value; any other finish without a message is no reply", () => {
    const bare = (finish_reason: string) => JSON.stringify({ id: "a", choices: [{ index: 0, finish_reason }] })
    for (const reason of ["content_filter: PROHIBITED_CONTENT", "content_filter: OTHER", "content_filter"])
      assert.strictEqual(whole(bare(reason), gemini).finishReason, "content_filter")
    for (const reason of ["stop", "length", "odd: word"])
      assert.isTrue(Result.isFailure(readBody(contextOf(gemini), bare(reason), {})), reason)
    assert.isTrue(Result.isFailure(readBody(contextOf(openai), bare("content_filter"), {})))
  })

  it("gives a call without an id the same one, streamed or not, and another to the next", () => {
    const calls = [{ function: { name: "f", arguments: "{}" } }, { function: { name: "f", arguments: "{}" } }]
    const read = whole(body({ content: null, tool_calls: calls }, "tool_calls"))
    const stream = streamed(generic, ...calls.map((one, index) => call({ index, ...one })), end)
    assert.deepStrictEqual(stream.reply?.toolCalls, read.toolCalls)
    assert.strictEqual(new Set(read.toolCalls.map((one) => one.id)).size, 2)
  })

  it.each(['{"id":"r","choices":[{"index":0,"', '{"choices": [', '\n\n{"error": {"message": "a'])(
    "a body that ends as %j is cut",
    (text) => {
      const read = readBody(contextOf(generic), text, {})
      assert.deepStrictEqual(Result.isFailure(read) && [read.failure.kind, read.failure.code], [
        "interrupted",
        "body_cut"
      ])
    }
  )

  it.each([
    ["tool_calls", { content: "I will read it." }, "tool_calls_missing"],
    ["function_call", { content: null }, "tool_calls_missing"],
    [
      "tool_calls",
      { content: null, tool_calls: [{ ...use, function: { name: "", arguments: "{}" } }] },
      "tool_call_without_name"
    ]
  ])("a botched sample is known: %s %j", (finish, message, code) => {
    const read = readBody(contextOf(generic), body(message, finish), {})
    assert.strictEqual(Result.isFailure(read) ? read.failure.code : null, code)
  })

  it.each<readonly [string, ReadonlyArray<string>]>([
    ["in one line", ["upstream connect error or disconnect/reset before headers"]],
    ["in lines that look like fields", ["error: no healthy upstream\n", "retry later\n\n"]],
    ["behind comments", [": keep-alive\n\n", "The model is over capacity."]],
    ["in pieces", ["no heal", "thy ups", "tream"]],
    ["as a page", ["<html><body>502 Bad Gateway</body></html>"]]
  ])("a whole stream of plain words is a fault that is told: %s", (_, pieces) => {
    const read = streamed(generic, ...pieces)
    assert.match(read.fault ?? "", /^server_error (upstream|error: no healthy|The model|no healthy|<html>)/)
  })

  it.each<readonly [string, ReadonlyArray<string>, string]>([
    ["nothing at all", [], "interrupted empty_stream"],
    ["comments alone", [": keep-alive\n\n", ": keep-alive\n\n"], "interrupted empty_stream"],
    ["a word that keeps the line alive", ["ping\n\n"], "interrupted empty_stream"],
    ["an event that was cut before its data", ["event: message\n"], "interrupted empty_stream"],
    ["a piece of JSON", ['"choices":[{"delta'], "interrupted chunk_not_json"]
  ])("no words are heard in %s", (_, pieces, fault) => {
    assert.strictEqual(streamed(generic, ...pieces).fault, fault)
  })

  it("an answer nested without end is malformed", () => {
    const text = `{"a":${"[".repeat(3_500)}${"]".repeat(3_500)}}`
    const read = readBody(contextOf(generic), text, {})
    assert.strictEqual(Result.isFailure(read) ? read.failure.code : null, "nested_too_deep")
    assert.strictEqual(streamed(generic, data(text)).fault, "malformed_response nested_too_deep")
  })

  it("an event past its bound is malformed", () => {
    const assembler = new EventAssembler(eventReaderOf(contextOf(generic), {}), 1_000)
    for (let chunk = 0; chunk < 5 && assembler.fault === null; chunk += 1)
      assembler.feed(`${chunk === 0 ? "data: " : ""}${"x".repeat(300)}`)
    assert.deepInclude(assembler.fault, { code: "event_too_large" })
  })

  it("an event stream for a plain request is the reply it streams", () => {
    const assembler = new EventAssembler(eventReaderOf(contextOf(generic), {}))
    const read = eventsAsReply(assembler, delta({ content: "fine" }) + delta({}, "stop"))
    assert.strictEqual(Result.isSuccess(read) ? read.success.text : null, "fine")
  })
})

it("keeps the same further fields of a message, a choice and a body, streamed or not", () => {
  const message = {
    content: "a",
    annotations: [{ type: "url_citation", url: "u" }],
    reasoning_details: [
      { type: "reasoning.text", text: "think", index: 0 },
      { type: "reasoning.encrypted", data: "S", index: 1 }
    ],
    audio: { id: "x", transcript: "hello" }
  }
  const logprobs = { content: [{ token: "a" }, { token: "b" }] }
  const more = { id: "a", system_fingerprint: "fp", service_tier: "flex", citations: ["u"] }
  const one = whole(
    JSON.stringify({
      ...more,
      choices: [{ index: 0, finish_reason: "stop", logprobs, message: { role: "assistant", ...message } }]
    })
  )
  const chunk = (value: object, finish_reason: string | null = null, probs: object = {}): string =>
    data({ ...more, choices: [{ index: 0, delta: value, finish_reason, ...probs }] })
  const two = streamed(
    generic,
    chunk({ content: "a", reasoning_details: [{ type: "reasoning.text", text: "thi", index: 0 }] }, null, {
      logprobs: { content: [{ token: "a" }] }
    }),
    chunk(
      { reasoning_details: [{ type: "reasoning.text", text: "nk", index: 0 }], audio: { id: "x", transcript: "hel" } },
      null,
      { logprobs: { content: [{ token: "b" }] } }
    ),
    chunk(
      {
        annotations: message.annotations,
        reasoning_details: message.reasoning_details.slice(1),
        audio: { transcript: "lo" }
      },
      "stop"
    )
  ).reply
  assert.deepStrictEqual([two?.extra, two?.details], [one.extra, one.details])
  assert.deepStrictEqual(one.details, { ...more, logprobs })
})
