/** A message of OpenAI's chat wire, whole or as a delta, and the reply it becomes: the same checks for both. */
import { isCount, isObject, isText, type Json } from "../chat/json.ts"
import type { FinishReason, ModelReply, ToolCall } from "../chat/ModelReply.ts"
import * as Usage from "../chat/Usage.ts"
import { addFurther, further, someOf, type Fields } from "./furtherFields.ts"
import { empty, flaw, isFlaw, type Deviations, type Flaw, type ReadContext } from "./wireReply.ts"

/** Fields of the message that have a place of their own; all others are kept beside the reply. */
const known = new Set([
  "role",
  "content",
  "refusal",
  "tool_calls",
  "function_call",
  "reasoning_content",
  "reasoning",
  "reasoning_text",
  "reasoning_parts"
])

export const furtherOf = (message: Json): Json => further(message, known)

const knownOfChoice = new Set(["index", "message", "delta", "finish_reason", "error"])

/** `obfuscation` is noise on purpose. */
const knownOfBody = new Set(["object", "model", "choices", "usage", "error", "obfuscation"])

export const furtherOfChoice = (choice: Json): Json => further(choice, knownOfChoice)

export const furtherOfBody = (body: Json): Json => further(body, knownOfBody)

export const addFurtherOfBody = (fields: Fields, body: Json): void => addFurther(fields, body, knownOfBody)

/** What a `content` holds. */
export interface Content {
  /** null = no text stands there; an empty text is one. */
  readonly text: string | null
  readonly thinking: string
  /** Parts that are neither text nor thinking. */
  readonly others: ReadonlyArray<Json>
}

const none: Content = { text: null, thinking: "", others: [] }

/** Thoughts are a text, or a list of parts with texts. */
const thoughtsOf = (raw: unknown): string => {
  if (isText(raw)) return raw
  if (!Array.isArray(raw)) return ""
  return raw.map((part: unknown) => (isObject(part) && isText(part["text"]) ? part["text"] : "")).join("")
}

const withPart = (content: Content, part: unknown): Content => {
  if (isText(part)) return { ...content, text: (content.text ?? "") + part }
  if (!isObject(part)) return content
  if (part["type"] === "thinking" || part["type"] === "reasoning")
    return { ...content, thinking: content.thinking + thoughtsOf(part["thinking"] ?? part["text"]) }
  if (isText(part["text"])) return { ...content, text: (content.text ?? "") + part["text"] }
  return { ...content, others: [...content.others, part] }
}

export const readContent = (context: ReadContext, deviations: Deviations, raw: unknown): Content | Flaw => {
  if (raw === undefined || raw === null) return none
  if (isText(raw)) return { text: raw, thinking: "", others: none.others }
  if (context.profile.exact || !Array.isArray(raw)) return flaw("content_not_text")
  deviations.note("content_in_parts")
  return raw.reduce<Content>(withPart, none)
}

/** Reasoning as text, and the field it stood in. */
export const readThoughts = (message: Json): { readonly field: string; readonly text: string } | null => {
  for (const field of ["reasoning_content", "reasoning", "reasoning_text"]) {
    const text = message[field]
    if (isText(text)) return { field, text }
  }
  return null
}

/** A legacy call that is one. Some servers leave an empty stub beside the real calls. */
export const isLegacyCall = (context: ReadContext, raw: unknown): boolean => {
  if (raw === undefined || raw === null) return false
  if (context.profile.exact || !isObject(raw)) return true
  const isNothing = (value: unknown): boolean => value === undefined || value === null || value === ""
  return !(isNothing(raw["name"]) && isNothing(raw["arguments"]))
}

/** A text that may be absent or null; undefined = something else stands there. */
export const textAt = (object: Json, key: string): string | null | undefined => {
  const value = object[key]
  if (value === undefined || value === null) return null
  return isText(value) ? value : undefined
}

export const isAssistantRole = (context: ReadContext, deviations: Deviations, role: unknown): boolean => {
  if (role === "assistant") return true
  if (context.profile.exact || (role !== undefined && role !== null && role !== "")) return false
  deviations.note("role_missing")
  return true
}

