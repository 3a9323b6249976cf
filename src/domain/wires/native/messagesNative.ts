/** Anthropic's messages wire (`/v1/messages`) as recovery needs to know it. */
import { isObject, type Json } from "../../chat/json.ts"
import type { Message } from "../../chat/Message.ts"
import { bindsForm } from "../../chat/structured.ts"
import { eventReaderOf } from "../anthropicReader.ts"
import { readBody } from "../anthropicReply.ts"
import { toBody } from "../anthropicWire.ts"
import {
  repaired,
  type NativeWire,
  type RequestView,
  type Stitcher,
  type ToldFailure,
  type UsageRepair
} from "./NativeWire.ts"
import { capOf, modelOf, filePins, objectsIn, patched, presentAmong, toolSpec } from "./patch.ts"

const view = (body: unknown, text: string): RequestView | null => {
  if (!isObject(body) || !Array.isArray(body["messages"])) return null
  const items = objectsIn(body["messages"])
  if (items.length !== body["messages"].length) return null
  const tools = objectsIn(body["tools"])
  return {
    model: modelOf(body),
    streams: body["stream"] === true,
    cap: capOf(body["max_tokens"]),
    capField: "max_tokens",
    items,
    leading: 0,
    hasTools: tools.length > 0,
    tools,
    pins: [...presentAmong(body, ["thread", "container"]), ...filePins(text)],
    only: null,
    isStructured: bindsForm(body),
    isBackground: false,
    isStored: false
  }
}

const isThinking = (block: Json): boolean => block["type"] === "thinking" || block["type"] === "redacted_thinking"

/** Thinking without its signature is refused: a block that was cut, and that a client has kept. */
const isUnsigned = (block: Json): boolean =>
  block["type"] === "thinking" &&
  (block["signature"] === undefined || block["signature"] === null || block["signature"] === "")

/** The message without some blocks; null when none is left. */
const without = (item: Json, isLeft: (block: Json) => boolean): Json | null => {
  if (item["role"] !== "assistant" || !Array.isArray(item["content"])) return item
  const content: ReadonlyArray<unknown> = item["content"]
  const kept = content.filter((block) => !isObject(block) || !isLeft(block))
  if (kept.length === content.length) return item
  return kept.length === 0 ? null : { ...item, content: kept }
}

const hasResult = (item: Json): boolean =>
  item["role"] === "user" && objectsIn(item["content"]).some((block) => block["type"] === "tool_result")

const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : objectsIn(content)
        .map((block) => (typeof block["text"] === "string" ? block["text"] : ""))
        .join("")

const messagesOf = (items: ReadonlyArray<Json>): ReadonlyArray<Message> =>
  items.flatMap((item): ReadonlyArray<Message> => {
    const blocks = objectsIn(item["content"])
    if (item["role"] === "assistant") {
      const calls = blocks.filter((block) => block["type"] === "tool_use")
      return [
        {
          role: "assistant",
          content: textOf(item["content"]),
          ...(calls.length === 0
            ? {}
            : {
                tool_calls: calls.map((call) => ({
                  id: String(call["id"]),
                  type: "function" as const,
                  function: { name: String(call["name"]), arguments: JSON.stringify(call["input"] ?? {}) }
                }))
              })
        }
      ]
    }
    const results = blocks.filter((block) => block["type"] === "tool_result")
    const others = blocks.filter((block) => block["type"] !== "tool_result")
    const own =
      typeof item["content"] === "string"
        ? item["content"]
        : others.map((block) => ({ ...block, type: String(block["type"]) }))
    return [
      ...results.map((block): Message => ({
        role: "tool",
        tool_call_id: String(block["tool_use_id"]),
        content: textOf(block["content"])
      })),
      ...(own.length === 0 ? [] : [{ role: "user" as const, content: own }])
    ]
  })

const inputKeys = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"] as const

const count = (raw: Json, key: string): number | null => (typeof raw[key] === "number" ? raw[key] : null)

