/** The responses wire (`/responses`) as recovery needs to know it. */
import { isObject, type Json } from "../../chat/json.ts"
import type { Message } from "../../chat/Message.ts"
import { bindsForm } from "../../chat/structured.ts"
import { eventReaderOf } from "../responsesReader.ts"
import { readBody } from "../responsesReply.ts"
import { toBody } from "../responsesWire.ts"
import {
  repaired,
  type NativeWire,
  type RequestView,
  type Side,
  type ToldFailure,
  type UsageRepair
} from "./NativeWire.ts"
import { toldByOpenAi } from "./openAiWords.ts"
import { capOf, modelOf, filePins, leadingRules, objectsIn, patched, presentAmong, toolSpec } from "./patch.ts"
import { ResponsesStitcher } from "./ResponsesStitcher.ts"

const wantsLogprobs = (body: Json): boolean =>
  (Array.isArray(body["include"]) && body["include"].includes("message.output_text.logprobs")) ||
  (typeof body["top_logprobs"] === "number" && body["top_logprobs"] > 0)

const itemsOf = (input: unknown): ReadonlyArray<Json> | null => {
  if (input === undefined || input === null) return []
  if (typeof input === "string") return [{ role: "user", content: input }]
  if (!Array.isArray(input)) return null
  const items = objectsIn(input)
  return items.length === input.length ? items : null
}

const view = (body: unknown, text: string): RequestView | null => {
  if (!isObject(body)) return null
  const items = itemsOf(body["input"])
  if (items === null) return null
  const references = items.some((item) => item["type"] === "item_reference") ? ["item_reference"] : []
  const tools = objectsIn(body["tools"])
  return {
    model: modelOf(body),
    streams: body["stream"] === true,
    cap: capOf(body["max_output_tokens"]),
    capField: "max_output_tokens",
    items,
    leading: leadingRules(items),
    hasTools: tools.length > 0,
    tools,
    pins: [
      ...presentAmong(body, ["previous_response_id", "conversation", "background", "prompt"]),
      ...references,
      ...filePins(text)
    ],
    only: wantsLogprobs(body) ? "logprobs" : null,
    isStructured: bindsForm(body),
    isBackground: body["background"] === true,
    isStored: body["store"] !== false
  }
}

/** Sealed thinking stays with its model, ids with the account that keeps them. */
const away = (item: Json): Json | null => {
  if (item["type"] === "reasoning" || item["type"] === "compaction") return null
  const isCall = item["type"] === "function_call" || item["type"] === "custom_tool_call"
  const isAnswer = item["type"] === "message" && item["role"] === "assistant"
  if ((!isCall && !isAnswer) || item["id"] === undefined) return item
  const { id: _, ...rest } = item
  return rest
}

/** Thinking that broke off: a client that kept it cannot send it back. */
const clean = (item: Json): Json | null =>
  item["type"] === "reasoning" && item["status"] === "incomplete" && typeof item["encrypted_content"] !== "string"
    ? null
    : item

const sideOf = (item: Json): Side => {
  const type = item["type"]
  if (typeof type === "string" && type.endsWith("_output")) return "result"
  if (type === undefined || type === "message") return item["role"] === "assistant" ? "model" : "other"
  return "model"
}

const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : objectsIn(content)
        .map((part) => (typeof part["text"] === "string" ? part["text"] : ""))
        .join("")

const roles: ReadonlySet<unknown> = new Set(["system", "developer", "user"])

const messageOf = (item: Json): ReadonlyArray<Message> => {
  const id = String(item["call_id"] ?? item["id"] ?? "")
  switch (item["type"]) {
    case "reasoning":
    case "item_reference":
      return []
    case "function_call":
    case "custom_tool_call": {
      const call = { name: String(item["name"]), arguments: String(item["arguments"] ?? item["input"] ?? "") }
      return [{ role: "assistant", content: null, tool_calls: [{ id, type: "function", function: call }] }]
    }
    case "function_call_output":
    case "custom_tool_call_output":
      return [{ role: "tool", tool_call_id: id, content: textOf(item["output"]) }]
    default: {
      if (item["role"] === "assistant") return [{ role: "assistant", content: textOf(item["content"]) }]
      const role = item["role"] === "system" || item["role"] === "developer" ? item["role"] : "user"
      if (!roles.has(item["role"])) return [{ role, content: JSON.stringify(item) }]
      const parts = objectsIn(item["content"]).map((part) => ({ ...part, type: String(part["type"]) }))
      return [{ role, content: typeof item["content"] === "string" ? item["content"] : parts }]
    }
  }
}

