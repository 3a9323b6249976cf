/** The chat wire (`/chat/completions`) as recovery needs to know it. */
import { isObject, type Json } from "../../chat/json.ts"
import {
  isAssistant,
  isMessage,
  isToolSpec,
  type ContentPart,
  type Message,
  type MessageToolCall
} from "../../chat/Message.ts"
import { bindsForm } from "../../chat/structured.ts"
import { eventReaderOf } from "../openAiReader.ts"
import { budgetParamOf, readBody, toBody } from "../openAiWire.ts"
import type { NativeWire, RequestView, Stitcher, UsageRepair } from "./NativeWire.ts"
import { repaired } from "./NativeWire.ts"
import { toldByOpenAi } from "./openAiWords.ts"
import { capOf, modelOf, filePins, leadingRules, objectsIn, patched } from "./patch.ts"

/** Parameters whose answers are read only roughly: several choices, sound, old kinds of calls. */
const onlyOf = (body: Json): string | null => {
  const n = body["n"]
  if (typeof n === "number" && n > 1) return "n > 1"
  if (body["logprobs"] === true) return "logprobs"
  if (Array.isArray(body["modalities"]) && body["modalities"].some((kind) => kind !== "text")) return "modalities"
  if (body["functions"] !== undefined && body["functions"] !== null) return "functions"
  if (objectsIn(body["tools"]).some((tool) => tool["type"] !== "function")) return "tools of another kind"
  return null
}

const view = (body: unknown, text: string): RequestView | null => {
  if (!isObject(body) || !Array.isArray(body["messages"])) return null
  const items = objectsIn(body["messages"])
  if (items.length !== body["messages"].length) return null
  const newCap = capOf(body["max_completion_tokens"])
  const oldCap = capOf(body["max_tokens"])
  const tools = objectsIn(body["tools"])
  return {
    model: modelOf(body),
    streams: body["stream"] === true,
    cap: newCap ?? oldCap,
    capField: newCap === null ? "max_tokens" : "max_completion_tokens",
    items,
    leading: leadingRules(items),
    hasTools: tools.length > 0,
    tools,
    pins: filePins(text),
    only: onlyOf(body),
    isStructured: bindsForm(body),
    isBackground: false,
    isStored: false
  }
}

/** Fields of an assistant message that only the model behind them understands. */
const boundFields = ["reasoning_details", "reasoning_content", "reasoning", "reasoning_parts", "audio", "provider_meta"]

const withoutFields = (object: Json, fields: ReadonlyArray<string>): Json =>
  fields.some((field) => object[field] !== undefined)
    ? Object.fromEntries(Object.entries(object).filter(([key]) => !fields.includes(key)))
    : object

const away = (item: Json): Json | null => {
  if (item["role"] !== "assistant") return item
  const plain = withoutFields(item, boundFields)
  const calls = objectsIn(plain["tool_calls"])
  const own = calls.map((call) => withoutFields(call, ["extra_content", "provider_meta"]))
  return own.every((call, index) => call === calls[index]) ? plain : { ...plain, tool_calls: own }
}

const isPart = (part: Json): part is ContentPart => typeof part["type"] === "string"

/** A call of any kind, by what it is called and with what. */
const callOf = (call: Json): MessageToolCall => {
  const own = isObject(call["function"]) ? call["function"] : isObject(call["custom"]) ? call["custom"] : {}
  const args = own["arguments"] ?? own["input"]
  return {
    id: String(call["id"] ?? ""),
    type: "function",
    function: {
      name: String(own["name"] ?? ""),
      arguments: typeof args === "string" ? args : JSON.stringify(args ?? "")
    }
  }
}

/** A message as an estimate and a summary can read it, whatever kinds of parts and calls it has. */
const readable = (message: Message): Message => {
  const { content } = message
  const parts = Array.isArray(content) ? { content: objectsIn(content).filter(isPart) } : {}
  if (!isAssistant(message)) return { ...message, ...parts } as Message
  const { tool_calls: calls, reasoning_parts: _, ...rest } = message
  return { ...rest, ...parts, ...(Array.isArray(calls) ? { tool_calls: objectsIn(calls).map(callOf) } : {}) } as Message
}

const firstChoice = (event: Json): Json | null => objectsIn(event["choices"])[0] ?? null

const usageWith = (raw: unknown, usage: UsageRepair | null): unknown => {
  if (usage === null || !isObject(raw)) return raw
  const count = (key: string): number | null => (typeof raw[key] === "number" ? raw[key] : null)
  const { prompt, output } = repaired(usage, count("prompt_tokens"), count("completion_tokens"))
  return {
    ...raw,
    prompt_tokens: prompt,
    completion_tokens: output,
    ...(prompt === null || output === null ? {} : { total_tokens: prompt + output })
  }
}