/** A count that may be absent. */
const countAt = (context: ReadContext, deviations: Deviations, object: Json, key: string): number | null | Flaw => {
  const value = object[key]
  if (value === undefined || value === null) return null
  if (isCount(value)) return value
  if (context.profile.exact) return flaw("usage_not_a_count")
  deviations.note("usage_not_a_count")
  return null
}

const detailsAt = (object: Json, key: string): Json => {
  const value = object[key]
  return isObject(value) ? value : {}
}

/** Usage as reported; absent counts are unknown. null when there is no usage object. */
export const readUsage = (context: ReadContext, deviations: Deviations, raw: unknown): Usage.Usage | null | Flaw => {
  if (raw === undefined || raw === null) return null
  if (!isObject(raw)) {
    if (context.profile.exact) return flaw("usage_not_an_object")
    deviations.note("usage_not_a_count")
    return null
  }
  const prompt = detailsAt(raw, "prompt_tokens_details")
  const completion = detailsAt(raw, "completion_tokens_details")
  const counts = [
    countAt(context, deviations, raw, "prompt_tokens"),
    countAt(context, deviations, raw, "completion_tokens"),
    countAt(context, deviations, prompt, "cached_tokens"),
    countAt(context, deviations, prompt, "cache_creation_tokens"),
    countAt(context, deviations, completion, "reasoning_tokens"),
    countAt(context, deviations, raw, "total_tokens")
  ]
  const bad = counts.find(isFlaw)
  if (bad !== undefined) return bad
  const [
    promptTokens = null,
    completionTokens = null,
    cachedTokens = null,
    cacheWriteTokens = null,
    reasoningTokens = null
  ] = counts.map((count) => (isFlaw(count) ? null : count))
  return { promptTokens, completionTokens, cachedTokens, cacheWriteTokens, reasoningTokens }
}

/** Fields that are an answer by themselves: a reply of sound or pictures needs no text. */
const contentFields = [
  "audio",
  "images",
  "image",
  "videos",
  "video",
  "files",
  "documents",
  "artifacts",
  "content_parts"
]

const isSomething = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.length > 0
    : isObject(value)
      ? Object.keys(value).length > 0
      : isText(value) && value !== ""

/** What a reply is made of, whether it came as one body or in chunks. */
export interface Pieces {
  readonly text: string | null
  readonly refusal: string | null
  readonly thoughts: { readonly field: string; readonly text: string } | null
  readonly toolCalls: ReadonlyArray<ToolCall>
  readonly finishReason: FinishReason
  readonly usage: Usage.Usage | null
  readonly servedModel: string | null
  readonly warnings: ReadonlyArray<string>
  /** Further fields of the message. */
  readonly extra: Json
  /** Further fields of choice and body. */
  readonly details: Json
}

/** Reasoning that the provider wants back stays beside the other fields of its message. */
const boundOf = (context: ReadContext, { extra, thoughts }: Pieces): Json => {
  const { returns } = context.profile
  return thoughts !== null && [...returns.thoughts, ...returns.message].includes(thoughts.field)
    ? { ...extra, [thoughts.field]: thoughts.text }
    : extra
}

/** The last checks, the same for bodies and streams. */
export const toReply = (context: ReadContext, pieces: Pieces): ModelReply | Flaw => {
  const text = pieces.refusal === null ? pieces.text : null
  const hasContent = contentFields.some((field) => isSomething(pieces.extra[field]))
  const hasNothing =
    (text === null || text === "") && pieces.refusal === null && pieces.toolCalls.length === 0 && !hasContent
  if (hasNothing && pieces.finishReason === "stop") return empty(pieces.usage)
  const extra = someOf(boundOf(context, pieces))
  const details = someOf(pieces.details)
  return {
    text: text === "" && (pieces.toolCalls.length > 0 || hasContent) ? null : text,
    refusal: pieces.refusal,
    reasoning: pieces.thoughts?.text ?? null,
    reasoningParts: [],
    toolCalls: pieces.toolCalls,
    finishReason: pieces.finishReason,
    usage: pieces.usage ?? Usage.unknown,
    model: context.model,
    servedModel: pieces.servedModel,
    providerRequestId: context.requestId,
    warnings: pieces.warnings,
    ...(extra === undefined ? {} : { extra }),
    ...(details === undefined ? {} : { details })
  }
}
