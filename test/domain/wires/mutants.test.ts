import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { isObject } from "../../../src/domain/chat/json.ts"
import type { Message, MessageToolCall } from "../../../src/domain/chat/Message.ts"
import type { ModelReply } from "../../../src/domain/chat/ModelReply.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { profileNamed } from "../../../src/domain/provider/Profiles.ts"
import * as anthropicWire from "../../../src/domain/wires/anthropicWire.ts"
import { readBody as readMessage } from "../../../src/domain/wires/anthropicReply.ts"
import { eventReaderOf as messageReaderOf } from "../../../src/domain/wires/anthropicReader.ts"
import type { EventReader } from "../../../src/domain/wires/EventReader.ts"
import * as openAiReader from "../../../src/domain/wires/openAiReader.ts"
import * as openAiWire from "../../../src/domain/wires/openAiWire.ts"
import * as responsesReader from "../../../src/domain/wires/responsesReader.ts"
import * as responsesReply from "../../../src/domain/wires/responsesReply.ts"
import * as responsesWire from "../../../src/domain/wires/responsesWire.ts"
import { isFlaw, type ReadContext } from "../../../src/domain/wires/wireReply.ts"
import { runs } from "../../support/runs.ts"

/** One change at every place of an answer: whatever stands there then, it ends as a reply or as a failure with a name. */

const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7, prompt_tokens_details: { cached_tokens: 1 } }
const call = { index: 0, id: "c1", type: "function", function: { name: "f", arguments: '{"a":1}' } }
const chatMessage = {
  role: "assistant",
  content: "hi",
  refusal: null,
  reasoning_content: "so",
  tool_calls: [call],
  annotations: [{ type: "note" }]
}
const chat = {
  id: "r",
  object: "chat.completion",
  model: "m",
  choices: [{ index: 0, finish_reason: "tool_calls", message: chatMessage, logprobs: null }],
  usage
}
const chunk = (delta: unknown, finish_reason: string | null = null) => ({
  id: "r",
  object: "chat.completion.chunk",
  model: "m",
  choices: [{ index: 0, delta, finish_reason }]
})
const chatEvents: ReadonlyArray<unknown> = [
  chunk({ role: "assistant", content: "h", reasoning_content: "so" }),
  chunk({ content: "i", reasoning_details: [{ type: "reasoning.text", index: 0, text: "x" }] }),
  chunk({ tool_calls: [{ ...call, function: { name: "f", arguments: '{"a"' } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: ":1}" } }] }),
  chunk({}, "tool_calls"),
  { id: "r", object: "chat.completion.chunk", choices: [], usage }
]

const inputs = { input_tokens: 5, output_tokens: 2, cache_read_input_tokens: 1, cache_creation_input_tokens: 1 }
const blocks = [
  { type: "thinking", thinking: "so", signature: "s" },
  { type: "redacted_thinking", data: "x" },
  { type: "text", text: "hi", citations: [{ type: "c" }] },
  { type: "tool_use", id: "t1", name: "f", input: { a: 1 } },
  { type: "server_tool_use", id: "t2", name: "search", input: {} }
]
const messages = {
  type: "message",
  role: "assistant",
  model: "m",
  content: blocks,
  stop_reason: "tool_use",
  stop_sequence: null,
  usage: inputs
}
const messageEvents: ReadonlyArray<unknown> = [
  { type: "message_start", message: { ...messages, content: [], stop_reason: null } },
  { type: "ping" },
  { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "so" } },
  { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "s" } },
  { type: "content_block_stop", index: 0 },
  { type: "content_block_start", index: 1, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "hi" } },
  { type: "content_block_delta", index: 1, delta: { type: "citations_delta", citation: { type: "c" } } },
  { type: "content_block_stop", index: 1 },
  { type: "content_block_start", index: 2, content_block: { type: "tool_use", id: "t1", name: "f", input: {} } },
  { type: "content_block_delta", index: 2, delta: { type: "input_json_delta", partial_json: '{"a":1}' } },
  { type: "content_block_stop", index: 2 },
  { type: "message_delta", delta: { stop_reason: "tool_use", stop_sequence: null }, usage: inputs },
  { type: "message_stop" }
]