/** One id and one model from the first chunk to the last; text goes on where it stopped. */
class ChatStitcher implements Stitcher {
  private head: Json | null = null
  private hasText = false
  readonly dead = []

  saw(event: Json): void {
    this.head ??= this.headOf(event)
    const delta = firstChoice(event)?.["delta"]
    if (isObject(delta) && typeof delta["content"] === "string" && delta["content"] !== "") this.hasText = true
  }

  private headOf(event: Json): Json {
    const kept = ["id", "object", "created", "model", "service_tier"].filter((key) => event[key] !== undefined)
    return Object.fromEntries(kept.map((key) => [key, event[key]]))
  }

  begin(): ReadonlyArray<Json> {
    return []
  }

  render(event: Json, text: string | null, usage: UsageRepair | null): ReadonlyArray<Json> {
    this.head ??= this.headOf(event)
    const told = event["usage"] === undefined ? {} : { usage: usageWith(event["usage"], usage) }
    const choice = firstChoice(event)
    if (choice === null) return "usage" in event ? [{ ...event, ...this.head, ...told }] : []
    const delta = isObject(choice["delta"]) ? choice["delta"] : {}
    const { role: _, content: __, ...rest } = delta
    // Thinking behind shown text is that of a replay or of a continuation: the client has had its own.
    const kept = this.hasText ? withoutFields(rest, ["reasoning_content", "reasoning", "reasoning_details"]) : rest
    const own = text === null || text === "" ? kept : { content: text, ...kept }
    if (typeof own["content"] === "string") this.hasText = true
    const ends = typeof choice["finish_reason"] === "string" && choice["finish_reason"] !== ""
    if (Object.keys(own).length === 0 && !ends && !isObject(event["usage"])) return []
    return [{ ...event, ...this.head, ...told, choices: [{ ...choice, delta: own }] }]
  }
}

const mergedBody = (body: Json, before: string, usage: UsageRepair): Json => {
  const choice = firstChoice(body)
  const message = choice === null || !isObject(choice["message"]) ? {} : choice["message"]
  const rest = typeof message["content"] === "string" ? message["content"] : ""
  return {
    ...body,
    choices: [{ ...choice, message: { ...message, content: before + rest } }],
    ...(body["usage"] === undefined ? {} : { usage: usageWith(body["usage"], usage) })
  }
}

const eventsOf = (body: Json): ReadonlyArray<Json> => {
  const { choices, usage, ...rest } = body
  const head = { ...rest, object: "chat.completion.chunk" }
  const deltas = objectsIn(choices).map((choice, index) => {
    const { message, finish_reason: _, ...other } = choice
    const { tool_calls: calls, ...fields } = isObject(message) ? message : {}
    const numbered = objectsIn(calls).map((call, at) => ({ index: at, ...call }))
    return { index, ...other, delta: { ...fields, ...(numbered.length === 0 ? {} : { tool_calls: numbered }) } }
  })
  const ends = objectsIn(choices).map((choice, index) => ({
    index: choice["index"] ?? index,
    delta: {},
    finish_reason: choice["finish_reason"]
  }))
  return [
    { ...head, choices: deltas.map((delta) => ({ ...delta, finish_reason: null })) },
    { ...head, choices: ends },
    ...(usage === undefined ? [] : [{ ...head, choices: [], usage }])
  ]
}

export const chatNative: NativeWire = {
  name: "chat",
  view,
  patch: (text, seen, change) => patched(text, seen, change, { itemsField: "messages", away, clean: (item) => item }),
  references: [],
  sideOf: (item) =>
    item["role"] === "tool" || item["role"] === "function"
      ? "result"
      : item["role"] === "assistant"
        ? "model"
        : "other",
  messagesOf: (items) => items.filter(isMessage).map(readable),
  toolsOf: (tools) => tools.filter(isToolSpec),
  readBody,
  eventReaderOf,
  stitcher: () => new ChatStitcher(),
  mergedBody,
  eventsOf,
  eventText: (event) => `data: ${JSON.stringify(event)}\n\n`,
  closing: "data: [DONE]\n\n",
  lastWord: "",
  errorBody: (failure) => ({
    error: { message: failure.message, type: failure.type, param: null, code: failure.code }
  }),
  errorEvent: (failure) =>
    `data: ${JSON.stringify({ error: { message: failure.message, type: failure.type, param: null, code: failure.code } })}\n\n`,
  told: toldByOpenAi,
  summaryBody: ({ model, messages, maxOutputTokens, profile }) =>
    toBody({ model, messages, maxOutputTokens, role: "summarizer" }, profile, budgetParamOf(profile, model), false),
  keepAlive: ": keep-alive\n\n"
}
