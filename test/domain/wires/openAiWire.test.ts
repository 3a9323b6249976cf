import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ModelPart, ModelReply } from "../../../src/domain/chat/ModelReply.ts"
import { openai } from "../../../src/domain/provider/profiles/openai.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import { EventAssembler } from "../../../src/layers/provider/EventAssembler.ts"
import { eventReaderOf } from "../../../src/domain/wires/openAiReader.ts"
import { budgetParamOf, readBody, toBody } from "../../../src/domain/wires/openAiWire.ts"
import { runs } from "../../support/runs.ts"

const context = { profile: openai, model: "m", requestId: "r1" }

const choice = (
  message: Record<string, unknown>,
  finish_reason: unknown = "stop",
  more: Record<string, unknown> = {}
): unknown => ({
  choices: [{ index: 0, finish_reason, message: { role: "assistant", ...message } }],
  ...more
})

/** "ok", or what is wrong. */
const verdict = (body: unknown): string => {
  const read = readBody(context, typeof body === "string" ? body : JSON.stringify(body), {})
  if (Result.isSuccess(read)) return "ok"
  return "inBand" in read.failure ? `in-band ${read.failure.kind}` : read.failure.code
}

const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } }

describe("a 200", () => {
  it.each<readonly [string, unknown]>([
    ["ok", choice({ content: "hello" })],
    ["ok", choice({ content: null, refusal: "no" })],
    ["ok", choice({ content: "", tool_calls: [call] }, "tool_calls")],
    ["ok", choice({ content: null }, "length")],
    ["ok", choice({ content: null }, "content_filter")],
    ["ok", choice({ content: "a" }, "stop", { usage: null })],
    ["ok", choice({ content: "a" }, "stop", { usage: { prompt_tokens: null } })],
    ["empty_body", ""],
    ["empty_body", "  \n"],
    ["empty_reply", choice({ content: "" })],
    ["empty_reply", choice({ content: null })],
    ["not_json", "<html>login</html>"],
    ["not_an_object", "null"],
    ["not_an_object", '"text"'],
    ["choices_missing", {}],
    ["no_choices", { choices: [] }],
    ["several_choices", { choices: [1, 2] }],
    ["message_missing", { choices: [{ finish_reason: "stop" }] }],
    ["message_missing", { choices: [null] }],
    ["role_not_assistant", { choices: [{ finish_reason: "stop", message: { role: "user", content: "a" } }] }],
    ["finish_reason_unknown:whatever", choice({ content: "a" }, "whatever")],
    ["finish_reason_unknown", choice({ content: "a" }, "a sentence, and no word")],
    ["finish_reason_unknown", choice({ content: "a" }, null)],
    ["content_not_text", choice({ content: 5 })],
    ["refusal_not_text", choice({ content: "a", refusal: 5 })],
    ["legacy_function_call", choice({ content: null, function_call: { name: "f", arguments: "{}" } })],
    ["tool_calls_not_a_list", choice({ content: null, tool_calls: {} })],
    ["tool_call_not_whole", choice({ content: null, tool_calls: [{ ...call, id: "" }] })],
    ["tool_call_not_whole", choice({ content: null, tool_calls: [{ ...call, id: undefined }] })],
    [
      "tool_call_without_name",
      choice({ content: null, tool_calls: [{ ...call, function: { name: "", arguments: "{}" } }] })
    ],
    [
      "tool_call_not_whole",
      choice({ content: null, tool_calls: [{ ...call, function: { name: "f", arguments: {} } }] })
    ],
    ["tool_call_not_whole", choice({ content: null, tool_calls: ["x"] })],
    ["tool_calls_missing", choice({ content: null }, "tool_calls")],
    ["usage_not_a_count", choice({ content: "a" }, "stop", { usage: { prompt_tokens: -1 } })],
    ["usage_not_a_count", choice({ content: "a" }, "stop", { usage: { completion_tokens: 1.5 } })],
    ["usage_not_a_count", choice({ content: "a" }, "stop", { usage: { total_tokens: "9" } })],
    ["usage_not_an_object", choice({ content: "a" }, "stop", { usage: 5 })],
    ["in-band rate_limited", { error: { code: 429 } }],
    ["in-band overloaded", { error: { type: "overloaded_error" }, choices: [] }],
    ["in-band prompt_too_long", { error: { code: "context_length_exceeded" } }],
    ["in-band malformed_response", { error: "something" }],
    ["in-band server_error", { object: "error", code: 500 }],
    ["in-band timeout", { choices: [{ error: { code: 504 } }] }]
  ])("is %s", (expected, body) => {
    assert.strictEqual(verdict(body), expected)
  })

  it("keeps usage, the served model and unknown fields of the message", () => {
    const read = readBody(
      context,
      JSON.stringify(
        choice({ content: "a", reasoning_content: "r", annotations: [1] }, "stop", {
          model: "served",
          usage: {
            prompt_tokens: 9,
            completion_tokens: 3,
            prompt_tokens_details: { cached_tokens: 4, cache_creation_tokens: 2 },
            completion_tokens_details: { reasoning_tokens: 1 }
          }
        })
      ),
      {}
    )
    assert.isTrue(Result.isSuccess(read))
    if (!Result.isSuccess(read)) return
    assert.deepStrictEqual(read.success.usage, {
      promptTokens: 9,
      completionTokens: 3,
      cachedTokens: 4,
      cacheWriteTokens: 2,
      reasoningTokens: 1
    })
    assert.deepStrictEqual(
      [
        read.success.model,
        read.success.servedModel,
        read.success.providerRequestId,
        read.success.reasoning,
        read.success.extra
      ],
      ["m", "served", "r1", "r", { annotations: [1] }]
    )
  })
})

