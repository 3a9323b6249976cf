import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ModelReply } from "../../../src/domain/chat/ModelReply.ts"
import { anthropic } from "../../../src/domain/provider/profiles/anthropic.ts"
import { generic } from "../../../src/domain/provider/profiles/generic.ts"
import { openai } from "../../../src/domain/provider/profiles/openai.ts"
import * as anthropicReader from "../../../src/domain/wires/anthropicReader.ts"
import * as anthropicReply from "../../../src/domain/wires/anthropicReply.ts"
import * as openAiReader from "../../../src/domain/wires/openAiReader.ts"
import * as openAiWire from "../../../src/domain/wires/openAiWire.ts"
import type { EventReader } from "../../../src/domain/wires/EventReader.ts"
import { chatNative } from "../../../src/domain/wires/native/chatNative.ts"
import { messagesNative } from "../../../src/domain/wires/native/messagesNative.ts"
import { responsesNative } from "../../../src/domain/wires/native/responsesNative.ts"
import { readBodyRoughly, readerOf } from "../../../src/domain/wires/native/roughReading.ts"
import * as responsesReader from "../../../src/domain/wires/responsesReader.ts"
import * as responsesReply from "../../../src/domain/wires/responsesReply.ts"
import { EventAssembler } from "../../../src/layers/provider/EventAssembler.ts"
import { runs } from "../../support/runs.ts"

const chunk = (delta: unknown, finish: unknown = null): unknown => ({
  id: "c",
  model: "m",
  choices: [{ index: 0, delta, finish_reason: finish }]
})

const chatEvents = [
  chunk({ role: "assistant", content: "Do not " }),
  chunk({ content: "delete it.", reasoning_content: "hm" }),
  chunk({ tool_calls: [{ index: 0, id: "c1", type: "function", function: { name: "read", arguments: '{"path":' } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: '"a"}' } }] }),
  chunk({}, "tool_calls"),
  { choices: [], usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 } }
]

const messageEvents = [
  {
    type: "message_start",
    message: { id: "m", type: "message", role: "assistant", model: "m", usage: { input_tokens: 3 } }
  },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Do not delete it." } },
  { type: "content_block_stop", index: 0 },
  { type: "content_block_start", index: 1, content_block: { type: "tool_use", id: "t", name: "read", input: {} } },
  { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: '{"path":"a"}' } },
  { type: "content_block_stop", index: 1 },
  { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 4 } },
  { type: "message_stop" }
]

const chatBody = {
  id: "c",
  choices: [
    {
      index: 0,
      finish_reason: "tool_calls",
      message: {
        role: "assistant",
        content: "a",
        tool_calls: [{ id: "c1", type: "function", function: { name: "read", arguments: '{"path":"a"}' } }]
      }
    }
  ],
  usage: { prompt_tokens: 3, completion_tokens: 4 }
}

const messageBody = {
  id: "m",
  type: "message",
  role: "assistant",
  content: [
    { type: "text", text: "a" },
    { type: "tool_use", id: "t", name: "read", input: { path: "a" } }
  ],
  stop_reason: "tool_use",
  usage: { input_tokens: 3, output_tokens: 4 }
}

const responseItems = [
  {
    type: "message",
    id: "ms",
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text: "Do not delete it.", annotations: [] }]
  },
  { type: "function_call", id: "fc", call_id: "c1", name: "read", arguments: '{"path":"a"}', status: "completed" }
]

const responseBody = {
  id: "r",
  object: "response",
  model: "m",
  status: "completed",
  error: null,
  incomplete_details: null,
  output: responseItems,
  usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
}

const responseEvents = [
  { type: "response.created", response: { ...responseBody, status: "in_progress", output: [] } },
  { type: "response.output_item.added", output_index: 0, item: { ...responseItems[0], content: [] } },
  { type: "response.output_text.delta", item_id: "ms", output_index: 0, content_index: 0, delta: "Do not delete it." },
  { type: "response.output_item.done", output_index: 0, item: responseItems[0] },
  { type: "response.output_item.added", output_index: 1, item: { ...responseItems[1], arguments: "" } },
  { type: "response.function_call_arguments.delta", item_id: "fc", output_index: 1, delta: '{"path":"a"}' },
  { type: "response.output_item.done", output_index: 1, item: responseItems[1] },
  { type: "response.completed", response: responseBody }
]

const wires = [
  {
    native: responsesNative,
    profile: openai,
    reader: responsesReader.eventReaderOf,
    body: responsesReply.readBody,
    events: responseEvents,
    whole: responseBody
  },
  {
    native: responsesNative,
    profile: generic,
    reader: responsesReader.eventReaderOf,
    body: responsesReply.readBody,
    events: responseEvents,
    whole: responseBody
  },
  {
    native: chatNative,
    profile: openai,
    reader: openAiReader.eventReaderOf,
    body: openAiWire.readBody,
    events: chatEvents,
    whole: chatBody
  },
  {
    native: chatNative,
    profile: generic,
    reader: openAiReader.eventReaderOf,
    body: openAiWire.readBody,
    events: chatEvents,
    whole: chatBody
  },
  {
    native: messagesNative,
    profile: anthropic,
    reader: anthropicReader.eventReaderOf,
    body: anthropicReply.readBody,
    events: messageEvents,
    whole: messageBody
  }
]

