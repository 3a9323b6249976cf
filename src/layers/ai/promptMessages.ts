/**
 * From a prompt of effect/ai to messages: each message of a prompt becomes none, one or several of ours. What has no
 * place in the shape of a chat (files of an assistant, tools that a provider ran itself, approvals) stays behind. Pure.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import { isObject, isText, type Json } from "../../domain/chat/json.ts"
import type {
  AssistantMessage,
  ContentPart,
  Message,
  MessageToolCall,
  ProviderMeta,
  ReasoningPart
} from "../../domain/chat/Message.ts"

/** Where holdfast keeps in a part what its model wants back: under this key of `metadata`, and so of `options`. */
export const ownKey = "holdfast"

/** A message of a prompt and what became of it. */
export interface Mapped {
  readonly from: Prompt.Message
  readonly to: ReadonlyArray<Message>
}

/** What holdfast has put beside a part of a reply. */
export const ownOf = (part: { readonly options: Readonly<Record<string, unknown>> }): Json => {
  const own = part.options[ownKey]
  return isObject(own) ? own : {}
}

const isAddress = (text: string): boolean => /^(?:https?|data|gs|s3):/i.test(text)

/** The address of a file: its own, or its bytes as a data address. */
const addressOf = ({ data, mediaType }: Prompt.FilePart): string => {
  if (data instanceof URL) return data.href
  if (data instanceof Uint8Array) return `data:${mediaType};base64,${Base64.encode(data)}`
  return isAddress(data) ? data : `data:${mediaType};base64,${data}`
}

const base64Of = (address: string): string | null => {
  const found = /^data:[^,]*;base64,(.*)$/s.exec(address)
  return found?.[1] ?? null
}

/** `audio/mpeg` is `mp3` there. */
const audioFormats: Readonly<Record<string, string>> = { mpeg: "mp3", "x-wav": "wav", wave: "wav" }

/** How much a picture is looked at is asked under the provider's own name. */
const detailOf = (part: Prompt.FilePart): Json => {
  const own = part.options["openai"]
  const detail = isObject(own) ? own["imageDetail"] : undefined
  return isText(detail) ? { detail } : {}
}

const filePart = (part: Prompt.FilePart): ContentPart => {
  const url = addressOf(part)
  const [kind = "", format = ""] = part.mediaType.split("/")
  if (kind === "image") return { type: "image_url", image_url: { url, ...detailOf(part) } }
  const bytes = base64Of(url)
  if (kind === "audio" && bytes !== null)
    return { type: "input_audio", input_audio: { data: bytes, format: audioFormats[format] ?? format } }
  const filename = part.fileName === undefined ? {} : { filename: part.fileName }
  return { type: "file", file: { ...filename, ...(bytes === null ? { file_url: url } : { file_data: url }) } }
}

const contentPart = (part: Prompt.TextPart | Prompt.FilePart): ContentPart =>
  part.type === "text" ? { type: "text", text: part.text } : filePart(part)

/** A text alone stays a text: that is what every server takes. */
const contentOf = (parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart>): string | ReadonlyArray<ContentPart> => {
  const [first] = parts
  return parts.length === 1 && first?.type === "text" ? first.text : parts.map(contentPart)
}

/** What a part brings back to the model that made it. */
const metaOf = (value: unknown): ProviderMeta | null =>
  isObject(value) && isText(value["model"]) ? { ...value, model: value["model"] } : null

/** The text of a call's arguments as the model wrote it, or as JSON. */
const argumentsOf = (part: Prompt.ToolCallPart): string => {
  const written = ownOf(part)["arguments"]
  return isText(written) ? written : (JSON.stringify(part.params) ?? "{}")
}

const callOf = (part: Prompt.ToolCallPart): MessageToolCall => {
  const meta = metaOf(ownOf(part)["meta"])
  return {
    id: part.id,
    type: "function",
    function: { name: part.name, arguments: argumentsOf(part) },
    ...(meta === null ? {} : { provider_meta: meta })
  }
}

const isReasoning = (value: unknown): value is ReasoningPart =>
  isObject(value) && isText(value["model"]) && isText(value["text"])

const reasoningOf = (part: Prompt.ReasoningPart): ReadonlyArray<ReasoningPart> => {
  const parts = ownOf(part)["parts"]
  return Array.isArray(parts) ? parts.filter(isReasoning) : []
}

const assistantMessage = (content: ReadonlyArray<Prompt.AssistantMessagePart>): ReadonlyArray<AssistantMessage> => {
  const texts: Array<string> = []
  const calls: Array<MessageToolCall> = []
  const reasoning: Array<ReasoningPart> = []
  let meta: ProviderMeta | null = null
  for (const part of content) {
    if (part.type === "text") texts.push(part.text)
    if (part.type === "reasoning") reasoning.push(...reasoningOf(part))
    if (part.type === "tool-call" && !part.providerExecuted) calls.push(callOf(part))
    if (part.type === "text" || part.type === "tool-call") meta = metaOf(ownOf(part)["extra"]) ?? meta
  }
  if (texts.length === 0 && calls.length === 0 && reasoning.length === 0) return []
  return [
    {
      role: "assistant",
      content: texts.length === 0 ? null : texts.join(""),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      ...(reasoning.length === 0 ? {} : { reasoning_parts: reasoning }),
      ...(meta === null ? {} : { provider_meta: meta })
    }
  ]
}

/** What the model reads of a result: what its tool has made for it, a text as it is, anything else as JSON. */
const resultContent = (part: Prompt.ToolResultPart): string | ReadonlyArray<ContentPart> => {
  if (part.modelOutput !== undefined && part.modelOutput.length > 0) return contentOf(part.modelOutput)
  return isText(part.result) ? part.result : (JSON.stringify(part.result) ?? "null")
}

const messagesOf = (message: Prompt.Message): ReadonlyArray<Message> => {
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content }]
    case "user":
      return message.content.length === 0 ? [] : [{ role: "user", content: contentOf(message.content) }]
    case "assistant":
      return assistantMessage(message.content)
    case "tool":
      return message.content.flatMap((part) =>
        part.type === "tool-result"
          ? [{ role: "tool" as const, tool_call_id: part.id, content: resultContent(part) }]
          : []
      )
  }
}

export const mapped = (prompt: Prompt.Prompt): ReadonlyArray<Mapped> =>
  prompt.content.map((from) => ({ from, to: messagesOf(from) }))
