/**
 * OpenAI's chat wire: from a request to a body, from a body or chunks to a validated reply. Pure; knows no SDK and no
 * socket. A 200 is not a success until it has been read here.
 */
import * as Result from "effect/Result"
import { finishReasonOf, inBandFault, type Verdict } from "../provider/classify.ts"
import { isCount, isObject, isText, parse, type Json } from "../chat/json.ts"
import type { Message } from "../chat/Message.ts"
import type { FinishReason, ModelPart, ModelReply, ToolCall } from "../chat/ModelReply.ts"
import type { WireRequest } from "../chat/ModelRequest.ts"
import type { BudgetParam, ProviderProfile } from "../provider/ProviderProfile.ts"
import * as Usage from "../chat/Usage.ts"
import type { EventReader } from "./EventReader.ts"
import { empty, flaw, flawOfCalls, isFlaw, type Flaw, type ReadContext } from "./wireReply.ts"

/** Wire name of the output budget for a model of this profile. */
export const budgetParamOf = (profile: ProviderProfile, model: string): BudgetParam => {
  const isOther = profile.completionTokenModels.some((prefix) => model.startsWith(prefix))
  if (!isOther) return profile.budgetParam
  return profile.budgetParam === "max_tokens" ? "max_completion_tokens" : "max_tokens"
}

/** Usage is ours and never travels. */
const toWire = (message: Message): unknown => {
  if (message.role !== "assistant" || message.usage === undefined) return message
  const { usage: _, ...rest } = message
  return rest
}

/** The JSON body. Unknown fields of the caller pass through; model, messages and budget are the request's own. */
export const toBody = (request: WireRequest, budgetParam: BudgetParam, stream: boolean): Json => {
  const { max_tokens: _, max_completion_tokens: __, ...params } = request.params ?? {}
  return {
    ...params,
    model: request.model,
    messages: request.messages.map(toWire),
    ...(request.tools === undefined || request.tools.length === 0 ? {} : { tools: request.tools }),
    [budgetParam]: request.maxOutputTokens,
    ...(stream ? { stream: true, stream_options: params["stream_options"] ?? { include_usage: true } } : {})
  }
}

/** A count that may be absent; a value that is there and is no count is a flaw. */
const countAt = (object: Json, key: string): number | null | Flaw => {
  const value = object[key]
  if (value === undefined || value === null) return null
  return isCount(value) ? value : flaw("usage_not_a_count")
}

