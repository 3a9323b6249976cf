/**
 * Anthropic's messages wire: from a request to a body. Pure; knows no SDK and no socket. The history keeps OpenAI's
 * shape; it is mapped on the way out, and a reply on the way back (anthropicReply.ts, anthropicReader.ts).
 */
import { isObject, isText, parsedObject, type Json } from "../chat/json.ts"
import {
  isAssistant,
  isSystem,
  textOf,
  type AssistantMessage,
  type ContentPart,
  type Message,
  type ReasoningPart,
  type ToolSpec
} from "../chat/Message.ts"
import type { WireRequest } from "../chat/ModelRequest.ts"
import { place, type CacheMarkers, type CacheTtl } from "../chat/PromptCache.ts"
import type { ProviderProfile } from "../provider/ProviderProfile.ts"
import { fit, wellFormedJson } from "./history.ts"

const marker = (ttl: CacheTtl): Json => ({ cache_control: { type: "ephemeral", ttl } })

/** The last block of a list carries the marker. */
const marked = (blocks: ReadonlyArray<Json>, ttl: CacheTtl | null): ReadonlyArray<Json> =>
  ttl === null ? blocks : blocks.map((block, at) => (at === blocks.length - 1 ? { ...block, ...marker(ttl) } : block))

const dataUrl = /^data:([^;,]+);base64,(.*)$/s

const imageBlock = (url: string): Json => {
  const found = dataUrl.exec(url)
  return found === null
    ? { type: "image", source: { type: "url", url } }
    : { type: "image", source: { type: "base64", media_type: found[1], data: found[2] } }
}

/** A text without a visible character is refused there. */
const isBlank = (text: unknown): boolean => isText(text) && text.trim() === ""

/** Parts in OpenAI's shape are mapped; parts in Anthropic's own pass through. Blank texts are left out. */
const partBlock = (part: Json): ReadonlyArray<Json> => {
  if (part["type"] === "text") return isBlank(part["text"]) ? [] : [part]
  if (part["type"] === "image_url" && isObject(part["image_url"]) && typeof part["image_url"]["url"] === "string")
    return [imageBlock(part["image_url"]["url"])]
  if (part["type"] === "file" && isObject(part["file"]) && typeof part["file"]["file_data"] === "string") {
    const found = dataUrl.exec(part["file"]["file_data"])
    if (found !== null) return [{ type: "document", source: { type: "base64", media_type: found[1], data: found[2] } }]
  }
  if (part["type"] === "file" && isObject(part["file"]) && typeof part["file"]["file_url"] === "string")
    return [{ type: "document", source: { type: "url", url: part["file"]["file_url"] } }]
  return [part]
}

const contentBlocks = (content: string | ReadonlyArray<ContentPart> | null | undefined): ReadonlyArray<Json> => {
  if (content === null || content === undefined || isBlank(content)) return []
  return typeof content === "string" ? [{ type: "text", text: content }] : content.flatMap(partBlock)
}

/** Only signed or sealed thinking can be sent back. */
const thinkingBlock = (part: ReasoningPart): ReadonlyArray<Json> => {
  if (typeof part["data"] === "string") return [{ type: "redacted_thinking", data: part["data"] }]
  return part.signature === undefined ? [] : [{ type: "thinking", thinking: part.text, signature: part.signature }]
}

const callBlocks = (message: AssistantMessage): ReadonlyArray<Json> =>
  (message.tool_calls ?? []).map((call) => ({
    type: "tool_use",
    id: call.id,
    name: call.function.name,
    input: parsedObject(call.function.arguments) ?? {}
  }))

/**
 * The blocks of a reply as they came, when it had some that are neither text, thinking nor a call; null = it had none,
 * or the message is not that reply any more.
 */
const ownBlocks = (message: AssistantMessage): ReadonlyArray<Json> | null => {
  const blocks = message["content_blocks"]
  if (!Array.isArray(blocks) || !blocks.every(isObject)) return null
  const text = blocks.map((block) => (block["type"] === "text" && isText(block["text"]) ? block["text"] : "")).join("")
  const calls = [...callBlocks(message)]
  const own = blocks.flatMap((block) => (block["type"] === "tool_use" ? calls.splice(0, 1) : partBlock(block)))
  const isSame = text.trim() === (isText(message.content) ? message.content.trim() : "")
  return isSame && calls.length === 0 ? own : null
}

const assistantBlocks = (message: AssistantMessage): ReadonlyArray<Json> =>
  ownBlocks(message) ?? [
    ...(message.reasoning_parts ?? []).flatMap(thinkingBlock),
    ...contentBlocks(message.content ?? message.refusal),
    ...callBlocks(message)
  ]

const resultContent = (content: string | ReadonlyArray<ContentPart>): unknown =>
  typeof content === "string" ? content : content.flatMap(partBlock)

const blocksOf = (message: Message): ReadonlyArray<Json> => {
  if (isAssistant(message)) return assistantBlocks(message)
  if (message.role === "tool")
    return [{ type: "tool_result", tool_use_id: message.tool_call_id, content: resultContent(message.content) }]
  // A system message in mid-conversation: only the leading ones have a place of their own.
  return contentBlocks(message.content)
}