/** Values that stand where others belong. */
const strangers: ReadonlyArray<unknown> = [
  null,
  "",
  "x",
  -1,
  1.5,
  1e300,
  true,
  [],
  {},
  [null],
  { a: [{}] },
  "\ud83d",
  "[".repeat(50)
]

const Mutation = Schema.Struct({
  how: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 })),
  where: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4_000 })),
  what: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 200 }))
})

/** Places of a JSON value, deepest last. */
const placesOf = (value: unknown, path: ReadonlyArray<string> = []): ReadonlyArray<ReadonlyArray<string>> =>
  typeof value !== "object" || value === null
    ? [path]
    : [path, ...Object.entries(value).flatMap(([key, entry]) => placesOf(entry, [...path, key]))]

const replaced = (value: unknown, [key, ...rest]: ReadonlyArray<string>, by: unknown): unknown => {
  if (key === undefined) return by
  if (typeof value !== "object" || value === null) return value
  const copy: Record<string, unknown> | Array<unknown> = Array.isArray(value) ? [...value] : { ...value }
  Reflect.set(copy, key, replaced(Reflect.get(value, key), rest, by))
  return copy
}

const mutated = (text: string, { how, where, what }: typeof Mutation.Type): string => {
  const at = where % (text.length + 1)
  switch (how) {
    case 0:
      return text.slice(0, at)
    case 1:
      return text.slice(0, at) + String.fromCharCode(what) + text.slice(at)
    case 2:
      return text.slice(0, at) + text.slice(at + 1 + (what % 20))
    case 3:
      return text.slice(0, at) + text.slice(Math.max(0, at - what))
    default: {
      const value: unknown = JSON.parse(text)
      const places = placesOf(value)
      return JSON.stringify(replaced(value, places[where % places.length] ?? [], strangers[what % strangers.length]))
    }
  }
}

const isTyped = (reply: ModelReply): boolean =>
  (reply.text === null || typeof reply.text === "string") &&
  reply.toolCalls.every((call) => typeof call.id === "string" && call.name !== "" && typeof call.arguments === "string")

/** All parts of a stream, and its end: there is one, or a fault with a kind. */
const assembled = (reader: EventReader, text: string) => {
  const assembler = new EventAssembler(reader)
  const parts = [...assembler.feed(text)]
  if (!assembler.done && assembler.fault === null) parts.push(...assembler.end())
  const end = parts.find((part) => part._tag === "End")
  assert.isTrue(end === undefined ? (assembler.fault?.kind.length ?? 0) > 0 : assembler.fault === null)
  return { parts, end }
}

it.effect.prop(
  "any answer, however bent, is a whole reply or a typed flaw, and what was shown is what the reply says",
  {
    mutations: Schema.Array(Mutation).check(Schema.isMinLength(1)).check(Schema.isMaxLength(3)),
    at: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 8 })),
    wire: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 }))
  },
  ({ mutations, at, wire }) =>
    Effect.sync(() => {
      const chosen = wires[wire]
      if (chosen === undefined) return
      const context = { profile: chosen.profile, model: "m", requestId: "r" }
      const events = chosen.events.map((event) => JSON.stringify(event))
      for (const mutation of mutations.slice(0, 1)) {
        const index = at % events.length
        events[index] = mutated(events[index] ?? "", mutation)
      }
      const text = events.map((event) => `data: ${event}\n\n`).join("")
      const { parts, end } = assembled(chosen.reader(context, {}), text)
      // The native seam reads more roughly: it only wants to know whether the answer is whole.
      for (const choices of [null, 1, 2]) assembled(readerOf(chosen.native, context, {}, choices), text)
      if (end !== undefined) {
        assert.isTrue(isTyped(end.reply))
        if (end.reply.refusal === null)
          assert.strictEqual(
            parts.flatMap((part) => (part._tag === "Text" ? [part.text] : [])).join(""),
            end.reply.text ?? ""
          )
        if (end.reply.finishReason !== "length")
          assert.deepStrictEqual(
            parts.flatMap((part) => (part._tag === "ToolCall" ? [part.call] : [])),
            end.reply.toolCalls
          )
      }
      const [mutation] = mutations
      const body = mutation === undefined ? "" : mutated(JSON.stringify(chosen.whole), mutation)
      const read = chosen.body(context, body, {})
      assert.isTrue(Result.isSuccess(read) ? isTyped(read.success) : read.failure.kind.length > 0)
      const rough = readBodyRoughly(chosen.native, context, body, {})
      assert.isTrue(Result.isSuccess(rough) ? isTyped(rough.success) : rough.failure.kind.length > 0)
    }),
  { arbitrary: { runs: runs(20_000) } }
)