describe("a body", () => {
  const wire = {
    messages: [{ role: "assistant" as const, content: "x", usage: Usage.unknown, custom: 1 }],
    model: "m",
    maxOutputTokens: 5,
    role: "main" as const
  }
  it("carries model, messages and budget of the request, everything else as it is", () => {
    assert.deepStrictEqual(
      toBody(
        { ...wire, params: { max_tokens: 1, model: "other", temperature: 0, x: { y: 1 } } },
        openai,
        "max_completion_tokens",
        false
      ),
      {
        temperature: 0,
        x: { y: 1 },
        model: "m",
        messages: [{ role: "assistant", content: "x", custom: 1 }],
        max_completion_tokens: 5
      }
    )
  })
  it("has no budget when none is sent", () => {
    const body = toBody({ ...wire, maxOutputTokens: null }, openai, "max_tokens", false)
    assert.deepStrictEqual(Object.keys(body).toSorted(), ["messages", "model"])
  })
  it("asks for usage in a stream, unless the caller says otherwise", () => {
    assert.deepStrictEqual(toBody(wire, openai, "max_tokens", true)["stream_options"], { include_usage: true })
    assert.deepStrictEqual(
      toBody({ ...wire, params: { stream_options: { a: 1 } } }, openai, "max_tokens", true)["stream_options"],
      { a: 1 }
    )
  })
  it("names the budget as the model wants it", () => {
    assert.deepStrictEqual(
      ["gpt-4o", "o3-mini", "gpt-5"].map((model) => budgetParamOf(openai, model)),
      ["max_tokens", "max_completion_tokens", "max_completion_tokens"]
    )
  })
})

interface Read {
  readonly parts: ReadonlyArray<ModelPart>
  readonly reply: ModelReply | null
  readonly fault: string | null
}

/** Feeds bytes cut anywhere, as a network would. */
const assemble = (bytes: Uint8Array, cuts: ReadonlyArray<number>): Read => {
  const assembler = new EventAssembler(eventReaderOf(context, {}))
  const decoder = new TextDecoder()
  const parts: Array<ModelPart> = []
  let from = 0
  const ends = [...new Set(cuts.map((cut) => Math.abs(cut) % (bytes.length + 1)))].sort((a, b) => a - b)
  for (const end of [...ends, bytes.length]) {
    if (assembler.done || assembler.fault !== null) break
    parts.push(...assembler.feed(decoder.decode(bytes.slice(from, end), { stream: true })))
    from = end
  }
  if (!assembler.done && assembler.fault === null) parts.push(...assembler.end())
  const last = parts.at(-1)
  const { fault } = assembler
  return {
    parts: parts.filter((part) => part._tag !== "Life" && part._tag !== "ToolCallDelta"),
    reply: last?._tag === "End" ? last.reply : null,
    fault: fault === null ? null : "inBand" in fault ? fault.kind : fault.code
  }
}