interface WireMessage {
  readonly role: "user" | "assistant"
  readonly content: ReadonlyArray<Json>
}

/** Results and user texts in a row are one message of the wire, as are fragments of the assistant. */
const wireMessagesOf = (
  messages: ReadonlyArray<Message>,
  leading: number,
  markers: CacheMarkers
): ReadonlyArray<WireMessage> => {
  const sent: Array<WireMessage> = []
  for (const [index, message] of messages.entries()) {
    if (index < leading) continue
    const ttl = markers.messages.find((mark) => mark.index === index)?.ttl ?? null
    const content = marked(blocksOf(message), ttl)
    if (content.length === 0) continue
    const role = isAssistant(message) ? "assistant" : "user"
    const last = sent.at(-1)
    if (last?.role === role) sent[sent.length - 1] = { role, content: [...last.content, ...content] }
    else sent.push({ role, content })
  }
  return sent
}

const toTool = (tool: ToolSpec): Json => ({
  name: tool.function.name,
  ...(tool.function.description === undefined ? {} : { description: tool.function.description }),
  input_schema: tool.function.parameters ?? { type: "object", properties: {} }
})

const toolChoice = (choice: unknown, isParallel: unknown, wireName: (own: string) => string): Json => {
  const single = isParallel === false ? { disable_parallel_tool_use: true } : {}
  if (choice === "none") return { tool_choice: { type: "none" } }
  if (choice === "required") return { tool_choice: { type: "any", ...single } }
  if (isObject(choice) && isObject(choice["function"]))
    return { tool_choice: { type: "tool", name: wireName(String(choice["function"]["name"])), ...single } }
  if (isObject(choice)) return { tool_choice: { ...choice, ...single } }
  return isParallel === false ? { tool_choice: { type: "auto", ...single } } : {}
}

/** A form by a schema stands elsewhere here; a form this API has no word for goes as it is, and is refused by name. */
const answerForm = (format: unknown, config: unknown): Json => {
  if (format === undefined || (isObject(format) && format["type"] === "text")) return {}
  if (!isObject(format) || !isObject(format["json_schema"])) return { response_format: format }
  const own = { type: "json_schema", schema: format["json_schema"]["schema"] }
  return { output_config: { ...(isObject(config) ? config : {}), format: own } }
}

/**
 * Manual thinking is refused in the middle of a tool loop that began without: the last assistant message must start with
 * thinking. The loop of another model goes on without. Source: platform.claude.com/docs/en/build-with-claude/thinking
 */
const thinkingParam = (thinking: unknown, sent: ReadonlyArray<WireMessage>): Json => {
  if (thinking === undefined) return {}
  const last = sent.findLast(({ role }) => role === "assistant")?.content ?? []
  const isInLoop = sent.at(-1)?.content.some((block) => block["type"] === "tool_result") === true
  const hasThought = last[0]?.["type"] === "thinking" || last[0]?.["type"] === "redacted_thinking"
  const isManual = isObject(thinking) && thinking["type"] === "enabled"
  return isManual && isInLoop && !hasThought ? {} : { thinking }
}

/** This API demands a budget: sent where the policy has none. */
const demandedTokens = 8_000

/** The JSON body. Fields of the caller pass through; those OpenAI spells otherwise are translated. */
export const toBody = (
  request: WireRequest,
  profile: ProviderProfile,
  cacheTtl: CacheTtl | null,
  stream: boolean
): Json => {
  const {
    max_tokens: _,
    max_completion_tokens: __,
    stream_options: ___,
    stop,
    tool_choice: choice,
    parallel_tool_calls: isParallel,
    response_format: format,
    thinking,
    ...params
  } = wellFormedJson(request.params ?? {})
  const { messages, tools, wireName } = fit(request, profile)
  const markers = place({ messages, tools }, { markers: true, ttl: cacheTtl })
  const firstOther = messages.findIndex((message) => !isSystem(message))
  const leading = firstOther === -1 ? messages.length : firstOther
  const system = messages.slice(0, leading).flatMap((message) => {
    const text = textOf(message)
    return isBlank(text) ? [] : [{ type: "text", text }]
  })
  const sent = wireMessagesOf(messages, leading, markers)
  return {
    ...params,
    ...thinkingParam(thinking, sent),
    ...(stop === undefined ? {} : { stop_sequences: Array.isArray(stop) ? stop : [stop] }),
    ...answerForm(format, params["output_config"]),
    ...(tools.length === 0 ? {} : toolChoice(choice, isParallel, wireName)),
    model: request.model,
    max_tokens: request.maxOutputTokens ?? demandedTokens,
    ...(system.length === 0 ? {} : { system: marked(system, markers.system) }),
    messages: sent,
    ...(tools.length === 0 ? {} : { tools: marked(tools.map(toTool), markers.tools) }),
    ...(stream ? { stream: true } : {})
  }
}
