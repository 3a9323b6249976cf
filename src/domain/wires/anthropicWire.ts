/**
 * Anthropic's messages wire: from a request to a body, from a body or events to a validated reply. Pure; knows no SDK
 * and no socket. The history keeps OpenAI's shape; it is mapped on the way out and back.
 */
import * as Result from "effect/Result"
import { finishReasonOf, inBandFault, type Verdict } from "../provider/classify.ts"
import { isCount, isObject, parse, type Json } from "../chat/json.ts"
import {
  isAssistant,
  isSystem,
  textOf,
  withoutForeign,
  type AssistantMessage,
  type ContentPart,
  type Message,
  type ReasoningPart,
  type ToolSpec
} from "../chat/Message.ts"
import type { FinishReason, ModelPart, ModelReply, ToolCall } from "../chat/ModelReply.ts"
import type { WireRequest } from "../chat/ModelRequest.ts"
import { place, type CacheMarkers, type CacheTtl } from "../chat/PromptCache.ts"
import * as Usage from "../chat/Usage.ts"
import type { EventReader } from "./EventReader.ts"
import { empty, flaw, flawOfCalls, isFlaw, type Flaw, type ReadContext } from "./wireReply.ts"

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

/** Parts in OpenAI's shape are mapped; parts in Anthropic's own pass through. Empty texts are refused there: left out. */
const partBlock = (part: ContentPart): ReadonlyArray<Json> => {
  if (part.type === "text") return part["text"] === "" ? [] : [part]
  if (part.type === "image_url" && isObject(part["image_url"]) && typeof part["image_url"]["url"] === "string")
    return [imageBlock(part["image_url"]["url"])]
  if (part.type === "file" && isObject(part["file"]) && typeof part["file"]["file_data"] === "string") {
    const found = dataUrl.exec(part["file"]["file_data"])
    if (found !== null) return [{ type: "document", source: { type: "base64", media_type: found[1], data: found[2] } }]
  }
  return [part]
}

const contentBlocks = (content: string | ReadonlyArray<ContentPart> | null | undefined): ReadonlyArray<Json> => {
  if (content === null || content === undefined || content === "") return []
  return typeof content === "string" ? [{ type: "text", text: content }] : content.flatMap(partBlock)
}

/** Only signed or sealed thinking can be sent back. */
const thinkingBlock = (part: ReasoningPart): ReadonlyArray<Json> => {
  if (typeof part["data"] === "string") return [{ type: "redacted_thinking", data: part["data"] }]
  return part.signature === undefined ? [] : [{ type: "thinking", thinking: part.text, signature: part.signature }]
}

/** Arguments the model broke cannot travel as an object; the tool's error result tells the rest. */
const inputOf = (args: string): Json => {
  const parsed = parse(args)
  return Result.isSuccess(parsed) && isObject(parsed.success) ? parsed.success : {}
}