const usageWith = (raw: unknown, usage: UsageRepair | null): Json => {
  const known = isObject(raw) ? raw : {}
  if (usage === null) return known
  const parts = inputKeys.map((key) => count(known, key))
  const prompt = parts.every((part) => part === null) ? null : parts.reduce<number>((sum, part) => sum + (part ?? 0), 0)
  const fixed = repaired(usage, prompt, count(known, "output_tokens"))
  const cached = (count(known, "cache_read_input_tokens") ?? 0) + (count(known, "cache_creation_input_tokens") ?? 0)
  return {
    ...known,
    ...(prompt === null || fixed.prompt === null ? {} : { input_tokens: Math.max(0, fixed.prompt - cached) }),
    ...(fixed.output === null ? {} : { output_tokens: fixed.output })
  }
}

/** One start, indexes that go on, one end. Text goes on in its block; a block of thinking that broke off is closed. */
class MessagesStitcher implements Stitcher {
  private next = 0
  private open: { readonly index: number; readonly type: string } | null = null
  private hasText = false
  /** Indexes of the attempt under way and what they are for the client; null = the block is not shown. */
  private places = new Map<number, number | null>()
  private joined = false
  private startUsage: Json = {}
  readonly dead = []

  saw(event: Json): void {
    const index = typeof event["index"] === "number" ? event["index"] : 0
    if (event["type"] === "content_block_start" && isObject(event["content_block"])) {
      this.open = { index, type: String(event["content_block"]["type"]) }
      this.next = index + 1
    } else if (event["type"] === "content_block_stop") this.open = null
    else if (event["type"] === "content_block_delta" && isObject(event["delta"]))
      this.hasText = this.hasText || event["delta"]["type"] === "text_delta"
  }

  begin(): ReadonlyArray<Json> {
    this.places = new Map()
    this.joined = false
    return this.open?.type === "text" ? [] : this.closed()
  }

  render(event: Json, text: string | null, usage: UsageRepair | null): ReadonlyArray<Json> {
    const index = typeof event["index"] === "number" ? event["index"] : 0
    switch (event["type"]) {
      case "message_start": {
        const message = isObject(event["message"]) ? event["message"] : {}
        this.startUsage = isObject(message["usage"]) ? message["usage"] : {}
        return []
      }
      case "content_block_start":
        return this.start(event, index, text)
      case "content_block_delta": {
        const place = this.places.get(index)
        if (place === undefined || place === null) return []
        const delta = isObject(event["delta"]) ? event["delta"] : {}
        if (delta["type"] !== "text_delta") return [{ ...event, index: place }]
        if (text === null || text === "") return []
        this.hasText = true
        return [{ ...event, index: place, delta: { ...delta, text } }]
      }
      case "content_block_stop": {
        const place = this.places.get(index)
        if (place === undefined || place === null) return []
        if (this.open?.index === place) this.open = null
        return [{ ...event, index: place }]
      }
      case "message_delta":
        return [
          ...this.closed(),
          {
            ...event,
            usage: usageWith({ ...this.startUsage, ...(isObject(event["usage"]) ? event["usage"] : {}) }, usage)
          }
        ]
      default:
        return [event]
    }
  }

  /** A block that the last attempt has not gone on with ends with the answer. */
  private closed(): ReadonlyArray<Json> {
    if (this.open === null) return []
    const { index } = this.open
    this.open = null
    return [{ type: "content_block_stop", index }]
  }

  private start(event: Json, index: number, text: string | null): ReadonlyArray<Json> {
    const block = isObject(event["content_block"]) ? event["content_block"] : {}
    const isText = block["type"] === "text"
    if (isText && !this.joined && this.open?.type === "text") {
      this.joined = true
      const place = this.open.index
      this.places.set(index, place)
      return text === null || text === ""
        ? []
        : [{ type: "content_block_delta", index: place, delta: { type: "text_delta", text } }]
    }
    // Thinking behind shown text is that of a replay or of a continuation: the client has had its own.
    if (isThinking(block) && this.hasText) {
      this.places.set(index, null)
      return []
    }
    const place = this.next
    this.next += 1
    this.places.set(index, place)
    const closed = this.closed()
    this.open = { index: place, type: String(block["type"]) }
    if (isText && text !== null && text !== "") this.hasText = true
    return [...closed, { ...event, index: place, content_block: isText && text !== null ? { ...block, text } : block }]
  }
}

