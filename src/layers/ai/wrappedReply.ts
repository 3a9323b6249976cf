/** Parts of a wrapped LanguageModel as a reply of ours, and as the parts of a stream. Pure. */
import type * as Response from "effect/ai/Response"
import type * as Tool from "effect/ai/Tool"
import * as DateTime from "effect/DateTime"
import * as Base64 from "effect/encoding/Base64"
import type { FinishReason, ModelPart, ModelReply, ToolCall } from "../../domain/chat/ModelReply.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { wrappedDetails, type Part } from "./responseParts.ts"

/** A part of any toolkit: its tools are checked above recovery. */
export type AnyPart = Response.AllParts<Record<string, Tool.Any>>

/** What recovery makes of a reason; the reason itself goes to the caller with the parts. */
const reasons: Readonly<Record<Response.FinishReason, FinishReason>> = {
  stop: "stop",
  length: "length",
  "content-filter": "content_filter",
  "tool-calls": "tool_calls",
  pause: "pause",
  error: "stop",
  other: "stop",
  unknown: "stop"
}

export const usageOf = ({ inputTokens, outputTokens }: Response.FinishPart["usage"]): Usage.Usage => ({
  promptTokens: inputTokens.total ?? null,
  completionTokens: outputTokens.total ?? null,
  cachedTokens: inputTokens.cacheRead ?? null,
  cacheWriteTokens: inputTokens.cacheWrite ?? null,
  reasoningTokens: outputTokens.reasoning ?? null
})

/** A part as its provider's package encoded it; null = it is of a stream, and its joined part stands for it. */
export const encoded = (part: AnyPart): Part | null => {
  const { metadata } = part
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text, metadata }
    case "reasoning":
      return { type: "reasoning", text: part.text, metadata }
    case "tool-call": {
      const { id, name, params, providerExecuted } = part
      return { type: "tool-call", id, name, params, providerExecuted, metadata }
    }
    case "tool-result": {
      const { id, name, encodedResult, isFailure, providerExecuted, preliminary } = part
      return {
        type: "tool-result",
        id,
        name,
        result: encodedResult,
        isFailure,
        providerExecuted,
        preliminary,
        metadata
      }
    }
    case "file":
      return { type: "file", mediaType: part.mediaType, data: Base64.encode(part.data), metadata }
    case "source": {
      const { "~effect/ai/Response/Part": _, ...rest } = part
      return "url" in rest ? { ...rest, url: rest.url.href } : (rest as Response.DocumentSourcePartEncoded)
    }
    case "response-metadata": {
      const { id, modelId, timestamp } = part
      return {
        type: "response-metadata",
        id,
        modelId,
        timestamp: timestamp === undefined ? undefined : DateTime.formatIso(timestamp),
        metadata
      }
    }
    case "finish": {
      const { inputTokens, outputTokens } = part.usage
      return {
        type: "finish",
        reason: part.reason,
        usage: { inputTokens, outputTokens },
        response: undefined,
        metadata
      }
    }
    default:
      return null
  }
}

const isOwnCall = (part: Part): part is Response.ToolCallPartEncoded =>
  part.type === "tool-call" && part.providerExecuted !== true

const callsOf = (parts: ReadonlyArray<Part>): ReadonlyArray<ToolCall> =>
  parts.filter(isOwnCall).map(({ id, name, params }) => ({ id, name, arguments: JSON.stringify(params) ?? "{}" }))

const joinedOf = (parts: ReadonlyArray<Part>, type: "text" | "reasoning"): string | null => {
  const text = parts.map((part) => (part.type === type ? part.text : "")).join("")
  return text === "" ? null : text
}

/** The reply that parts make; they stand in its details, for the caller. */
export const replyOf = (
  parts: ReadonlyArray<Part>,
  usage: Usage.Usage,
  reason: Response.FinishReason,
  model: string
): ModelReply => ({
  text: joinedOf(parts, "text"),
  refusal: null,
  reasoning: joinedOf(parts, "reasoning"),
  reasoningParts: [],
  toolCalls: callsOf(parts),
  finishReason: reasons[reason],
  usage,
  model,
  servedModel: parts.find((part) => part.type === "response-metadata")?.modelId ?? null,
  providerRequestId: null,
  warnings: [],
  details: wrappedDetails(parts)
})

/** Whether a reply holds anything at all: an empty one is no answer. */
export const isEmpty = (parts: ReadonlyArray<Part>): boolean =>
  !parts.some(
    (part) =>
      (part.type === "text" && part.text !== "") ||
      part.type === "tool-call" ||
      part.type === "tool-result" ||
      part.type === "file"
  )

/** A stream of a wrapped LanguageModel as it is read. */
export class WrappedStream {
  private readonly parts: Array<Part> = []
  /** Texts and reasoning that are open, by their ids, where they stand among the parts. */
  private readonly open = new Map<string, number>()
  private usage: Usage.Usage = Usage.unknown
  /** null = the stream has not said how it ends. */
  reason: Response.FinishReason | null = null
  private readonly model: string

  constructor(model: string) {
    this.model = model
  }

  /** Takes one part that is no error; what recovery sees of it. */
  take(part: AnyPart): ModelPart {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        this.begin(part.type === "text-start" ? "text" : "reasoning", part.id, part.metadata)
        return { _tag: "Life" }
      case "text-delta":
        this.add("text", part.id, part.delta, part.metadata)
        return { _tag: "Text", text: part.delta }
      case "reasoning-delta":
        this.add("reasoning", part.id, part.delta, part.metadata)
        return { _tag: "Reasoning", text: part.delta }
      case "text-end":
      case "reasoning-end":
        this.add(part.type === "text-end" ? "text" : "reasoning", part.id, "", part.metadata)
        this.open.delete(`${part.type === "text-end" ? "text" : "reasoning"} ${part.id}`)
        return { _tag: "Life" }
      case "tool-params-start":
      case "tool-params-delta":
        return { _tag: "ToolCallDelta" }
      default:
        return this.whole(part)
    }
  }

  private begin(type: "text" | "reasoning", id: string, metadata: Response.ProviderMetadata): void {
    this.open.set(`${type} ${id}`, this.parts.length)
    this.parts.push({ type, text: "", metadata: { ...metadata } })
  }

  private add(type: "text" | "reasoning", id: string, delta: string, metadata: Response.ProviderMetadata): void {
    const key = `${type} ${id}`
    if (!this.open.has(key)) this.begin(type, id, {})
    const at = this.open.get(key) ?? -1
    const part = this.parts[at]
    if (part === undefined || part.type !== type) return
    this.parts[at] = { type, text: part.text + delta, metadata: { ...part.metadata, ...metadata } }
  }

  private whole(part: AnyPart): ModelPart {
    const kept = encoded(part)
    if (kept === null) return { _tag: "Life" }
    this.parts.push(kept)
    if (part.type === "finish") {
      this.reason = part.reason
      this.usage = usageOf(part.usage)
      return { _tag: "Usage", usage: this.usage }
    }
    const [call] = callsOf([kept])
    return call === undefined ? { _tag: "Life" } : { _tag: "ToolCall", call }
  }

  isEmpty(): boolean {
    return isEmpty(this.parts)
  }

  reply(): ModelReply {
    return replyOf(this.parts, this.usage, this.reason ?? "unknown", this.model)
  }
}