const assistantBlocks = (message: AssistantMessage): ReadonlyArray<Json> => [
  ...(message.reasoning_parts ?? []).flatMap(thinkingBlock),
  ...contentBlocks(message.content ?? message.refusal),
  ...(message.tool_calls ?? []).map((call) => ({
    type: "tool_use",
    id: call.id,
    name: call.function.name,
    input: inputOf(call.function.arguments)
  }))
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

interface Turn {
  readonly role: "user" | "assistant"
  readonly content: ReadonlyArray<Json>
}

/** Results and user texts in a row are one turn, as are fragments of the assistant. */
const turnsOf = (messages: ReadonlyArray<Message>, leading: number, markers: CacheMarkers): ReadonlyArray<Turn> => {
  const turns: Array<Turn> = []
  for (const [index, message] of messages.entries()) {
    if (index < leading) continue
    const ttl = markers.messages.find((mark) => mark.index === index)?.ttl ?? null
    const content = marked(blocksOf(message), ttl)
    if (content.length === 0) continue
    const role = isAssistant(message) ? "assistant" : "user"
    const last = turns.at(-1)
    if (last?.role === role) turns[turns.length - 1] = { role, content: [...last.content, ...content] }
    else turns.push({ role, content })
  }
  return turns
}

const toTool = (tool: ToolSpec): Json => ({
  name: tool.function.name,
  ...(tool.function.description === undefined ? {} : { description: tool.function.description }),
  input_schema: tool.function.parameters ?? { type: "object", properties: {} }
})

const toolChoice = (choice: unknown, isParallel: unknown): Json => {
  const single = isParallel === false ? { disable_parallel_tool_use: true } : {}
  if (choice === "none") return { tool_choice: { type: "none" } }
  if (choice === "required") return { tool_choice: { type: "any", ...single } }
  if (isObject(choice) && isObject(choice["function"]))
    return { tool_choice: { type: "tool", name: choice["function"]["name"], ...single } }
  if (isObject(choice)) return { tool_choice: { ...choice, ...single } }
  return isParallel === false ? { tool_choice: { type: "auto", ...single } } : {}
}

/** This API demands a budget: sent where the policy has none. */
const demandedTokens = 8_000

/** The JSON body. Fields of the caller pass through; those OpenAI spells otherwise are translated. */
export const toBody = (request: WireRequest, cacheTtl: CacheTtl | null, stream: boolean): Json => {
  const {
    max_tokens: _,
    max_completion_tokens: __,
    stream_options: ___,
    stop,
    tool_choice: choice,
    parallel_tool_calls: isParallel,
    ...params
  } = request.params ?? {}
  const messages = withoutForeign(request.messages, request.model)
  const tools = request.tools ?? []
  const markers = place({ messages, tools }, { markers: true, ttl: cacheTtl })
  const firstOther = messages.findIndex((message) => !isSystem(message))
  const leading = firstOther === -1 ? messages.length : firstOther
  const system = messages.slice(0, leading).flatMap((message) => {
    const text = textOf(message)
    return text === "" ? [] : [{ type: "text", text }]
  })
  return {
    ...params,
    ...(stop === undefined ? {} : { stop_sequences: Array.isArray(stop) ? stop : [stop] }),
    ...(tools.length === 0 ? {} : toolChoice(choice, isParallel)),
    model: request.model,
    max_tokens: request.maxOutputTokens ?? demandedTokens,
    ...(system.length === 0 ? {} : { system: marked(system, markers.system) }),
    messages: turnsOf(messages, leading, markers),
    ...(tools.length === 0 ? {} : { tools: marked(tools.map(toTool), markers.tools) }),
    ...(stream ? { stream: true } : {})
  }
}

/** Usage as reported. Anthropic counts cached and cache-write tokens beside the input; here they are parts of it. */
export const readUsage = (raw: unknown): Usage.Usage | null | Flaw => {
  if (raw === undefined || raw === null) return null
  if (!isObject(raw)) return flaw("usage_not_an_object")
  const counts: Record<string, number | null> = {}
  for (const key of ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]) {
    const value = raw[key]
    if (value !== undefined && value !== null && !isCount(value)) return flaw("usage_not_a_count")
    counts[key] = isCount(value) ? value : null
  }
  const input = counts["input_tokens"] ?? null
  const cached = counts["cache_read_input_tokens"] ?? null
  const written = counts["cache_creation_input_tokens"] ?? null
  return {
    promptTokens: input === null ? null : input + (cached ?? 0) + (written ?? 0),
    completionTokens: counts["output_tokens"] ?? null,
    cachedTokens: cached,
    cacheWriteTokens: written,
    reasoningTokens: null
  }
}

/** One content block, whole. */
interface Block {
  readonly type: string
  text: string
  signature: string | null
  data: string | null
  id: string
  name: string
  /** JSON text of a tool's input. */
  args: string
}

const textAt = (object: Json, key: string): string => {
  const value = object[key]
  return typeof value === "string" ? value : ""
}

const blockOf = (raw: unknown): Block | null => {
  if (!isObject(raw) || typeof raw["type"] !== "string") return null
  return {
    type: raw["type"],
    text: textAt(raw, "text") + textAt(raw, "thinking"),
    signature: textAt(raw, "signature") === "" ? null : textAt(raw, "signature"),
    data: textAt(raw, "data") === "" ? null : textAt(raw, "data"),
    id: textAt(raw, "id"),
    name: textAt(raw, "name"),
    args: isObject(raw["input"]) && Object.keys(raw["input"]).length > 0 ? JSON.stringify(raw["input"]) : ""
  }
}

