/**
 * From a reply to the parts of effect/ai. What a model wants back later (signatures, the exact text of arguments, sealed
 * items) travels as `metadata.holdfast` of its part, and effect/ai hands it back in the next prompt. Pure.
 */
import type * as Response from "effect/ai/Response"
import { isObject, isText, parsedOrText, type Json } from "../../domain/chat/json.ts"
import type { FinishReason, ModelReply, ToolCall } from "../../domain/chat/ModelReply.ts"
import type { Usage } from "../../domain/chat/Usage.ts"
import { ownKey } from "./promptMessages.ts"

export type Part = Response.PartEncoded

type Head = Response.ResponseMetadataPartEncoded
type Rest = Exclude<Part, Response.TextPartEncoded | Response.ReasoningPartEncoded | Head>

type Metadata = NonNullable<Response.TextPartEncoded["metadata"]>

/** Where the parts of another LanguageModel stand in the reply that was made of them. */
const wrappedKey = "effectAiParts"

export const wrappedDetails = (parts: ReadonlyArray<Part>): Json => ({ [wrappedKey]: parts })

/** The parts a wrapped LanguageModel has given; null = the reply is of a provider of ours. */
const wrappedParts = (reply: ModelReply): ReadonlyArray<Part> | null => {
  const parts = reply.details?.[wrappedKey]
  return Array.isArray(parts) ? (parts as ReadonlyArray<Part>) : null
}

/** Only JSON may stand in metadata: what is none falls away. */
const asMetadata = (own: Json): { readonly metadata?: Metadata } => {
  const text = JSON.stringify(own)
  return text === "{}" ? {} : { metadata: { [ownKey]: JSON.parse(text) as Metadata[string] } }
}

const reasons: Readonly<Record<FinishReason, Response.FinishReason>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool-calls",
  content_filter: "content-filter",
  refusal: "content-filter",
  window_full: "length",
  pause: "pause"
}

const known = (count: number | null): number | undefined => count ?? undefined

const less = (total: number | null, ...parts: ReadonlyArray<number | null>): number | undefined =>
  total === null
    ? undefined
    : Math.max(
        0,
        parts.reduce((rest: number, part) => rest - (part ?? 0), total)
      )

export const usageOf = (usage: Usage): Response.FinishPartEncoded["usage"] => ({
  inputTokens: {
    total: known(usage.promptTokens),
    uncached: less(usage.promptTokens, usage.cachedTokens, usage.cacheWriteTokens),
    cacheRead: known(usage.cachedTokens),
    cacheWrite: known(usage.cacheWriteTokens)
  },
  outputTokens: {
    total: known(usage.completionTokens),
    reasoning: known(usage.reasoningTokens),
    text: less(usage.completionTokens, usage.reasoningTokens)
  }
})

/** A call. Arguments that are no JSON are handed on as the text they are: the toolkit refuses them in its own way. */
const callPart = (call: ToolCall, extra: Json | undefined): Response.ToolCallPartEncoded => ({
  type: "tool-call",
  id: call.id,
  name: call.name,
  params: call.arguments.trim() === "" ? {} : parsedOrText(call.arguments),
  ...asMetadata({ arguments: call.arguments, meta: call.providerMeta, extra })
})

/** Addresses a provider cites beside its text. */
const sourceParts = (reply: ModelReply): ReadonlyArray<Response.UrlSourcePartEncoded> => {
  const cited = reply.extra?.["annotations"]
  if (!Array.isArray(cited)) return []
  return cited.flatMap((one: unknown, at): ReadonlyArray<Response.UrlSourcePartEncoded> => {
    if (!isObject(one)) return []
    const place = isObject(one["url_citation"]) ? one["url_citation"] : one
    const { url, title } = place
    if (!isText(url) || !URL.canParse(url)) return []
    return [{ type: "source", sourceType: "url", id: `source-${at + 1}`, url, title: isText(title) ? title : url }]
  })
}

const dataAddress = /^data:([^;,]+);base64,(.*)$/s

/** Pictures a model has made, as chat servers send them beside the text. */
const fileParts = (reply: ModelReply): ReadonlyArray<Response.FilePartEncoded> => {
  const images = reply.extra?.["images"]
  if (!Array.isArray(images)) return []
  return images.flatMap((one: unknown): ReadonlyArray<Response.FilePartEncoded> => {
    const held = isObject(one) ? one["image_url"] : undefined
    const url = isObject(held) ? held["url"] : held
    const [, mediaType, data] = isText(url) ? (dataAddress.exec(url) ?? []) : []
    return mediaType === undefined || data === undefined ? [] : [{ type: "file", mediaType, data }]
  })
}

