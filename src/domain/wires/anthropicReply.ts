/** A message of Anthropic's wire as a validated reply: its blocks, whether they came whole or in events. Pure. */
import * as Result from "effect/Result"
import { isCount, isObject, isText, parse, parsedObject, type Json } from "../chat/json.ts"
import type { ReasoningPart } from "../chat/Message.ts"
import type { FinishReason, ModelReply, ToolCall } from "../chat/ModelReply.ts"
import * as Usage from "../chat/Usage.ts"
import { finishReasonOf, inBandFault, type Verdict } from "../provider/classify.ts"
import { further, someOf } from "./furtherFields.ts"
import {
  bodyFlaw,
  Deviations,
  empty,
  emptyBody,
  flaw,
  flawOfCalls,
  isFlaw,
  madeCallId,
  unknownFinish,
  type CallReading,
  type Flaw,
  type HeaderMap,
  type ReadContext
} from "./wireReply.ts"

const countKeys = ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]

/** Usage as reported. Anthropic counts cached and cache-write tokens beside the input; here they are parts of it. */
export const readUsage = (context: ReadContext, deviations: Deviations, raw: unknown): Usage.Usage | null | Flaw => {
  if (raw === undefined || raw === null) return null
  if (!isObject(raw)) {
    if (context.profile.exact) return flaw("usage_not_an_object")
    deviations.note("usage_not_a_count")
    return null
  }
  const counts: Record<string, number | null> = {}
  for (const key of countKeys) {
    const value = raw[key]
    if (value !== undefined && value !== null && !isCount(value)) {
      if (context.profile.exact) return flaw("usage_not_a_count")
      deviations.note("usage_not_a_count")
    }
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

/** One content block, whole or growing. */
export interface Block {
  readonly type: string
  text: string
  signature: string | null
  data: string | null
  id: string
  name: string
  /** JSON text of a tool's input. */
  args: string
  /** The block as it began, for those that go back as they came. */
  readonly raw: Json
  readonly citations: Array<unknown>
}

export const textAt = (object: Json, key: string): string => {
  const value = object[key]
  return isText(value) ? value : ""
}

const orNull = (text: string): string | null => (text === "" ? null : text)

/** A tool's input: an object, or, from some relays, its text. */
const inputText = (raw: Json): string => {
  const { input } = raw
  if (isText(input)) return input
  return isObject(input) && Object.keys(input).length > 0 ? JSON.stringify(input) : ""
}

export const blockOf = (raw: unknown): Block | null => {
  if (!isObject(raw) || !isText(raw["type"])) return null
  return {
    type: raw["type"],
    text: textAt(raw, "text") + textAt(raw, "thinking"),
    signature: orNull(textAt(raw, "signature")),
    data: orNull(textAt(raw, "data")),
    id: textAt(raw, "id"),
    name: textAt(raw, "name"),
    args: inputText(raw),
    raw,
    citations: Array.isArray(raw["citations"]) ? [...raw["citations"]] : []
  }
}

/** A tool without arguments sends no JSON at all: an empty object. */
export const argumentsOf = (block: Block): string => (block.args === "" ? "{}" : block.args)

export const callOf = (reading: CallReading, block: Block, at: number): ToolCall => {
  const { context } = reading
  const args = argumentsOf(block)
  const isMade = block.id === "" && block.name !== "" && !context.profile.exact
  return {
    id: isMade ? madeCallId(reading, at, block.name, args) : block.id,
    name: context.ownName?.(block.name) ?? block.name,
    arguments: args
  }
}

/** The calls of a message; an id that came before is another's. */
export const callsOf = (reading: CallReading, blocks: ReadonlyArray<Block>): ReadonlyArray<ToolCall> => {
  const calls: Array<ToolCall> = []
  for (const [at, block] of blocks.filter(({ type }) => type === "tool_use").entries()) {
    const call = callOf(reading, block, at)
    const isTaken = calls.some((one) => one.id === call.id)
    calls.push(isTaken ? { ...call, id: madeCallId(reading, at, call.name, call.arguments) } : call)
  }
  return calls
}

const reasoningPartOf = (block: Block, model: string): ReadonlyArray<ReasoningPart> => {
  if (block.data !== null) return [{ model, text: "", data: block.data }]
  if (block.text === "" && block.signature === null) return []
  return [{ model, text: block.text, ...(block.signature === null ? {} : { signature: block.signature }) }]
}

const knownBlocks: ReadonlySet<string> = new Set(["text", "thinking", "redacted_thinking", "tool_use"])

const joined = (blocks: ReadonlyArray<Block>, type: string): string =>
  blocks.map((block) => (block.type === type ? block.text : "")).join("")

/** A block as it would have come in one body. */
const wholeBlock = (block: Block): Json => {
  const citations = block.citations.length === 0 ? {} : { citations: block.citations }
  switch (block.type) {
    case "text":
      return { ...block.raw, text: block.text, ...citations }
    case "thinking":
      return { ...block.raw, thinking: block.text, signature: block.signature ?? "" }
    default:
      return "input" in block.raw ? { ...block.raw, input: parsedObject(argumentsOf(block)) ?? {} } : block.raw
  }
}

/** Blocks that have no other place (a server's tools, citations): kept as they came, to go back so to this model. */
const extraOf = (blocks: ReadonlyArray<Block>): Json =>
  blocks.some((block) => !knownBlocks.has(block.type) || block.citations.length > 0)
    ? { content_blocks: blocks.map(wholeBlock) }
    : {}

const knownOfBody = new Set(["type", "role", "content", "model", "stop_reason", "usage"])

export const furtherOfBody = (body: Json): Json => further(body, knownOfBody)

/** What a reply is made of, whether it came as one body or in events. */
export interface Pieces {
  readonly blocks: ReadonlyArray<Block>
  /** Visible text in the order it came. */
  readonly text: string
  readonly finishReason: FinishReason
  readonly usage: Usage.Usage | null
  readonly servedModel: string | null
  readonly details: Json
}

export const toReply = (reading: CallReading, pieces: Pieces): ModelReply | Flaw => {
  const { context, deviations } = reading
  const { blocks, text, finishReason, usage } = pieces
  const calls = callsOf(reading, blocks)
  const faulty = flawOfCalls(calls, finishReason, usage)
  if (faulty !== null) return faulty
  const isRefusal = finishReason === "refusal"
  const others = blocks.filter((block) => !knownBlocks.has(block.type)).length
  if (text === "" && calls.length === 0 && others === 0 && finishReason === "stop") return empty(usage)
  const thinking = blocks.filter((block) => block.type === "thinking" || block.type === "redacted_thinking")
  const extra = someOf(extraOf(blocks))
  const details = someOf(pieces.details)
  return {
    text: isRefusal || text === "" ? null : text,
    refusal: isRefusal ? text : null,
    reasoning: orNull(joined(blocks, "thinking")),
    reasoningParts: thinking.flatMap((block) => reasoningPartOf(block, context.model)),
    toolCalls: calls,
    finishReason,
    usage: usage ?? Usage.unknown,
    model: context.model,
    servedModel: pieces.servedModel,
    providerRequestId: context.requestId,
    warnings: deviations.sentences(),
    ...(extra === undefined ? {} : { extra }),
    ...(details === undefined ? {} : { details })
  }
}

/** A body of a 200 as a reply, or what is wrong with it: a flaw, or an error inside the 200. */
export const readBody = (
  context: ReadContext,
  text: string,
  headers: HeaderMap
): Result.Result<ModelReply, Flaw | Verdict> => {
  if (text.trim() === "") return Result.fail(emptyBody)
  const parsed = parse(text)
  if (Result.isFailure(parsed)) return Result.fail(bodyFlaw(parsed.failure))
  const body = parsed.success
  const fault = inBandFault(context.profile, { status: 200, headers, body })
  if (fault !== null) return Result.fail(fault)
  const reply = readMessage(context, body)
  return isFlaw(reply) ? Result.fail(reply) : Result.succeed(reply)
}

/** Content that is one text is what some relays make of it. */
const contentOf = (context: ReadContext, raw: unknown): ReadonlyArray<unknown> | null => {
  if (Array.isArray(raw)) return raw
  return isText(raw) && !context.profile.exact ? [{ type: "text", text: raw }] : null
}

const readMessage = (context: ReadContext, body: unknown): ModelReply | Flaw => {
  if (!isObject(body) || body["type"] !== "message") return flaw("not_a_message")
  const deviations = new Deviations()
  const usage = readUsage(context, deviations, body["usage"])
  if (isFlaw(usage)) return usage
  if (body["role"] !== "assistant") return flaw("role_not_assistant", usage)
  const content = contentOf(context, body["content"])
  if (content === null) return flaw("content_not_a_list", usage)
  const blocks = content.map(blockOf)
  const whole = blocks.filter((block) => block !== null)
  if (whole.length !== blocks.length) return flaw("content_block_unknown", usage)
  const reason = body["stop_reason"]
  const finishReason = isText(reason) ? finishReasonOf(context.profile, reason) : null
  if (finishReason === null) return unknownFinish(reason, usage)
  return toReply(
    { context, deviations, answerId: textAt(body, "id") },
    {
      blocks: whole,
      text: joined(whole, "text"),
      finishReason,
      usage,
      servedModel: orNull(textAt(body, "model")),
      details: furtherOfBody(body)
    }
  )
}