const mergedBody = (body: Json, before: string, usage: UsageRepair): Json => {
  const content = objectsIn(body["content"]).filter((block) => !isThinking(block))
  const at = content.findIndex((block) => block["type"] === "text")
  const joined =
    at === -1
      ? [{ type: "text", text: before }, ...content]
      : content.map((block, index) => (index === at ? { ...block, text: before + String(block["text"] ?? "") } : block))
  return { ...body, content: joined, usage: usageWith(body["usage"], usage) }
}

const deltasOf = (block: Json): { readonly start: Json; readonly deltas: ReadonlyArray<Json> } => {
  switch (block["type"]) {
    case "text":
      return { start: { ...block, text: "" }, deltas: [{ type: "text_delta", text: block["text"] }] }
    case "thinking":
      return {
        start: { ...block, thinking: "", signature: "" },
        deltas: [
          { type: "thinking_delta", thinking: block["thinking"] },
          ...(typeof block["signature"] === "string"
            ? [{ type: "signature_delta", signature: block["signature"] }]
            : [])
        ]
      }
    case "tool_use":
      return {
        start: { ...block, input: {} },
        deltas: [{ type: "input_json_delta", partial_json: JSON.stringify(block["input"] ?? {}) }]
      }
    default:
      return { start: block, deltas: [] }
  }
}

const eventsOf = (body: Json): ReadonlyArray<Json> => {
  const { content, stop_reason: reason, stop_sequence: sequence, usage, ...rest } = body
  const blocks = objectsIn(content).flatMap((block, index) => {
    const { start, deltas } = deltasOf(block)
    return [
      { type: "content_block_start", index, content_block: start },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index }
    ]
  })
  return [
    { type: "message_start", message: { ...rest, content: [], stop_reason: null, stop_sequence: null, usage } },
    ...blocks,
    {
      type: "message_delta",
      delta: { stop_reason: reason, stop_sequence: sequence ?? null },
      usage: isObject(usage) ? usage : {}
    },
    { type: "message_stop" }
  ]
}

const words: Readonly<Record<string, string>> = {
  rate_limited: "rate_limit_error",
  quota_exhausted: "billing_error",
  budget: "billing_error",
  overloaded: "overloaded_error",
  prompt_too_long: "invalid_request_error",
  auth: "authentication_error",
  permission: "permission_error",
  not_found: "not_found_error",
  invalid_request: "invalid_request_error",
  payload_too_large: "request_too_large",
  content_filtered: "invalid_request_error",
  timeout: "timeout_error"
}

const eventText = (event: Json): string => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`

const errorBody = (failure: ToldFailure): Json => ({
  type: "error",
  error: {
    type: failure.type,
    message: failure.message,
    ...(failure.code === null ? {} : { details: { error_code: failure.code } })
  }
})

export const messagesNative: NativeWire = {
  name: "messages",
  view,
  patch: (text, seen, change) =>
    patched(text, seen, change, {
      itemsField: "messages",
      away: (item) => without(item, isThinking),
      clean: (item) => without(item, isUnsigned)
    }),
  references: [["thread", "previous_message_id"]],
  sideOf: (item) => (hasResult(item) ? "result" : item["role"] === "assistant" ? "model" : "other"),
  messagesOf,
  toolsOf: (tools) => tools.map((tool) => toolSpec(tool, "input_schema")),
  readBody,
  eventReaderOf,
  stitcher: () => new MessagesStitcher(),
  mergedBody,
  eventsOf,
  eventText,
  closing: "",
  lastWord: eventText({ type: "message_stop" }),
  errorBody,
  errorEvent: (failure) => eventText(errorBody(failure)),
  told: (kind) => ({
    type: (Object.hasOwn(words, kind) ? words[kind] : undefined) ?? "api_error",
    code: kind === "prompt_too_long" ? "context_length_exceeded" : null
  }),
  summaryBody: ({ model, messages, maxOutputTokens, profile }) =>
    toBody({ model, messages, maxOutputTokens, role: "summarizer" }, profile, null, false),
  keepAlive: 'event: ping\ndata: {"type":"ping"}\n\n'
}