/** A tool without arguments sends no JSON at all: an empty object. */
const callOf = (block: Block): ToolCall => ({
  id: block.id,
  name: block.name,
  arguments: block.args === "" ? "{}" : block.args
})

const reasoningPartOf = (block: Block, model: string): ReadonlyArray<ReasoningPart> => {
  if (block.data !== null) return [{ model, text: "", data: block.data }]
  if (block.text === "" && block.signature === null) return []
  return [{ model, text: block.text, ...(block.signature === null ? {} : { signature: block.signature }) }]
}

const knownBlocks: ReadonlySet<string> = new Set(["text", "thinking", "redacted_thinking", "tool_use"])

const joined = (blocks: ReadonlyArray<Block>, type: string): string =>
  blocks.map((block) => (block.type === type ? block.text : "")).join("")

const toReply = (
  context: ReadContext,
  blocks: ReadonlyArray<Block>,
  finishReason: FinishReason,
  usage: Usage.Usage | null,
  servedModel: string | null
): ModelReply | Flaw => {
  const calls = blocks.filter((block) => block.type === "tool_use").map(callOf)
  const cut = flawOfCalls(calls, finishReason, usage)
  if (cut !== null) return cut
  const text = joined(blocks, "text")
  const isRefusal = finishReason === "refusal"
  if (text === "" && calls.length === 0 && finishReason === "stop") return empty(usage)
  if (calls.length === 0 && finishReason === "tool_calls") return flaw("tool_calls_missing", usage)
  const thinking = blocks.filter((block) => block.type === "thinking" || block.type === "redacted_thinking")
  const reasoning = joined(blocks, "thinking")
  const others = blocks.filter((block) => !knownBlocks.has(block.type)).length
  return {
    text: isRefusal || text === "" ? null : text,
    refusal: isRefusal ? text : null,
    reasoning: reasoning === "" ? null : reasoning,
    reasoningParts: thinking.flatMap((block) => reasoningPartOf(block, context.model)),
    toolCalls: calls,
    finishReason,
    usage: usage ?? Usage.unknown,
    model: context.model,
    servedModel,
    providerRequestId: context.requestId,
    warnings: others === 0 ? [] : [`${others} parts of the reply are of a kind that is not kept.`]
  }
}

/** A body of a 200 as a reply, or what is wrong with it: a flaw, or an error inside the 200. */
export const readBody = (
  context: ReadContext,
  text: string,
  headers: Readonly<Record<string, string>>
): Result.Result<ModelReply, Flaw | Verdict> => {
  if (text.trim() === "") return Result.fail(empty())
  const parsed = parse(text)
  if (Result.isFailure(parsed)) return Result.fail(flaw("not_json"))
  const body = parsed.success
  const fault = inBandFault(context.profile, { status: 200, headers, body })
  if (fault !== null) return Result.fail(fault)
  const reply = readMessage(context, body)
  return isFlaw(reply) ? Result.fail(reply) : Result.succeed(reply)
}

const readMessage = (context: ReadContext, body: unknown): ModelReply | Flaw => {
  if (!isObject(body) || body["type"] !== "message") return flaw("not_a_message")
  const usage = readUsage(body["usage"])
  if (isFlaw(usage)) return usage
  if (body["role"] !== "assistant") return flaw("role_not_assistant", usage)
  if (!Array.isArray(body["content"])) return flaw("content_not_a_list", usage)
  const blocks = body["content"].map(blockOf)
  const whole = blocks.filter((block) => block !== null)
  if (whole.length !== blocks.length) return flaw("content_block_unknown", usage)
  const reason = body["stop_reason"]
  const finishReason = typeof reason === "string" ? finishReasonOf(context.profile, reason) : null
  if (finishReason === null) return flaw("finish_reason_unknown", usage)
  return toReply(context, whole, finishReason, usage, textAt(body, "model") === "" ? null : textAt(body, "model"))
}

/** Events of one stream, as they come. */
class MessageReader implements EventReader {
  private readonly context: ReadContext
  private readonly headers: Readonly<Record<string, string>>
  readonly parts: Array<ModelPart> = []
  private readonly blocks = new Map<number, Block>()
  private readonly announced = new Set<number>()
  finishReason: FinishReason | null = null
  usage: Usage.Usage | null = null
  private servedModel: string | null = null
  /** `message_stop` was read. */
  done = false