/** Usage as reported; absent counts are unknown. null when there is no usage object. */
export const readUsage = (raw: unknown): Usage.Usage | null | Flaw => {
  if (raw === undefined || raw === null) return null
  if (!isObject(raw)) return flaw("usage_not_an_object")
  const prompt = isObject(raw["prompt_tokens_details"]) ? raw["prompt_tokens_details"] : {}
  const completion = isObject(raw["completion_tokens_details"]) ? raw["completion_tokens_details"] : {}
  const counts = [
    countAt(raw, "prompt_tokens"),
    countAt(raw, "completion_tokens"),
    countAt(prompt, "cached_tokens"),
    countAt(prompt, "cache_creation_tokens"),
    countAt(completion, "reasoning_tokens"),
    countAt(raw, "total_tokens")
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

/** A text that may be absent or null; undefined = something else stands there. */
const textAt = (object: Json, key: string): string | null | undefined => {
  const value = object[key]
  if (value === undefined || value === null) return null
  return isText(value) ? value : undefined
}

const readCalls = (raw: unknown): ReadonlyArray<ToolCall> | Flaw => {
  if (raw === undefined || raw === null) return []
  if (!Array.isArray(raw)) return flaw("tool_calls_not_a_list")
  const calls: Array<ToolCall> = []
  for (const entry of raw) {
    const call = readCall(entry)
    if (call === null) return flaw("tool_call_not_whole")
    calls.push(call)
  }
  return calls
}

const readCall = (raw: unknown): ToolCall | null => {
  if (!isObject(raw) || !isText(raw["id"]) || raw["id"] === "" || !isObject(raw["function"])) return null
  const { name, arguments: args } = raw["function"]
  if (!isText(name) || name === "" || !isText(args)) return null
  return { id: raw["id"], name, arguments: args }
}

/** Fields of the message that have a place of their own; all others are kept for the history. */
const known = new Set([
  "role",
  "content",
  "refusal",
  "tool_calls",
  "function_call",
  "reasoning_content",
  "reasoning",
  "reasoning_parts"
])

const extraOf = (message: Json): Json | undefined => {
  const extra = Object.fromEntries(Object.entries(message).filter(([key, value]) => !known.has(key) && value !== null))
  return Object.keys(extra).length === 0 ? undefined : extra
}

/** What a reply is made of, whether it came as one body or in chunks. */
interface Pieces {
  readonly text: string | null
  readonly refusal: string | null
  readonly reasoning: string | null
  readonly toolCalls: ReadonlyArray<ToolCall>
  readonly finishReason: FinishReason
  readonly usage: Usage.Usage | null
  readonly servedModel: string | null
  readonly warnings: ReadonlyArray<string>
  readonly extra: Json | undefined
}

/** The last checks, the same for bodies and streams. */
const toReply = (context: ReadContext, pieces: Pieces): ModelReply | Flaw => {
  const text = pieces.refusal === null ? pieces.text : null
  const hasNothing = (text === null || text === "") && pieces.refusal === null && pieces.toolCalls.length === 0
  if (hasNothing && pieces.finishReason === "stop") return empty(pieces.usage)
  if (hasNothing && pieces.finishReason === "tool_calls") return flaw("tool_calls_missing", pieces.usage)
  return {
    text: text === "" && pieces.toolCalls.length > 0 ? null : text,
    refusal: pieces.refusal,
    reasoning: pieces.reasoning,
    reasoningParts: [],
    toolCalls: pieces.toolCalls,
    finishReason: pieces.finishReason,
    usage: pieces.usage ?? Usage.unknown,
    model: context.model,
    servedModel: pieces.servedModel,
    requestId: context.requestId,
    warnings: pieces.warnings,
    ...(pieces.extra === undefined ? {} : { extra: pieces.extra })
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
  if (body === null) return Result.fail(flaw("not_an_object"))
  const fault = inBandFault(context.profile, { status: 200, headers, body })
  if (fault !== null) return Result.fail(fault)
  const reply = readCompletion(context, body)
  return isFlaw(reply) ? Result.fail(reply) : Result.succeed(reply)
}

const readCompletion = (context: ReadContext, body: unknown): ModelReply | Flaw => {
  if (!isObject(body)) return flaw("not_an_object")
  const usage = readUsage(body["usage"])
  if (isFlaw(usage)) return usage
  const choices = body["choices"]
  if (!Array.isArray(choices)) return flaw("choices_missing", usage)
  if (choices.length !== 1) return flaw(choices.length === 0 ? "no_choices" : "several_choices", usage)
  const choice: unknown = choices[0]
  if (!isObject(choice) || !isObject(choice["message"])) return flaw("message_missing", usage)
  const message = choice["message"]
  if (message["role"] !== "assistant") return flaw("role_not_assistant", usage)
  if (message["function_call"] !== undefined && message["function_call"] !== null)
    return flaw("legacy_function_call", usage)
  const rawReason = choice["finish_reason"]
  const finishReason = isText(rawReason) ? finishReasonOf(context.profile, rawReason) : null
  if (finishReason === null) return flaw("finish_reason_unknown", usage)
  const content = textAt(message, "content")
  if (content === undefined) return flaw("content_not_text", usage)
  const refusal = textAt(message, "refusal")
  if (refusal === undefined) return flaw("refusal_not_text", usage)
  const toolCalls = readCalls(message["tool_calls"])
  if (isFlaw(toolCalls)) return { ...toolCalls, usage }
  return toReply(context, {
    text: content,
    refusal: refusal === "" ? null : refusal,
    reasoning: textAt(message, "reasoning_content") ?? textAt(message, "reasoning") ?? null,
    toolCalls,
    finishReason,
    usage,
    servedModel: textAt(body, "model") ?? null,
    warnings: [],
    extra: extraOf(message)
  })
}

/** Follows JSON text as it grows and knows when the outermost value has closed. */
class JsonScanner {
  private depth = 0
  private inString = false
  private escaped = false
  private begun = false
  closed = false
  /** Something other than white space followed the closed value. */
  overrun = false

  feed(text: string): void {
    for (let index = 0; index < text.length; index += 1) {
      const char = text[index]
      if (this.inString) {
        if (this.escaped) this.escaped = false
        else if (char === "\\") this.escaped = true
        else if (char === '"') this.inString = false
        continue
      }
      if (char === " " || char === "\n" || char === "\r" || char === "\t") continue
      if (this.closed) {
        this.overrun = true
        return
      }
      if (char === '"') this.inString = true
      else if (char === "{" || char === "[") {
        this.depth += 1
        this.begun = true
      } else if (char === "}" || char === "]") {
        this.depth -= 1
        if (this.begun && this.depth === 0) this.closed = true
      }
    }
  }
}

interface Slot {
  id: string
  name: string
  args: string
  announced: boolean
  readonly scanner: JsonScanner
}

const callOf = (slot: Slot): ToolCall => ({ id: slot.id, name: slot.name, arguments: slot.args })

/** Chunks of one stream, as they come. */
class ChunkReader implements EventReader {
  private readonly context: ReadContext
  private readonly headers: Readonly<Record<string, string>>
  readonly parts: Array<ModelPart> = []
  private text = ""
  private sawText = false
  private reasoning = ""
  private refusal = ""
  private readonly slots = new Map<number, Slot>()
  finishReason: FinishReason | null = null
  usage: Usage.Usage | null = null
  private servedModel: string | null = null
  private skipped = 0
  private extra: Record<string, unknown> = {}
  /** `[DONE]` was read. */
  done = false

  constructor(context: ReadContext, headers: Readonly<Record<string, string>>) {
    this.context = context
    this.headers = headers
  }

  reply(finishReason: FinishReason): ModelReply | Flaw {
    const slots = [...this.slots.values()]
    const toolCalls = slots.map(callOf)
    if (finishReason !== "length" && slots.some((slot) => slot.scanner.overrun))
      return flaw("tool_call_not_whole", this.usage)
    const cut = flawOfCalls(toolCalls, finishReason, this.usage)
    if (cut !== null) return cut
    if (finishReason !== "length") for (const slot of slots) if (!slot.announced) this.announce(slot)
    return toReply(this.context, {
      text: this.sawText ? this.text : null,
      refusal: this.refusal === "" ? null : this.refusal,
      reasoning: this.reasoning === "" ? null : this.reasoning,
      toolCalls,
      finishReason,
      usage: this.usage,
      servedModel: this.servedModel,
      warnings: this.skipped === 0 ? [] : ["One chunk of the stream was not JSON and was skipped; the rest was whole."],
      extra: Object.keys(this.extra).length === 0 ? undefined : this.extra
    })
  }

  private announce(slot: Slot): void {
    slot.announced = true
    this.parts.push({ _tag: "ToolCall", call: callOf(slot) })
  }

  onEvent(name: string | undefined, data: string): Flaw | Verdict | null {
    if (data.trim() === "[DONE]") {
      this.done = true
      return null
    }
    const parsed = parse(data)
    if (Result.isFailure(parsed)) {
      this.skipped += 1
      return this.skipped > 1 || name === "error" ? flaw("chunk_not_json", this.usage) : null
    }
    const chunk = parsed.success
    const isError = name === "error" && isObject(chunk) && !("error" in chunk)
    const verdict = inBandFault(this.context.profile, {
      status: 200,
      headers: this.headers,
      body: isError ? { error: chunk } : chunk
    })
    return verdict ?? this.onChunk(chunk)
  }

  private onChunk(chunk: unknown): Flaw | null {
    if (!isObject(chunk)) return flaw("chunk_not_an_object", this.usage)
    const model = chunk["model"]
    if (isText(model) && model !== "") this.servedModel = model
    const usage = readUsage(chunk["usage"])
    if (isFlaw(usage)) return usage
    if (usage !== null) {
      this.usage = this.usage === null ? usage : Usage.update(this.usage, usage)
      this.parts.push({ _tag: "Usage", usage: this.usage })
    }
    const choices = chunk["choices"]
    if (choices === undefined || choices === null) return null
    if (!Array.isArray(choices)) return flaw("choices_not_a_list", this.usage)
    if (choices.length === 0) return null
    const choice: unknown = choices[0]
    if (choices.length > 1 || !isObject(choice)) return flaw("several_choices", this.usage)
    if (choice["index"] !== undefined && choice["index"] !== 0) return flaw("several_choices", this.usage)
    const problem = this.onDelta(choice["delta"])
    if (problem !== null) return problem
    const reason = choice["finish_reason"]
    if (reason === undefined || reason === null || reason === "") return null
    const finishReason = isText(reason) ? finishReasonOf(this.context.profile, reason) : null
    if (finishReason === null) return flaw("finish_reason_unknown", this.usage)
    this.finishReason ??= finishReason
    return null
  }

  private onDelta(delta: unknown): Flaw | null {
    if (delta === undefined || delta === null) return null
    if (!isObject(delta)) return flaw("delta_not_an_object", this.usage)
    if (delta["role"] !== undefined && delta["role"] !== null && delta["role"] !== "" && delta["role"] !== "assistant")
      return flaw("role_not_assistant", this.usage)
    if (delta["function_call"] !== undefined && delta["function_call"] !== null)
      return flaw("legacy_function_call", this.usage)
    const reasoning = textAt(delta, "reasoning_content") ?? textAt(delta, "reasoning")
    if (isText(reasoning) && reasoning !== "") {
      this.reasoning += reasoning
      this.parts.push({ _tag: "Reasoning", text: reasoning })
    }
    const content = textAt(delta, "content")
    if (content === undefined) return flaw("content_not_text", this.usage)
    if (content !== null) {
      this.sawText = true
      if (content !== "") {
        this.text += content
        this.parts.push({ _tag: "Text", text: content })
      }
    }
    const refusal = textAt(delta, "refusal")
    if (refusal === undefined) return flaw("refusal_not_text", this.usage)
    if (refusal !== null) this.refusal += refusal
    const calls = delta["tool_calls"]
    if (calls === undefined || calls === null) return null
    if (!Array.isArray(calls)) return flaw("tool_calls_not_a_list", this.usage)
    for (const call of calls) {
      const problem = this.onCall(call)
      if (problem !== null) return problem
    }
    return null
  }

  /** Index of a fragment; providers that send none begin a new call with a new id. */
  private indexOf(call: Json): number {
    const index = call["index"]
    if (isCount(index)) return index
    const id = call["id"]
    if (isText(id) && id !== "") {
      for (const [at, slot] of this.slots) if (slot.id === id) return at
      return this.slots.size
    }
    return Math.max(0, this.slots.size - 1)
  }

  private onCall(call: unknown): Flaw | null {
    if (!isObject(call)) return flaw("tool_call_not_an_object", this.usage)
    const index = this.indexOf(call)
    let slot = this.slots.get(index)
    if (slot === undefined) {
      slot = { id: "", name: "", args: "", announced: false, scanner: new JsonScanner() }
      this.slots.set(index, slot)
    }
    const id = textAt(call, "id")
    if (id === undefined) return flaw("tool_call_not_whole", this.usage)
    if (id !== null && slot.id === "") slot.id = id
    const fn = call["function"]
    if (fn !== undefined && fn !== null) {
      if (!isObject(fn)) return flaw("tool_call_not_whole", this.usage)
      const name = textAt(fn, "name")
      const args = textAt(fn, "arguments")
      if (name === undefined || args === undefined) return flaw("tool_call_not_whole", this.usage)
      if (name !== null && slot.name === "") slot.name = name
      if (args !== null) {
        slot.args += args
        slot.scanner.feed(args)
      }
    }
    this.parts.push({ _tag: "ToolCallDelta" })
    if (slot.scanner.closed && !slot.scanner.overrun && !slot.announced && slot.id !== "" && slot.name !== "")
      this.announce(slot)
    return slot.announced && slot.scanner.overrun ? flaw("tool_call_not_whole", this.usage) : null
  }
}

/** Assembles the chunks of one stream. */
export const eventReaderOf = (context: ReadContext, headers: Readonly<Record<string, string>>): EventReader =>
  new ChunkReader(context, headers)
