/** A response of OpenAI's responses wire as a validated reply: its items, whether they came whole or in events. Pure. */
import * as Result from "effect/Result"
import { isCount, isObject, isText, parse, type Json } from "../chat/json.ts"
import type { ReasoningPart } from "../chat/Message.ts"
import type { FinishReason, ModelReply, ToolCall } from "../chat/ModelReply.ts"
import * as Usage from "../chat/Usage.ts"
import { finishReasonOf, inBandFault, type Verdict } from "../provider/classify.ts"
import { further, someOf } from "./furtherFields.ts"
import { isAssistantRole } from "./openAiMessage.ts"
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

const detailAt = (object: Json, key: string): Json => {
  const details = object[key]
  return isObject(details) ? details : {}
}

/** Usage as reported; cached and reasoning tokens are parts of the input and the output. null when there is none. */
export const readUsage = (context: ReadContext, deviations: Deviations, raw: unknown): Usage.Usage | null | Flaw => {
  if (raw === undefined || raw === null) return null
  if (!isObject(raw)) {
    if (context.profile.exact) return flaw("usage_not_an_object")
    deviations.note("usage_not_a_count")
    return null
  }
  const input = detailAt(raw, "input_tokens_details")
  const counts = {
    promptTokens: raw["input_tokens"],
    completionTokens: raw["output_tokens"],
    cachedTokens: input["cached_tokens"],
    cacheWriteTokens: input["cache_write_tokens"],
    reasoningTokens: detailAt(raw, "output_tokens_details")["reasoning_tokens"]
  }
  const isBad = Object.values(counts).some((count) => count !== undefined && count !== null && !isCount(count))
  if (isBad && context.profile.exact) return flaw("usage_not_a_count")
  if (isBad) deviations.note("usage_not_a_count")
  const known = (count: unknown): number | null => (isCount(count) ? count : null)
  return {
    promptTokens: known(counts.promptTokens),
    completionTokens: known(counts.completionTokens),
    cachedTokens: known(counts.cachedTokens),
    cacheWriteTokens: known(counts.cacheWriteTokens),
    reasoningTokens: known(counts.reasoningTokens)
  }
}

export const textAt = (object: Json, key: string): string => {
  const value = object[key]
  return isText(value) ? value : ""
}

const orNull = (text: string): string | null => (text === "" ? null : text)

const objectsAt = (object: Json, key: string): ReadonlyArray<Json> => {
  const list = object[key]
  return Array.isArray(list) ? list.filter(isObject) : []
}

export const isCall = (item: Json): boolean => item["type"] === "function_call" || item["type"] === "custom_tool_call"

/** What a call is called with, as text; null = something that is none. Only a function's arguments may be an object. */
const inputOf = (reading: CallReading, raw: unknown, isCustom: boolean): string | null => {
  if (isText(raw)) return raw
  if (reading.context.profile.exact) return null
  if (raw === undefined || raw === null) {
    reading.deviations.note("call_without_arguments")
    return isCustom ? "" : "{}"
  }
  if (isCustom || !isObject(raw)) return null
  reading.deviations.note("arguments_not_text")
  return JSON.stringify(raw)
}

/** A call of a function or of a custom tool; `before` are the calls of the same answer that came before it. */
export const callOf = (reading: CallReading, item: Json, before: ReadonlyArray<ToolCall>): ToolCall | Flaw => {
  const { context } = reading
  const isCustom = item["type"] === "custom_tool_call"
  const input = inputOf(reading, isCustom ? item["input"] : item["arguments"], isCustom)
  const id = item["call_id"] ?? ""
  const wireName = item["name"] ?? ""
  if (input === null || !isText(id) || !isText(wireName)) return flaw("tool_call_not_whole")
  const name = context.ownName?.(wireName) ?? wireName
  // An id that another call has already stands for both: this one gets its own.
  const isMade = !context.profile.exact && (id === "" ? name !== "" : before.some((one) => one.id === id))
  return {
    id: isMade ? madeCallId(reading, before.length, name, input) : id,
    name,
    arguments: input,
    ...(isCustom ? { providerMeta: { model: context.model, custom: true } } : {})
  }
}

/** What the items of an answer say, whether they came in one body or one by one. */
interface Read {
  readonly text: string
  readonly refusal: string
  readonly reasoning: string
  readonly reasoningParts: ReadonlyArray<ReasoningPart>
  readonly calls: ReadonlyArray<ToolCall>
  /** A call stopped in its middle. */
  readonly hasCutCall: boolean
  readonly annotations: ReadonlyArray<unknown>
  readonly logprobs: ReadonlyArray<unknown>
  /** Items and parts that have no other place: those of a server's tools, pictures and the like. */
  readonly others: ReadonlyArray<Json>
}