  constructor(context: ReadContext, headers: Readonly<Record<string, string>>) {
    this.context = context
    this.headers = headers
  }

  reply(finishReason: FinishReason): ModelReply | Flaw {
    const reply = toReply(this.context, [...this.blocks.values()], finishReason, this.usage, this.servedModel)
    if (!isFlaw(reply) && finishReason !== "length") for (const index of this.blocks.keys()) this.announce(index)
    return reply
  }

  private announce(index: number): void {
    const block = this.blocks.get(index)
    if (block === undefined || block.type !== "tool_use" || this.announced.has(index)) return
    this.announced.add(index)
    this.parts.push({ _tag: "ToolCall", call: callOf(block) })
  }

  onEvent(_name: string | undefined, data: string): Flaw | Verdict | null {
    if (data.trim() === "[DONE]") return null
    const parsed = parse(data)
    const event = Result.isSuccess(parsed) ? parsed.success : null
    if (!isObject(event)) return flaw("event_not_json", this.usage)
    return inBandFault(this.context.profile, { status: 200, headers: this.headers, body: event }) ?? this.read(event)
  }

  private read(event: Json): Flaw | null {
    const index = typeof event["index"] === "number" ? event["index"] : -1
    switch (event["type"]) {
      case "message_start": {
        const message = isObject(event["message"]) ? event["message"] : {}
        if (textAt(message, "model") !== "") this.servedModel = textAt(message, "model")
        return this.onUsage(message["usage"])
      }
      case "content_block_start": {
        const block = blockOf(event["content_block"])
        if (block === null) return flaw("content_block_unknown", this.usage)
        this.blocks.set(index, block)
        if (block.type === "text" && block.text !== "") this.parts.push({ _tag: "Text", text: block.text })
        if (block.type === "tool_use") this.parts.push({ _tag: "ToolCallDelta" })
        return null
      }
      case "content_block_delta":
        return this.onDelta(index, isObject(event["delta"]) ? event["delta"] : {})
      case "content_block_stop": {
        const block = this.blocks.get(index)
        // A call that the budget cut is closed like any other: only whole JSON is announced.
        if (block !== undefined && Result.isSuccess(parse(callOf(block).arguments))) this.announce(index)
        return null
      }
      case "message_delta": {
        const reason = isObject(event["delta"]) ? event["delta"]["stop_reason"] : null
        if (typeof reason === "string") {
          this.finishReason = finishReasonOf(this.context.profile, reason)
          if (this.finishReason === null) return flaw("finish_reason_unknown", this.usage)
        }
        return this.onUsage(event["usage"])
      }
      case "message_stop":
        this.done = true
        return null
      default:
        return null
    }
  }

  private onUsage(raw: unknown): Flaw | null {
    const usage = readUsage(raw)
    if (isFlaw(usage)) return usage
    if (usage === null) return null
    this.usage = this.usage === null ? usage : Usage.update(this.usage, usage)
    this.parts.push({ _tag: "Usage", usage: this.usage })
    return null
  }

  private onDelta(index: number, delta: Json): Flaw | null {
    const block = this.blocks.get(index)
    if (block === undefined) return flaw("delta_without_block", this.usage)
    switch (delta["type"]) {
      case "text_delta":
        block.text += textAt(delta, "text")
        this.parts.push({ _tag: "Text", text: textAt(delta, "text") })
        return null
      case "thinking_delta":
        block.text += textAt(delta, "thinking")
        this.parts.push({ _tag: "Reasoning", text: textAt(delta, "thinking") })
        return null
      case "signature_delta":
        block.signature = (block.signature ?? "") + textAt(delta, "signature")
        return null
      case "input_json_delta":
        block.args += textAt(delta, "partial_json")
        this.parts.push({ _tag: "ToolCallDelta" })
        return null
      default:
        return null
    }
  }
}

/** Assembles the events of one stream. */
export const eventReaderOf = (context: ReadContext, headers: Readonly<Record<string, string>>): EventReader =>
  new MessageReader(context, headers)
