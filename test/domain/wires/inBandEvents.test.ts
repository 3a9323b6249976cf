import { assert, describe, it } from "@effect/vitest"
import { profileNamed } from "../../../src/domain/provider/Profiles.ts"
import * as anthropicReader from "../../../src/domain/wires/anthropicReader.ts"
import type { EventReader } from "../../../src/domain/wires/EventReader.ts"
import * as openAiReader from "../../../src/domain/wires/openAiReader.ts"
import * as responsesReader from "../../../src/domain/wires/responsesReader.ts"
import type { ReadContext } from "../../../src/domain/wires/wireReply.ts"

/** What stands in an event in place of a piece of the reply: a failure in any shape, or nothing of the kind. */

interface Wire {
  readonly name: string
  readonly reader: (context: ReadContext) => EventReader
  /** A stream that has begun and shown some text. */
  readonly begun: ReadonlyArray<unknown>
}

const wires: ReadonlyArray<Wire> = [
  {
    name: "chat completions",
    reader: (context) => openAiReader.eventReaderOf(context, {}),
    begun: [
      { id: "c", choices: [{ index: 0, delta: { role: "assistant", content: "some text" }, finish_reason: null }] }
    ]
  },
  {
    name: "messages",
    reader: (context) => anthropicReader.eventReaderOf(context, {}),
    begun: [
      { type: "message_start", message: { id: "m", type: "message", role: "assistant", model: "m", content: [] } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "some text" } }
    ]
  },
  {
    name: "responses",
    reader: (context) => responsesReader.eventReaderOf(context, {}),
    begun: [
      { type: "response.created", response: { id: "r", object: "response", status: "in_progress", output: [] } },
      { type: "response.output_text.delta", item_id: "i", output_index: 0, content_index: 0, delta: "some text" }
    ]
  }
]

const kindOf = (wire: Wire, profile: string, before: ReadonlyArray<unknown>, event: unknown, name?: string) => {
  const reader = wire.reader({ profile: profileNamed(profile)!, model: "m", requestId: null })
  for (const one of before) assert.isNull(reader.onEvent(undefined, JSON.stringify(one)))
  return reader.onEvent(name, JSON.stringify(event))?.kind ?? null
}

const failures: ReadonlyArray<readonly [event: unknown, kind: string]> = [
  // A failure that says nothing of its kind is the server's.
  [{ error: "upstream timed out" }, "server_error"],
  [{ error: { message: "upstream timed out" } }, "server_error"],
  [{ error: { message: "x", type: "a_word_nobody_knows" } }, "server_error"],
  [{ error: ["upstream timed out"] }, "server_error"],
  [{ error: true, message: "x" }, "server_error"],
  [{ detail: "upstream timed out" }, "server_error"],
  [{ detail: { msg: "x" } }, "server_error"],
  [{ message: "x", code: "E1234" }, "server_error"],
  [{ message: "x", code: 503 }, "server_error"],
  [{ object: "error", message: "x" }, "server_error"],
  [{ type: "error", message: "x" }, "server_error"],
  [{ type: "error", error: { type: "odd", message: "x" } }, "server_error"],
  [[{ error: { message: "x" } }], "server_error"],
  [{ errors: ["x"] }, "server_error"],
  [{ errors: [{ message: "x" }] }, "server_error"],
  [{ success: false, message: "x" }, "server_error"],
  [{ fault: { faultstring: "x", detail: { errorcode: "steps.jsthreatprotection" } } }, "server_error"],
  [{ error_code: 336_003, error_msg: "x" }, "server_error"],
  [{ timestamp: "2026-01-01T00:00:00Z", status: 500, path: "/v1" }, "server_error"],
  // One that does is of that kind.
  [{ error: 429 }, "rate_limited"],
  [{ error: [{ code: "rate_limit_exceeded" }] }, "rate_limited"],
  [{ errors: [{ code: "rate_limit_exceeded" }] }, "rate_limited"],
  [{ errors: [{ status: "429", title: "x" }] }, "rate_limited"],
  [{ errors: { code: "overloaded" } }, "overloaded"],
  [{ message: "x", code: 429 }, "rate_limited"],
  [{ message: "x", code: 401 }, "auth"],
  [{ message: "x", type: "overloaded_error" }, "overloaded"],
  [{ message: "x", __type: "ThrottlingException" }, "rate_limited"],
  [{ detail: { status_code: 503 } }, "server_error"],
  [{ detail: { code: "context_length_exceeded" } }, "prompt_too_long"],
  [{ detail: "x", status: 404 }, "not_found"],
  [{ object: "error", code: 400, type: "BadRequestError" }, "invalid_request"],
  [{ statusCode: 529, message: "x" }, "overloaded"]
]

const others: ReadonlyArray<unknown> = [
  { message: "x" },
  { message: "x", type: "status" },
  { message: "ok", code: 0 },
  { message: "x", code: "success" },
  { type: "progress", detail: "step 1" },
  { status: "processing", message: "x" },
  { status: 200 },
  { type: "tokens", count: 5 },
  { type: "ping" },
  { error: null },
  { error: "" },
  { error: [] },
  { errors: [] },
  { object: "x", id: "y" }
]

describe.each(wires)("an event of $name behind some text", (wire) => {
  it.each(failures)("that is a failure ends the stream with its kind: %j is %s", (event, kind) => {
    for (const profile of ["generic", "openai", "anthropic", "vllm"])
      assert.strictEqual(kindOf(wire, profile, wire.begun, event), kind, profile)
  })

  it.each(others)("that is none is passed over: %j", (event) => {
    assert.isNull(kindOf(wire, "generic", wire.begun, event))
  })

  it("named error is a failure whatever it holds", () => {
    for (const event of [{ message: "x" }, { text: "x" }, { status: "processing" }])
      assert.strictEqual(kindOf(wire, "generic", wire.begun, event, "error"), "server_error", JSON.stringify(event))
    assert.strictEqual(kindOf(wire, "generic", wire.begun, { code: 429 }, "error"), "rate_limited")
  })
})

describe.each(wires)("an unknown failure in place of the whole stream of $name", (wire) => {
  it("is the server's, but to the letter of an API none of its answers", () => {
    for (const event of [{ error: "x" }, { error: { message: "x" } }, { type: "error", message: "x" }]) {
      assert.strictEqual(kindOf(wire, "generic", [], event), "server_error")
      assert.strictEqual(kindOf(wire, "openai", [], event), "malformed_response")
    }
    assert.strictEqual(kindOf(wire, "openai", [], { error: { type: "server_error" } }), "server_error")
  })
})

it("a piece of a reply is no failure, whatever fields it has", () => {
  const [chat, messages, responses] = wires
  const code = { type: "response.code_interpreter_call_code.done", item_id: "i", output_index: 1, code: "503" }
  assert.isNull(kindOf(responses!, "generic", responses!.begun, code))
  const delta = { id: "c", detail: "x", message: "x", code: 503, choices: [{ index: 0, delta: { content: "y" } }] }
  assert.isNull(kindOf(chat!, "generic", chat!.begun, delta))
  const block = { type: "content_block_delta", index: 0, code: 503, delta: { type: "text_delta", text: "x" } }
  assert.isNull(kindOf(messages!, "anthropic", messages!.begun, block))
})

it("an error in a choice that says nothing of its kind is the server's", () => {
  const [chat] = wires
  for (const error of ["upstream timed out", { message: "x" }])
    assert.strictEqual(
      kindOf(chat!, "generic", chat!.begun, { id: "c", choices: [{ index: 0, delta: {}, error }] }),
      "server_error"
    )
})
