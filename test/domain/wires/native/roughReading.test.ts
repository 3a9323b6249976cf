import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import type { ModelPart } from "../../../../src/domain/chat/ModelReply.ts"
import { openai } from "../../../../src/domain/provider/profiles/openai.ts"
import { anthropic } from "../../../../src/domain/provider/profiles/anthropic.ts"
import { generic } from "../../../../src/domain/provider/profiles/generic.ts"
import type { ProviderProfile } from "../../../../src/domain/provider/ProviderProfile.ts"
import { chatNative } from "../../../../src/domain/wires/native/chatNative.ts"
import { messagesNative } from "../../../../src/domain/wires/native/messagesNative.ts"
import type { NativeWire } from "../../../../src/domain/wires/native/NativeWire.ts"
import { responsesNative } from "../../../../src/domain/wires/native/responsesNative.ts"
import { readBodyRoughly, readerOf } from "../../../../src/domain/wires/native/roughReading.ts"
import { EventAssembler } from "../../../../src/layers/provider/EventAssembler.ts"

type Json = Readonly<Record<string, unknown>>

const contextOf = (profile: ProviderProfile) => ({ profile, model: "m", requestId: null })

/** Why a stream of these lines ends: its finish reason, or what is wrong with it. */
const endOf = (
  wire: NativeWire,
  profile: ProviderProfile,
  lines: ReadonlyArray<Json | string>,
  choices: number | null = null
): string => {
  const assembler = new EventAssembler(readerOf(wire, contextOf(profile), {}, choices))
  const parts: Array<ModelPart> = []
  for (const line of lines) {
    if (assembler.fault !== null || assembler.done) break
    parts.push(...assembler.feed(`data: ${typeof line === "string" ? line : JSON.stringify(line)}\n\n`))
  }
  if (assembler.fault === null && !assembler.done) parts.push(...assembler.end())
  const { fault } = assembler
  if (fault !== null) return "inBand" in fault ? `${fault.kind} in band` : `${fault.kind} ${fault.code}`
  const end = parts.find((part) => part._tag === "End")
  return end?.reply.finishReason ?? "no end"
}

const say = (content: string, finish_reason: string | null = null): Json => ({
  choices: [{ index: 0, delta: { content }, finish_reason }]
})

const chat = [say("Do "), say("delete it."), say("", "stop")]
const messages: ReadonlyArray<Json> = [
  { type: "message_start", message: { id: "a", type: "message", role: "assistant", content: [], usage: {} } },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Do " } },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: {} }
]
const responses: ReadonlyArray<Json> = [
  { type: "response.output_text.delta", output_index: 0, delta: "Do " },
  {
    type: "response.completed",
    response: {
      object: "response",
      status: "completed",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Do " }] }]
    }
  }
]

const wires: ReadonlyArray<readonly [string, NativeWire, ReadonlyArray<Json>, ProviderProfile, number | null]> = [
  ["chat", chatNative, chat, generic, null],
  ["chat with two choices", chatNative, chat, generic, 2],
  ["messages", messagesNative, messages, anthropic, null],
  ["responses", responsesNative, responses, generic, null]
]

describe.each(wires)("a native stream of %s", (_, wire, events, profile, choices) => {
  it.each(['{"choices":[{"del', '":1}', "{,}", '{"a":1}}'])("is cut by the line %s", (line) => {
    const [first = {}, ...rest] = events
    assert.strictEqual(endOf(wire, profile, [first, line, ...rest], choices), "interrupted chunk_not_json")
  })

  it("that says in words what is wrong has failed", () => {
    const [first = {}] = events
    assert.strictEqual(endOf(wire, profile, [first, "upstream has gone away"], choices), "server_error in band")
  })

  it.each(["ping", "null", '""'])("passes over %s", (line) => {
    const [first = {}, ...rest] = events
    const other: ReadonlyArray<Json> =
      choices === null ? [] : [{ choices: [{ index: 1, delta: { content: "x" }, finish_reason: "stop" }] }]
    assert.strictEqual(endOf(wire, profile, [first, line, ...rest, ...other], choices), "stop")
  })

  it("is no whole answer before its end", () => {
    assert.strictEqual(endOf(wire, profile, events.slice(0, -1), choices), "interrupted no_finish_reason")
  })
})

describe("a native answer that ends with a word of tomorrow", () => {
  it("is whole when it streams", () => {
    assert.strictEqual(endOf(chatNative, openai, [say("x"), say("", "enough")]), "stop")
    const [start = {}, block = {}, delta = {}] = messages
    const end = { type: "message_delta", delta: { stop_reason: "enough" }, usage: {} }
    assert.strictEqual(endOf(messagesNative, anthropic, [start, block, delta, end, { type: "message_stop" }]), "stop")
  })

  it.each<readonly [string, NativeWire, Json]>([
    ["chat", chatNative, { choices: [{ message: { role: "assistant", content: "x" }, finish_reason: "enough" }] }],
    [
      "messages",
      messagesNative,
      { type: "message", role: "assistant", content: [{ type: "text", text: "x" }], stop_reason: "enough" }
    ],
    [
      "responses",
      responsesNative,
      { object: "response", status: "incomplete", incomplete_details: { reason: "enough" }, output: [] }
    ]
  ])("is whole as a body of %s", (_, wire, body) => {
    assert.isTrue(Result.isSuccess(readBodyRoughly(wire, contextOf(openai), JSON.stringify(body), {})))
  })

  it.each<readonly [string, NativeWire, string]>([
    ["a body that was cut", chatNative, '{"choices":[{"message":{"role":"assistant","content":"Do del'],
    ["a choice without its end", chatNative, '{"choices":[{"message":{"role":"assistant","content":"x"}}]}'],
    ["a message without its end", messagesNative, '{"type":"message","role":"assistant","content":[]}'],
    ["a response under way", responsesNative, '{"object":"response","status":"in_progress","output":[]}'],
    ["a response of an unknown state", responsesNative, '{"object":"response","status":"paused","output":[]}'],
    ["a page", chatNative, "<html>"]
  ])("is not taken for whole as %s", (_, wire, text) => {
    assert.isTrue(Result.isFailure(readBodyRoughly(wire, contextOf(openai), text, {})))
  })
})