const items = [
  { type: "reasoning", id: "rs", summary: [{ type: "summary_text", text: "so" }], encrypted_content: "x" },
  {
    type: "message",
    id: "ms",
    role: "assistant",
    status: "completed",
    content: [
      { type: "output_text", text: "hi", annotations: [] },
      { type: "refusal", refusal: "" }
    ]
  },
  { type: "function_call", id: "fc", call_id: "c1", name: "f", arguments: '{"a":1}', status: "completed" },
  { type: "custom_tool_call", id: "cc", call_id: "c2", name: "g", input: "text" }
]
const response = {
  id: "r",
  object: "response",
  status: "completed",
  model: "m",
  error: null,
  incomplete_details: null,
  output: items,
  usage: { input_tokens: 5, output_tokens: 2, total_tokens: 7, input_tokens_details: { cached_tokens: 1 } }
}
const responseEvents: ReadonlyArray<unknown> = [
  { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
  { type: "response.output_item.added", output_index: 0, item: { ...items[0], summary: [] } },
  { type: "response.reasoning_summary_text.delta", output_index: 0, summary_index: 0, delta: "so" },
  { type: "response.output_item.done", output_index: 0, item: items[0] },
  { type: "response.output_item.added", output_index: 1, item: { ...items[1], content: [] } },
  { type: "response.output_text.delta", output_index: 1, content_index: 0, delta: "hi" },
  { type: "response.output_text.done", output_index: 1, content_index: 0, text: "hi" },
  { type: "response.output_item.done", output_index: 1, item: items[1] },
  { type: "response.output_item.added", output_index: 2, item: { ...items[2], arguments: "" } },
  { type: "response.function_call_arguments.delta", output_index: 2, delta: '{"a":1}' },
  { type: "response.function_call_arguments.done", output_index: 2, arguments: '{"a":1}' },
  { type: "response.output_item.done", output_index: 2, item: items[2] },
  { type: "response.refusal.delta", output_index: 1, content_index: 1, delta: "" },
  { type: "response.completed", response }
]

const absent = Symbol("absent")
const replacements: ReadonlyArray<unknown> = [absent, null, true, -1, 1.5, 7, "", "odd word", "\ud83d", [], [null], {}]

const others = (value: unknown): ReadonlyArray<unknown> => [
  ...replacements,
  ...(Array.isArray(value) ? [[...value, ...value], [5, ...value], value[0]] : [[value], { text: value }])
]

/** The value with one place changed, in every way and at every place. */
function* mutants(value: unknown): Generator<unknown> {
  if (Array.isArray(value))
    for (const [at, entry] of value.entries()) {
      for (const other of others(entry)) yield value.toSpliced(at, 1, ...(other === absent ? [] : [other]))
      for (const deeper of mutants(entry)) yield value.with(at, deeper)
    }
  else if (isObject(value))
    for (const [key, entry] of Object.entries(value)) {
      const { [key]: _, ...rest } = value
      for (const other of others(entry)) yield other === absent ? rest : { ...value, [key]: other }
      for (const deeper of mutants(entry)) yield { ...value, [key]: deeper }
    }
}

const isWhole = (reply: ModelReply): boolean =>
  (reply.text === null || typeof reply.text === "string") &&
  (reply.refusal === null || typeof reply.refusal === "string") &&
  typeof reply.finishReason === "string" &&
  reply.toolCalls.every((one) => [one.id, one.name, one.arguments].every((part) => typeof part === "string")) &&
  [reply.usage.promptTokens, reply.usage.completionTokens, reply.usage.cachedTokens].every(
    (count) => count === null || (Number.isSafeInteger(count) && count >= 0)
  )

const isNamed = (failure: { readonly kind: string; readonly code: string | null }): boolean =>
  typeof failure.kind === "string" && (failure.code === null || failure.code.length <= 100)

/** Reads events to their end, as the assembler does. */
const readEvents = (
  reader: EventReader,
  events: ReadonlyArray<unknown>
): ModelReply | { kind: string; code: string | null } => {
  for (const event of events) {
    const name = isObject(event) && typeof event["type"] === "string" ? event["type"] : undefined
    const problem = reader.onEvent(name, JSON.stringify(event) ?? "null")
    if (problem !== null) return problem
    if (reader.done) break
  }
  return reader.finishReason === null ? { kind: "interrupted", code: null } : reader.reply(reader.finishReason)
}

const endsTyped = (ended: ModelReply | { kind: string; code: string | null }, of: unknown): void =>
  assert.isTrue("kind" in ended ? isNamed(ended) : isWhole(ended), JSON.stringify(of))

type Read = (context: ReadContext, text: string) => Result.Result<ModelReply, { kind: string; code: string | null }>

const wires: ReadonlyArray<{
  readonly wire: string
  readonly profiles: ReadonlyArray<string>
  readonly body: unknown
  readonly events: ReadonlyArray<unknown>
  readonly read: Read
  readonly reader: (context: ReadContext) => EventReader
}> = [
  {
    wire: "chat completions",
    profiles: ["openai", "generic"],
    body: chat,
    events: chatEvents,
    read: (context, text) => openAiWire.readBody(context, text, {}),
    reader: (context) => openAiReader.eventReaderOf(context, {})
  },
  {
    wire: "messages",
    profiles: ["anthropic", "generic"],
    body: messages,
    events: messageEvents,
    read: (context, text) => readMessage(context, text, {}),
    reader: (context) => messageReaderOf(context, {})
  },
  {
    wire: "responses",
    profiles: ["openai", "generic"],
    body: response,
    events: responseEvents,
    read: (context, text) => responsesReply.readBody(context, text, {}),
    reader: (context) => responsesReader.eventReaderOf(context, {})
  }
]

describe.each(wires)("an answer of $wire, with one place changed,", ({ profiles, body, events, read, reader }) => {
  const contexts = profiles.map((name) => ({ profile: profileNamed(name)!, model: "m", requestId: null }))

  it("is whole as it stands", () => {
    for (const context of contexts) {
      assert.isTrue(Result.isSuccess(read(context, JSON.stringify(body))), context.profile.name)
      assert.isFalse(isFlaw(readEvents(reader(context), events)), context.profile.name)
    }
  })

  it("is a reply or a failure with a name", () => {
    for (const context of contexts)
      for (const mutant of mutants(body)) {
        const ended = read(context, JSON.stringify(mutant))
        endsTyped(Result.isSuccess(ended) ? ended.success : ended.failure, mutant)
      }
  })

  it("is a reply or a failure with a name when it streams", () => {
    for (const context of contexts)
      for (const mutant of mutants(events)) endsTyped(readEvents(reader(context), mutant as typeof events), mutant)
  })
})

/** A small generator: the same seed gives the same history. */
const chanceOf = (seed: number) => {
  let state = seed * 2_654_435_761 + 1
  return (below: number): number => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 374_761_393) | 0
    return (state >>> 3) % below
  }
}