const encode = (text: string): Uint8Array => new TextEncoder().encode(text)
const data = (value: unknown): string => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`
const delta = (
  value: Record<string, unknown>,
  finish_reason: string | null = null,
  more: Record<string, unknown> = {}
): string => data({ choices: [{ index: 0, delta: value, finish_reason }], ...more })
const read = (...events: ReadonlyArray<string>): Read => assemble(encode(events.join("")), [])

describe("a stream", () => {
  it.each<readonly [string, string | null, ReadonlyArray<string>]>([
    ["without [DONE] is whole when a finish reason came", null, [delta({ content: "a" }), delta({}, "stop")]],
    ["that just ends is interrupted", "no_finish_reason", [delta({ content: "a" })]],
    ["without anything is interrupted", "empty_stream", []],
    ["with [DONE] alone is interrupted", "empty_stream", [data("[DONE]")]],
    [
      "with a chunk that is not JSON is broken",
      "chunk_not_json",
      [delta({ content: "a" }), data("{oops"), delta({}, "stop")]
    ],
    [
      "with a word in place of a chunk is broken, too",
      "chunk_not_json",
      [delta({ content: "a" }), data("ping"), delta({}, "stop")]
    ],
    [
      "with an error event in words is that failure",
      "server_error",
      [delta({ content: "a" }), "event: error\ndata: upstream timeout\n\n"]
    ],
    [
      "with an error at the top is that error",
      "server_error",
      [delta({ content: "a" }), data({ error: { code: 502 } })]
    ],
    [
      "with an error inside a choice is that error",
      "rate_limited",
      [data({ choices: [{ index: 0, delta: {}, error: { code: 429 } }] })]
    ],
    ["with a flat error is that error", "overloaded", [data({ object: "error", type: "overloaded_error" })]],
    ["with an error event is that error", "rate_limited", ['event: error\ndata: {"code": 429}\n\n']],
    [
      "with comments and blank lines is whole",
      null,
      [": ping\n\n", delta({ content: "a" }), "\n\n: ping\n\n", delta({}, "stop")]
    ],
    [
      "with a second choice is malformed",
      "several_choices",
      [data({ choices: [{ index: 1, delta: { content: "a" } }] })]
    ],
    [
      "with an unknown finish reason is malformed",
      "finish_reason_unknown:because",
      [delta({ content: "a" }, "because")]
    ],
    ["with a legacy function call is malformed", "legacy_function_call", [delta({ function_call: { name: "f" } })]],
    ["with text that is no text is malformed", "content_not_text", [delta({ content: 5 })]],
    ["of another role is malformed", "role_not_assistant", [delta({ role: "user", content: "a" })]],
    ["with bad usage is malformed", "usage_not_a_count", [data({ choices: [], usage: { prompt_tokens: -1 } })]],
    ["that stops with nothing is empty", "empty_reply", [delta({ role: "assistant" }), delta({}, "stop")]],
    [
      "with a call without id is malformed",
      "tool_call_not_whole",
      [delta({ tool_calls: [{ index: 0, function: { name: "f", arguments: "{}" } }] }), delta({}, "tool_calls")]
    ],
    [
      "with text after a whole call's arguments is malformed",
      "tool_call_not_whole",
      [
        delta({ tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: "{}" } }] }),
        delta({ tool_calls: [{ index: 0, function: { arguments: "x" } }] })
      ]
    ]
  ])("%s", (_, fault, events) => {
    const got = read(...events)
    assert.strictEqual(got.fault, fault)
    assert.strictEqual(got.reply === null, fault !== null)
  })

  it("takes usage from a chunk with no choices, from beside an empty delta, and the latest report", () => {
    const usage = (n: number) => ({ usage: { prompt_tokens: 7, completion_tokens: n } })
    assert.strictEqual(
      read(
        delta({ content: "a" }, null, usage(1)),
        delta({}, "stop"),
        data({ choices: [], ...usage(5) }),
        data("[DONE]")
      ).reply?.usage.completionTokens,
      5
    )
    assert.strictEqual(
      read(delta({ content: "a" }), delta({}, "stop"), delta({}, null, usage(4))).reply?.usage.completionTokens,
      4
    )
  })

  it("announces a call as soon as it is whole, while the rest still streams", () => {
    const assembler = new EventAssembler(eventReaderOf(context, {}))
    assembler.feed(delta({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: '{"x": "}' } }] }))
    const parts = assembler.feed(delta({ tool_calls: [{ index: 0, function: { arguments: '"}' } }] }))
    assert.deepStrictEqual(
      parts.filter((part) => part._tag === "ToolCall").map((part) => part.call),
      [{ id: "a", name: "f", arguments: '{"x": "}"}' }]
    )
  })

  it("ends once, whatever the network brings behind the end", () => {
    const assembler = new EventAssembler(eventReaderOf(context, {}))
    const parts = [
      ...assembler.feed(`${delta({ content: "a" }, "stop")}data: [DONE]\n\n`),
      ...assembler.feed("\n"),
      ...assembler.end()
    ]
    assert.strictEqual(parts.filter((part) => part._tag === "End").length, 1)
  })

  it("assembles interleaved calls by index, ids on the first fragment only, null arguments, no index", () => {
    const interleaved = read(
      delta({
        tool_calls: [
          { index: 0, id: "a", function: { name: "f", arguments: null } },
          { index: 1, id: "b", function: { name: "g", arguments: "[" } }
        ]
      }),
      delta({ tool_calls: [{ index: 1, function: { arguments: "1]" } }] }),
      delta({ tool_calls: [{ index: 0, id: null, function: { name: null, arguments: '{"y":2}' } }] }),
      delta({}, "tool_calls")
    )
    assert.deepStrictEqual(interleaved.reply?.toolCalls, [
      { id: "a", name: "f", arguments: '{"y":2}' },
      { id: "b", name: "g", arguments: "[1]" }
    ])
    const bare = read(
      delta({ tool_calls: [{ id: "a", function: { name: "f", arguments: "{}" } }] }),
      delta({ tool_calls: [{ id: "b", function: { name: "g", arguments: "" } }] }),
      delta({}, "tool_calls")
    )
    assert.deepStrictEqual(
      bare.reply?.toolCalls.map((one) => one.id),
      ["a", "b"]
    )
    assert.deepStrictEqual(bare.parts.filter((part) => part._tag === "ToolCall").length, 2)
  })

  it("keeps a call that a length stop has cut, unannounced", () => {
    const cut = read(
      delta({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: '{"x":' } }] }),
      delta({}, "length")
    )
    assert.deepStrictEqual(
      [cut.reply?.toolCalls.length, cut.parts.some((part) => part._tag === "ToolCall")],
      [1, false]
    )
  })

  it("joins refusal and reasoning", () => {
    const refused = read(delta({ refusal: "I " }), delta({ refusal: "won't" }), delta({}, "stop"))
    assert.deepStrictEqual([refused.reply?.refusal, refused.reply?.text], ["I won't", null])
    const thought = read(
      delta({ reasoning_content: "hm" }),
      delta({ reasoning: "m" }),
      delta({ content: "a" }),
      delta({}, "stop")
    )
    assert.strictEqual(thought.reply?.reasoning, "hmm")
  })
})

const Piece = Schema.Struct({
  text: Schema.String.check(Schema.isMaxLength(8)),
  unicode: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 })),
  ending: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 })),
  comment: Schema.Boolean
})
const signs = ["", "é", "語", "🙂", "\u2028"]
const endings = ["\n", "\r\n", "\r"]

describe("for any cut of the bytes", () => {
  it.effect.prop(
    "the same reply comes out, and its parts are its text",
    {
      pieces: Schema.Array(Piece).check(Schema.isMaxLength(12)),
      cuts: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3_000 }))).check(
        Schema.isMaxLength(30)
      ),
      finish: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 }))
    },
    ({ pieces, cuts, finish }) =>
      Effect.sync(() => {
        let expected = ""
        const wire = pieces
          .map((piece) => {
            const text = `${piece.text}${signs[piece.unicode]}`
            expected += text
            const end = endings[piece.ending] ?? "\n"
            const comment = piece.comment ? `: ping${end}${end}` : ""
            return `${comment}data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text }, finish_reason: null }] })}${end}${end}`
          })
          .join("")
        const usage = { prompt_tokens: 3, completion_tokens: 4 }
        const tail =
          [
            delta({}, "stop", { usage }) + data("[DONE]"),
            delta({}, "stop", { usage }),
            "",
            data({ error: { code: 529 } }),
            delta({}, "length", { usage })
          ][finish] ?? ""
        const bytes = encode(wire + tail)
        const whole = assemble(bytes, [])
        const split = assemble(bytes, cuts)
        assert.strictEqual(split.fault, whole.fault)
        assert.deepStrictEqual(split.reply, whole.reply)
        const shown = split.parts.flatMap((part) => (part._tag === "Text" ? [part.text] : [])).join("")
        assert.strictEqual(shown, expected)
        if (split.reply !== null) {
          assert.strictEqual(split.reply.text ?? "", expected)
          assert.deepStrictEqual(split.reply.usage, { ...Usage.unknown, promptTokens: 3, completionTokens: 4 })
        }
      }),
    { arbitrary: { runs: runs(10_000) } }
  )
})