const nothing: Read = {
  text: "",
  refusal: "",
  reasoning: "",
  reasoningParts: [],
  calls: [],
  hasCutCall: false,
  annotations: [],
  logprobs: [],
  others: []
}

/** Texts of a reasoning item that the provider shows. */
const reasoningTextOf = (item: Json): string =>
  [...objectsAt(item, "summary"), ...objectsAt(item, "content")].map((part) => textAt(part, "text")).join("\n\n")

const listAt = (object: Json, key: string): ReadonlyArray<unknown> => {
  const list: unknown = object[key]
  return Array.isArray(list) ? list : []
}

/** Servers of other makes call a text by its chat name. */
const isTextPart = ({ profile }: ReadContext, part: Json): boolean =>
  part["type"] === "output_text" || (!profile.exact && part["type"] === "text")

const withPart =
  (context: ReadContext) =>
  (read: Read, part: Json): Read => {
    if (isTextPart(context, part))
      return {
        ...read,
        text: read.text + textAt(part, "text"),
        annotations: [...read.annotations, ...listAt(part, "annotations")],
        logprobs: [...read.logprobs, ...listAt(part, "logprobs")]
      }
    if (part["type"] === "refusal") return { ...read, refusal: read.refusal + textAt(part, "refusal") }
    return { ...read, others: [...read.others, part] }
  }

/** The parts of a message. One text in their place, or among them, is what some servers make of it. */
const partsOf = ({ context, deviations }: CallReading, content: unknown): ReadonlyArray<Json> | Flaw => {
  if (Array.isArray(content)) {
    const parts: ReadonlyArray<unknown> = content
    if (parts.every(isObject)) return parts
    if (context.profile.exact) return flaw("content_not_text")
    deviations.note("content_as_text")
    return parts.flatMap((part) =>
      isObject(part) ? [part] : isText(part) ? [{ type: "output_text", text: part }] : []
    )
  }
  if (context.profile.exact) return flaw("content_not_a_list")
  if (content === undefined || content === null) return []
  if (!isText(content)) return flaw("content_not_a_list")
  deviations.note("content_as_text")
  return [{ type: "output_text", text: content }]
}

const withItem = (reading: CallReading, read: Read, item: Json): Read | Flaw => {
  const { context, deviations } = reading
  if (isCall(item)) {
    const call = callOf(reading, item, read.calls)
    const hasCutCall = read.hasCutCall || item["status"] === "incomplete"
    return isFlaw(call) ? call : { ...read, calls: [...read.calls, call], hasCutCall }
  }
  if (item["type"] === "message") {
    if (!isAssistantRole(context, deviations, item["role"])) return flaw("role_not_assistant")
    const parts = partsOf(reading, item["content"])
    return isFlaw(parts) ? parts : parts.reduce(withPart(context), read)
  }
  if (item["type"] !== "reasoning") return { ...read, others: [...read.others, item] }
  const text = reasoningTextOf(item)
  return {
    ...read,
    reasoning: read.reasoning + text,
    reasoningParts: [...read.reasoningParts, { model: context.model, text, item }]
  }
}

const readItems = (reading: CallReading, items: ReadonlyArray<Json>): Read | Flaw => {
  let read = nothing
  for (const item of items) {
    const next = withItem(reading, read, item)
    if (isFlaw(next)) return next
    read = next
  }
  return read
}

const incompleteReasons: Readonly<Record<string, FinishReason>> = {
  max_output_tokens: "length",
  max_tokens: "length",
  content_filter: "content_filter"
}

/** What a response calls itself while it goes on, or after it was given up. */
const unfinished: ReadonlySet<unknown> = new Set(["in_progress", "queued", "cancelled", "failed"])

/** Why the response ended; a flaw when it has not, or for a reason nobody knows, told by its name. */
const finishOf = ({ profile }: ReadContext, response: Json, hasCalls: boolean): FinishReason | Flaw => {
  const status = response["status"] ?? (profile.exact ? null : "completed")
  if (status === "completed") return hasCalls ? "tool_calls" : "stop"
  if (unfinished.has(status)) return flaw("response_not_finished")
  if (status !== "incomplete") return unknownFinish(status, null)
  const reason = textAt(detailAt(response, "incomplete_details"), "reason")
  const known = Object.hasOwn(incompleteReasons, reason) ? incompleteReasons[reason] : undefined
  // A reason of the chat wire, where a server took it from there. What is incomplete has not stopped by itself.
  const other = profile.exact || known !== undefined ? null : finishReasonOf(profile, reason)
  const finish = known ?? (other === "stop" || other === "tool_calls" ? null : other)
  return finish ?? unknownFinish(orNull(reason), null)
}

