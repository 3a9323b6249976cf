/**
 * OpenAI's responses wire: from a request to a body. Pure; knows no SDK and no socket. The history keeps OpenAI's chat
 * shape; messages become items on the way out, items a reply on the way back (responsesReply.ts, responsesReader.ts). A
 * reasoning item is kept whole and goes back to the model that made it, and to no other.
 */
import { isObject, isText, type Json } from "../chat/json.ts"
import {
  isAssistant,
  type ContentPart,
  type Message,
  type MessageToolCall,
  type ReasoningPart,
  type ToolSpec
} from "../chat/Message.ts"
import type { WireRequest } from "../chat/ModelRequest.ts"
import type { ProviderProfile } from "../provider/ProviderProfile.ts"
import { fit, wellFormedJson } from "./history.ts"

/** Texts a consumer sees, and the model's own: both are parts of a message item. */
const partOf =
  (textType: "input_text" | "output_text") =>
  (part: ContentPart): Json => {
    if (part.type === "text") return { type: textType, text: part["text"] }
    const image = part["image_url"]
    if (part.type === "image_url" && isObject(image))
      return { type: "input_image", image_url: image["url"], detail: image["detail"] ?? "auto" }
    if (part.type === "file" && isObject(part["file"])) return { type: "input_file", ...part["file"] }
    return part
  }

const contentOf = (
  content: string | ReadonlyArray<ContentPart>,
  textType: "input_text" | "output_text"
): string | ReadonlyArray<Json> => (typeof content === "string" ? content : content.map(partOf(textType)))

/** A reasoning item can be sent back when the server keeps it, or when it carries its own content, sealed. */
const reasoningItem =
  (isStored: boolean) =>
  (part: ReasoningPart): ReadonlyArray<Json> => {
    const item = part["item"]
    if (!isObject(item)) return []
    const isSealed = typeof item["encrypted_content"] === "string"
    return isSealed || isStored ? [item] : []
  }

/** The mark of a custom tool's call, whose input is any text. It stays on the way out; nothing else of a call does. */
const customMark = "custom"

const isCustom = (call: MessageToolCall): boolean => Reflect.get(call, customMark) === true

const callItem = (call: MessageToolCall): Json =>
  isCustom(call)
    ? { type: "custom_tool_call", call_id: call.id, name: call.function.name, input: call.function.arguments }
    : { type: "function_call", call_id: call.id, name: call.function.name, arguments: call.function.arguments }

interface Items {
  readonly items: ReadonlyArray<Json>
  /** Calls of custom tools in the assistant message before: their results are items of their own kind. */
  readonly custom: ReadonlySet<string>
}

const itemsOf = (message: Message, custom: ReadonlySet<string>, isStored: boolean): Items => {
  if (isAssistant(message)) {
    const calls = message.tool_calls ?? []
    const text = message.content ?? message.refusal ?? ""
    return {
      items: [
        ...(message.reasoning_parts ?? []).flatMap(reasoningItem(isStored)),
        ...(text === "" ? [] : [{ role: "assistant", content: contentOf(text, "output_text") }]),
        ...calls.map(callItem)
      ],
      custom: new Set(calls.filter(isCustom).map((call) => call.id))
    }
  }
  if (message.role === "tool") {
    const type = custom.has(message.tool_call_id) ? "custom_tool_call_output" : "function_call_output"
    const output = contentOf(message.content, "input_text")
    return { items: [{ type, call_id: message.tool_call_id, output }], custom }
  }
  return { items: [{ role: message.role, content: contentOf(message.content, "input_text") }], custom: new Set() }
}

const inputOf = (messages: ReadonlyArray<Message>, isStored: boolean): ReadonlyArray<Json> => {
  const input: Array<Json> = []
  let custom: ReadonlySet<string> = new Set()
  for (const message of messages) {
    const next = itemsOf(message, custom, isStored)
    input.push(...next.items)
    custom = next.custom
  }
  return input
}

const toTool = (tool: ToolSpec): Json => {
  const { function: spec, type, ...rest } = tool
  return { ...rest, type, ...spec }
}

/** A choice of one tool stands flat here, and names it as the wire does. */
const chosen = (choice: unknown, wireName: (own: string) => string): unknown => {
  if (!isObject(choice)) return choice
  const flat = isObject(choice["function"]) ? { type: "function", ...choice["function"] } : choice
  const name: unknown = Reflect.get(flat, "name")
  return isText(name) ? { ...flat, name: wireName(name) } : flat
}

/** Fields that chat spells otherwise. */
const translated = (params: Json, wireName: (own: string) => string): Json => {
  const { response_format: format, tool_choice: choice, reasoning_effort: effort, ...rest } = params
  const own =
    isObject(format) && isObject(format["json_schema"]) ? { type: format["type"], ...format["json_schema"] } : format
  return {
    ...rest,
    ...(format === undefined ? {} : { text: { ...(isObject(rest["text"]) ? rest["text"] : {}), format: own } }),
    ...(choice === undefined ? {} : { tool_choice: chosen(choice, wireName) }),
    ...(effort === undefined
      ? {}
      : { reasoning: { ...(isObject(rest["reasoning"]) ? rest["reasoning"] : {}), effort } })
  }
}

/** Models that think, and can hand over their thinking sealed; others refuse to be asked for it. */
const thinks = (profile: ProviderProfile, model: string): boolean =>
  !model.includes("-chat") && profile.completionTokenModels.some((prefix) => model.startsWith(prefix))

const sealed = "reasoning.encrypted_content"

/**
 * The JSON body. The history is sent whole each time, so nothing is stored on the server unless the caller says so, and
 * a model that thinks hands its thinking over sealed.
 */
export const toBody = (request: WireRequest, profile: ProviderProfile, stream: boolean): Json => {
  const {
    max_tokens: _,
    max_completion_tokens: __,
    max_output_tokens: ___,
    stream_options: ____,
    ...params
  } = wellFormedJson(request.params ?? {})
  const isStored = params["store"] === true
  const returns = { thoughts: [], message: [], call: [customMark] }
  const { messages, tools, wireName } = fit(request, { ...profile, returns })
  return {
    store: false,
    ...(thinks(profile, request.model) ? { include: [sealed] } : {}),
    ...translated(params, wireName),
    model: request.model,
    input: inputOf(messages, isStored),
    ...(tools.length === 0 ? {} : { tools: tools.map(toTool) }),
    ...(request.maxOutputTokens === null ? {} : { max_output_tokens: request.maxOutputTokens }),
    ...(stream ? { stream: true } : {})
  }
}