export const usageWith = (raw: unknown, usage: UsageRepair | null): unknown => {
  if (usage === null || !isObject(raw)) return raw
  const count = (key: string): number | null => (typeof raw[key] === "number" ? raw[key] : null)
  const { prompt, output } = repaired(usage, count("input_tokens"), count("output_tokens"))
  return {
    ...raw,
    input_tokens: prompt,
    output_tokens: output,
    ...(prompt === null || output === null ? {} : { total_tokens: prompt + output })
  }
}

const withText = (item: Json, change: (text: string) => string): Json => {
  let isDone = false
  return {
    ...item,
    content: objectsIn(item["content"]).map((part) => {
      if (isDone || part["type"] !== "output_text") return part
      isDone = true
      return { ...part, text: change(String(part["text"] ?? "")) }
    })
  }
}

const mergedBody = (body: Json, before: string, usage: UsageRepair): Json => {
  const output = objectsIn(body["output"]).filter((item) => item["type"] !== "reasoning")
  const at = output.findIndex((item) => item["type"] === "message")
  return {
    ...body,
    output: output.map((item, index) => (index === at ? withText(item, (text) => before + text) : item)),
    usage: usageWith(body["usage"], usage)
  }
}

const partEvents = (item: Json, place: Json): ReadonlyArray<Json> =>
  objectsIn(item["content"]).flatMap((part, content_index): ReadonlyArray<Json> => {
    const at = { ...place, content_index }
    if (part["type"] === "refusal")
      return [
        { type: "response.content_part.added", ...at, part: { ...part, refusal: "" } },
        { type: "response.refusal.delta", ...at, delta: part["refusal"] },
        { type: "response.refusal.done", ...at, refusal: part["refusal"] },
        { type: "response.content_part.done", ...at, part }
      ]
    const start = { ...part, text: "" }
    return [
      { type: "response.content_part.added", ...at, part: start },
      { type: "response.output_text.delta", ...at, delta: part["text"], logprobs: [] },
      { type: "response.output_text.done", ...at, text: part["text"], logprobs: [] },
      { type: "response.content_part.done", ...at, part }
    ]
  })

const itemEvents = (item: Json, output_index: number): ReadonlyArray<Json> => {
  const place = { item_id: item["id"], output_index }
  const done = { type: "response.output_item.done", output_index, item }
  if (item["type"] === "message")
    return [
      { type: "response.output_item.added", output_index, item: { ...item, content: [], status: "in_progress" } },
      ...partEvents(item, place),
      done
    ]
  if (item["type"] === "function_call")
    return [
      { type: "response.output_item.added", output_index, item: { ...item, arguments: "", status: "in_progress" } },
      { type: "response.function_call_arguments.delta", ...place, delta: item["arguments"] },
      { type: "response.function_call_arguments.done", ...place, name: item["name"], arguments: item["arguments"] },
      done
    ]
  return [{ type: "response.output_item.added", output_index, item }, done]
}

const eventsOf = (body: Json): ReadonlyArray<Json> => {
  const started = { ...body, status: "in_progress", output: [], usage: null }
  const type = body["status"] === "incomplete" ? "response.incomplete" : "response.completed"
  return [
    { type: "response.created", response: started },
    ...objectsIn(body["output"]).flatMap(itemEvents),
    { type, response: body }
  ].map((event, sequence_number) => ({ ...event, sequence_number }))
}

const eventText = (event: Json): string => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`

const errorOf = (failure: ToldFailure): Json => ({
  message: failure.message,
  type: failure.type,
  param: null,
  code: failure.code
})

export const responsesNative: NativeWire = {
  name: "responses",
  view,
  patch: (text, seen, change) => patched(text, seen, change, { itemsField: "input", away, clean }),
  references: [["previous_response_id"]],
  sideOf,
  messagesOf: (items) => items.flatMap(messageOf),
  toolsOf: (tools) => tools.map((tool) => toolSpec(tool, "parameters")),
  readBody,
  eventReaderOf,
  stitcher: () => new ResponsesStitcher(usageWith),
  mergedBody,
  eventsOf,
  eventText,
  closing: "",
  lastWord: "",
  errorBody: (failure) => ({ error: errorOf(failure) }),
  errorEvent: (failure) => eventText({ type: "error", error: errorOf(failure) }),
  told: toldByOpenAi,
  summaryBody: ({ model, messages, maxOutputTokens, profile }) =>
    toBody({ model, messages, maxOutputTokens, role: "summarizer" }, profile, false),
  keepAlive: ": keep-alive\n\n"
}