/** Why a response ended, before its items are read as a reply. */
export const finishOfItems = (context: ReadContext, response: Json, items: ReadonlyArray<Json>): FinishReason | Flaw =>
  finishOf(context, response, items.some(isCall))

/** Fields that have a place of their own, and those in which a server repeats what it was asked. */
const knownOfResponse = new Set([
  "object",
  "status",
  "error",
  "model",
  "output",
  "output_text",
  "usage",
  "background",
  "conversation",
  "include",
  "input",
  "instructions",
  "max_output_tokens",
  "max_tool_calls",
  "metadata",
  "parallel_tool_calls",
  "previous_response_id",
  "prompt",
  "prompt_cache_key",
  "prompt_cache_retention",
  "reasoning",
  "safety_identifier",
  "store",
  "temperature",
  "text",
  "tool_choice",
  "tools",
  "top_logprobs",
  "top_p",
  "truncation",
  "user"
])

/** The items a response tells. */
export const itemsOf = (response: Json): ReadonlyArray<Json> => objectsAt(response, "output")

const isResponse = ({ profile }: ReadContext, deviations: Deviations, response: Json): boolean => {
  if (response["object"] === "response") return true
  if (profile.exact || (response["object"] ?? null) !== null) return false
  deviations.note("object_missing")
  return true
}

/** A response object as a reply. `seen`: items of a stream whose last event repeats fewer. */
export const readResponse = (
  context: ReadContext,
  deviations: Deviations,
  response: unknown,
  seen: ReadonlyArray<Json> = []
): ModelReply | Flaw => {
  if (!isObject(response)) return flaw("not_an_object")
  if (!isResponse(context, deviations, response)) return flaw("not_a_response")
  const usage = readUsage(context, deviations, response["usage"])
  if (isFlaw(usage)) return usage
  if (!Array.isArray(response["output"]) && seen.length === 0) return flaw("output_missing", usage)
  const own = itemsOf(response)
  const items = own.length === 0 || (!context.profile.exact && own.length < seen.length) ? seen : own
  const finishReason = finishOfItems(context, response, items)
  if (isFlaw(finishReason)) return { ...finishReason, usage }
  const read = readItems({ context, deviations, answerId: textAt(response, "id") }, items)
  if (isFlaw(read)) return { ...read, usage }
  return replyOf(context, deviations, { read, finishReason, usage, response })
}

interface Pieces {
  readonly read: Read
  readonly finishReason: FinishReason
  readonly usage: Usage.Usage | null
  readonly response: Json
}

const replyOf = (context: ReadContext, deviations: Deviations, pieces: Pieces): ModelReply | Flaw => {
  const { read, finishReason, usage, response } = pieces
  if (read.hasCutCall && finishReason !== "length") return flaw("tool_call_not_whole", usage)
  const faulty = flawOfCalls(read.calls, finishReason, usage)
  if (faulty !== null) return faulty
  const isRefusal = read.refusal !== ""
  const hasNothing = read.text === "" && !isRefusal && read.calls.length === 0 && read.others.length === 0
  if (hasNothing && finishReason === "stop") return empty(usage)
  const id = textAt(response, "id")
  const extra = someOf({
    ...(read.annotations.length === 0 ? {} : { annotations: read.annotations }),
    ...(read.others.length === 0 ? {} : { output_items: read.others })
  })
  const details = someOf({
    ...further(response, knownOfResponse),
    ...(read.logprobs.length === 0 ? {} : { logprobs: read.logprobs })
  })
  return {
    text: isRefusal ? null : orNull(read.text),
    refusal: isRefusal ? read.refusal : null,
    reasoning: orNull(read.reasoning),
    reasoningParts: read.reasoningParts,
    toolCalls: read.calls,
    finishReason,
    usage: usage ?? Usage.unknown,
    model: context.model,
    servedModel: orNull(textAt(response, "model")),
    providerRequestId: context.requestId,
    ...(id === "" ? {} : { responseId: id }),
    warnings: deviations.sentences(),
    ...(extra === undefined ? {} : { extra }),
    ...(details === undefined ? {} : { details })
  }
}

/** The failure inside a response that ended as `failed`, or in an error event; null when there is none. */
export const responseFault = (context: ReadContext, headers: HeaderMap, body: unknown): Verdict | null => {
  const fault = inBandFault(context.profile, { status: 200, headers, body })
  if (fault !== null || !isObject(body) || body["status"] !== "failed") return fault
  // A failure that says nothing of itself is the server's.
  return inBandFault(context.profile, { status: 200, headers, body: { error: { code: "server_error" } } })
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
  const fault = responseFault(context, headers, parsed.success)
  if (fault !== null) return Result.fail(fault)
  const reply = readResponse(context, new Deviations(), parsed.success)
  return isFlaw(reply) ? Result.fail(reply) : Result.succeed(reply)
}