const oddTexts = ["hello", "", " \n", "\ud83d half", "\u0000", "a".repeat(300), "ends with \ud83d\ude00"]
const oddNames = ["f", "browser.tabs.open", "functions.read:0", "", "name with blanks", "x".repeat(200), "\u00e9"]
const oddArguments = ['{"a":1}', "", "no json", "[1]", "null", '{"a":', '"text"']

type Chance = ReturnType<typeof chanceOf>

const pick = <A>(chance: Chance, from: ReadonlyArray<A>): A => from[chance(from.length)]!

const oddContent = (
  chance: Chance
): string | ReadonlyArray<{ readonly type: string; readonly [field: string]: unknown }> =>
  pick(chance, [
    pick(chance, oddTexts),
    [{ type: "text", text: pick(chance, oddTexts) }],
    [],
    [
      { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
      { type: "text", text: pick(chance, oddTexts) }
    ],
    [{ type: "image_url", image_url: { url: "https://a.test/b.png" } }],
    [{ type: "input_audio", input_audio: { data: "AA==", format: "wav" } }],
    [{ type: "a_part_nobody_knows", more: [1] }]
  ])

const oddCall = (chance: Chance, id: string): MessageToolCall => ({
  id,
  type: "function",
  function: { name: pick(chance, oddNames), arguments: pick(chance, oddArguments) },
  ...(chance(3) === 0
    ? { provider_meta: { model: pick(chance, ["m", "other"]), extra_content: { signature: "s" } } }
    : {})
})

const oddTurn = (chance: Chance): ReadonlyArray<Message> => {
  switch (chance(4)) {
    case 0:
      return [{ role: "user", content: oddContent(chance) }]
    case 1: {
      const content = pick(chance, [null, ...oddTexts])
      const model = pick(chance, ["m", "other"])
      return [
        {
          role: "assistant",
          content,
          ...(chance(2) === 0 ? { reasoning_parts: [{ model, text: pick(chance, oddTexts), signature: "s" }] } : {}),
          ...(chance(3) === 0 ? { reasoning_content: "so", provider_meta: { model, reasoning_content: "so" } } : {}),
          ...(chance(4) === 0 ? { refusal: pick(chance, oddTexts) } : {})
        }
      ]
    }
    default: {
      // Ids repeat across turns, and some are no id anywhere.
      const ids = Array.from(
        { length: 1 + chance(3) },
        (_, at) => `${pick(chance, ["call", "c.1:", "x".repeat(90)])}${at}`
      )
      return [
        {
          role: "assistant",
          content: pick(chance, [null, "", "looking"]),
          tool_calls: ids.map((id) => oddCall(chance, id))
        },
        ...ids.map((id): Message => ({ role: "tool", tool_call_id: id, content: oddContent(chance) }))
      ]
    }
  }
}

const oddRequest = (seed: number): WireRequest => {
  const chance = chanceOf(seed)
  const system: ReadonlyArray<Message> = chance(2) === 0 ? [{ role: "system", content: oddContent(chance) }] : []
  const turns = Array.from({ length: 1 + chance(5) }, () => oddTurn(chance)).flat()
  const tools = oddNames.slice(0, chance(oddNames.length)).map((name) => ({
    type: "function" as const,
    function: { name, parameters: { type: "object", properties: {} } }
  }))
  return {
    messages: [...system, ...turns, { role: "user", content: "go" }],
    model: "m",
    maxOutputTokens: pick(chance, [null, 100]),
    role: "main",
    ...(tools.length === 0 ? {} : { tools }),
    ...(chance(4) === 0
      ? { params: { temperature: 0, tool_choice: pick<unknown>(chance, ["auto", "required", "none"]) } }
      : {})
  }
}

/** Ids of calls and of results in a body, in order, whatever the wire calls them. */
const idsIn = (body: unknown): { readonly calls: ReadonlyArray<unknown>; readonly results: ReadonlyArray<unknown> } => {
  const calls: Array<unknown> = []
  const results: Array<unknown> = []
  const walk = (value: unknown): void => {
    if (Array.isArray(value)) for (const entry of value) walk(entry)
    if (!isObject(value)) return
    if (value["type"] === "tool_use") calls.push(value["id"])
    if (value["type"] === "function_call" || value["type"] === "custom_tool_call") calls.push(value["call_id"])
    if (Array.isArray(value["tool_calls"]))
      for (const one of value["tool_calls"]) calls.push(isObject(one) ? one["id"] : one)
    if (value["type"] === "tool_result") results.push(value["tool_use_id"])
    if (value["type"] === "function_call_output" || value["type"] === "custom_tool_call_output")
      results.push(value["call_id"])
    if (value["role"] === "tool") results.push(value["tool_call_id"])
    for (const entry of Object.values(value)) walk(entry)
  }
  walk(body)
  return { calls, results }
}

describe("any history, on its way to", () => {
  const senders: ReadonlyArray<readonly [string, (request: WireRequest, stream: boolean) => unknown]> = [
    ...["openai", "generic", "mistral", "gemini", "deepseek", "moonshot", "openrouter"].map(
      (name) =>
        [
          name,
          (request: WireRequest, stream: boolean) =>
            openAiWire.toBody(request, profileNamed(name)!, "max_tokens", stream)
        ] as const
    ),
    [
      "anthropic",
      (request, stream) => anthropicWire.toBody(request, profileNamed("anthropic")!, stream ? "5m" : null, stream)
    ],
    ["responses", (request, stream) => responsesWire.toBody(request, profileNamed("openai")!, stream)]
  ]

  it.each(senders)("%s is well-formed, and its calls and results stay in pairs", (_, toBody) => {
    for (let seed = 0; seed < runs(3_000); seed += 1) {
      const body = toBody(oddRequest(seed), seed % 2 === 0)
      const text = JSON.stringify(body)
      assert.isFalse(/\\ud[89ab]../i.test(text.replaceAll(/\\\\/g, "")), `a lone half in seed ${seed}`)
      const { calls, results } = idsIn(body)
      assert.deepStrictEqual([...calls].sort(), [...results].sort(), `seed ${seed}`)
    }
  })
})