/** What goes back with the message as a whole: bound to the model that made it. */
const extraOf = (reply: ModelReply): Json | undefined =>
  reply.extra === undefined ? undefined : { ...reply.extra, model: reply.model }

/** A refusal is the text of its reply; `metadata.holdfast.refusal` tells it from an answer. */
export const saidBy = (reply: ModelReply): string => reply.refusal ?? reply.text ?? ""

export const textMetadata = (reply: ModelReply): { readonly metadata?: Metadata } =>
  asMetadata({ extra: extraOf(reply), ...(reply.refusal === null ? {} : { refusal: true }) })

export const reasoningMetadata = (reply: ModelReply): { readonly metadata?: Metadata } =>
  asMetadata(reply.reasoningParts.length === 0 ? {} : { parts: reply.reasoningParts })

export const hasReasoning = (reply: ModelReply): boolean =>
  reply.reasoningParts.length > 0 || (reply.reasoning ?? "") !== ""

/** Everything of a reply of ours that is neither its text nor its reasoning, the finish last. */
const ownRest = (reply: ModelReply): ReadonlyArray<Rest> => {
  // Without a text the calls carry what belongs to the whole message.
  const extra = saidBy(reply) === "" ? extraOf(reply) : undefined
  return [
    ...sourceParts(reply),
    ...fileParts(reply),
    ...reply.toolCalls.map((call) => callPart(call, extra)),
    {
      type: "finish",
      reason: reply.refusal === null ? reasons[reply.finishReason] : "content-filter",
      usage: usageOf(reply.usage),
      response: undefined,
      ...asMetadata({
        warnings: reply.warnings,
        details: reply.details,
        providerRequestId: reply.providerRequestId,
        model: reply.model
      })
    }
  ]
}

const isHead = (part: Part): part is Head => part.type === "response-metadata"
const isRest = (part: Part): part is Rest => part.type !== "text" && part.type !== "reasoning" && !isHead(part)

/** Parts behind text and reasoning: calls, sources, files, the finish. */
export const restOf = (reply: ModelReply): ReadonlyArray<Rest> => wrappedParts(reply)?.filter(isRest) ?? ownRest(reply)

/** Who has answered. */
export const headOf = (reply: ModelReply): ReadonlyArray<Head> => {
  const told = wrappedParts(reply)?.filter(isHead)
  if (told !== undefined) return told
  const answer = reply.responseId ?? reply.details?.["id"]
  return [
    {
      type: "response-metadata",
      modelId: reply.servedModel ?? reply.model,
      ...(isText(answer) ? { id: answer } : {})
    }
  ]
}

const textOfParts = (parts: ReadonlyArray<Part>): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("")

/** A joined reply has one text: it stands where the last fragment's first one stood. */
const withText = (parts: ReadonlyArray<Part>, text: string): ReadonlyArray<Part> => {
  const at = parts.findIndex((part) => part.type === "text")
  const others = parts.filter((part) => part.type !== "text")
  const before = at === -1 ? parts.findIndex((part) => part.type !== "response-metadata") : at
  const first = parts[at]
  const whole: Part = first === undefined ? { type: "text", text } : { ...(first as Response.TextPartEncoded), text }
  return [...others.slice(0, before), whole, ...others.slice(before)]
}

/** The reply as the answer of `generateText`. */
export const partsOf = (reply: ModelReply): Array<Part> => {
  const wrapped = wrappedParts(reply)
  if (wrapped !== null)
    return textOfParts(wrapped) === (reply.text ?? "") ? [...wrapped] : [...withText(wrapped, reply.text ?? "")]
  const said = saidBy(reply)
  return [
    ...headOf(reply),
    ...(hasReasoning(reply)
      ? [{ type: "reasoning" as const, text: reply.reasoning ?? "", ...reasoningMetadata(reply) }]
      : []),
    ...(said === "" ? [] : [{ type: "text" as const, text: said, ...textMetadata(reply) }]),
    ...ownRest(reply)
  ]
}

/** Metadata of the texts and the reasoning of a wrapped reply, as its own stream would have ended them. */
export const wrappedMetadata = (
  reply: ModelReply,
  type: "text" | "reasoning"
): { readonly metadata?: Metadata } | null => {
  const parts = wrappedParts(reply)
  if (parts === null) return null
  const all = parts.flatMap((part) => (part.type === type && part.metadata !== undefined ? [part.metadata] : []))
  return all.length === 0 ? {} : { metadata: Object.assign({}, ...all) as Metadata }
}
