/**
 * OpenAI's responses wire: from a request to a body, from a body to a validated reply. Pure; knows no SDK and no socket.
 * The history keeps OpenAI's chat shape; messages become items on the way out, items a reply on the way back. A reasoning
 * item is kept whole and goes back to the model that made it, and to no other.
 */
import * as Result from "effect/Result"
import { isCount, isObject, parse, type Json } from "../chat/json.ts"
import {
  isAssistant,
  withoutForeign,
  type ContentPart,
  type Message,
  type MessageToolCall,
  type ReasoningPart,
  type ToolSpec
} from "../chat/Message.ts"
import type { FinishReason, ModelReply, ToolCall } from "../chat/ModelReply.ts"
import type { WireRequest } from "../chat/ModelRequest.ts"
import * as Usage from "../chat/Usage.ts"
import { inBandFault, type Verdict } from "../provider/classify.ts"
import type { ProviderProfile } from "../provider/ProviderProfile.ts"
import { wellFormedJson } from "./history.ts"
import { bodyFlaw, empty, flaw, flawOfCalls, isFlaw, type Flaw, type ReadContext } from "./wireReply.ts"

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

const isCustom = (call: MessageToolCall): boolean => call.provider_meta?.["custom"] === true

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

/** Fields that chat spells otherwise. */
const translated = (params: Json): Json => {
  const { response_format: format, tool_choice: choice, reasoning_effort: effort, ...rest } = params
  const own =
    isObject(format) && isObject(format["json_schema"]) ? { type: format["type"], ...format["json_schema"] } : format
  const named = isObject(choice) && isObject(choice["function"]) ? { type: "function", ...choice["function"] } : choice
  return {
    ...rest,
    ...(format === undefined ? {} : { text: { ...(isObject(rest["text"]) ? rest["text"] : {}), format: own } }),
    ...(choice === undefined ? {} : { tool_choice: named }),
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
  } = request.params ?? {}
  const isStored = params["store"] === true
  const messages = withoutForeign(request.messages, request.model)
  return wellFormedJson<Json>({
    store: false,
    ...(thinks(profile, request.model) ? { include: [sealed] } : {}),
    ...translated(params),
    model: request.model,
    input: inputOf(messages, isStored),
    ...(request.tools === undefined || request.tools.length === 0 ? {} : { tools: request.tools.map(toTool) }),
    ...(request.maxOutputTokens === null ? {} : { max_output_tokens: request.maxOutputTokens }),
    ...(stream ? { stream: true } : {})
  })
}

const detailAt = (object: Json, key: string): Json => {
  const details = object[key]
  return isObject(details) ? details : {}
}

/** Usage as reported; cached and reasoning tokens are parts of the input and the output. null when there is none. */
export const readUsage = (raw: unknown): Usage.Usage | null | Flaw => {
  if (raw === undefined || raw === null) return null
  if (!isObject(raw)) return flaw("usage_not_an_object")
  const input = detailAt(raw, "input_tokens_details")
  const counts = {
    promptTokens: raw["input_tokens"],
    completionTokens: raw["output_tokens"],
    cachedTokens: input["cached_tokens"],
    cacheWriteTokens: input["cache_write_tokens"],
    reasoningTokens: detailAt(raw, "output_tokens_details")["reasoning_tokens"]
  }
  const isBad = Object.values(counts).some((count) => count !== undefined && count !== null && !isCount(count))
  if (isBad) return flaw("usage_not_a_count")
  const known = (count: unknown): number | null => (isCount(count) ? count : null)
  return {
    promptTokens: known(counts.promptTokens),
    completionTokens: known(counts.completionTokens),
    cachedTokens: known(counts.cachedTokens),
    cacheWriteTokens: known(counts.cacheWriteTokens),
    reasoningTokens: known(counts.reasoningTokens)
  }
}

const textAt = (object: Json, key: string): string => {
  const value = object[key]
  return typeof value === "string" ? value : ""
}

const objectsAt = (object: Json, key: string): ReadonlyArray<Json> => {
  const list = object[key]
  return Array.isArray(list) ? list.filter(isObject) : []
}

/** What the items of an answer say, whether they came in one body or one by one. */
interface Read {
  readonly text: string
  readonly refusal: string
  readonly reasoning: string
  readonly reasoningParts: ReadonlyArray<ReasoningPart>
  readonly calls: ReadonlyArray<ToolCall>
  /** Items of kinds that recovery does not need: server tools and the like. */
  readonly others: number
}

const nothing: Read = { text: "", refusal: "", reasoning: "", reasoningParts: [], calls: [], others: 0 }

/** A whole call of a function or of a custom tool; null = the item is none. */
export const callOf = (item: Json, model: string): ToolCall | null => {
  const id = textAt(item, "call_id")
  const name = textAt(item, "name")
  switch (item["type"]) {
    case "function_call":
      return { id, name, arguments: textAt(item, "arguments") }
    case "custom_tool_call":
      return { id, name, arguments: textAt(item, "input"), providerMeta: { model, custom: true } }
    default:
      return null
  }
}

const joinedAt = (parts: ReadonlyArray<Json>, type: string, key: string): string =>
  parts.map((part) => (part["type"] === type ? textAt(part, key) : "")).join("")

/** Texts of a reasoning item that the provider shows. */
export const reasoningTextOf = (item: Json): string =>
  [...objectsAt(item, "summary"), ...objectsAt(item, "content")].map((part) => textAt(part, "text")).join("\n\n")

const withItem = (read: Read, item: Json, model: string): Read => {
  const call = callOf(item, model)
  if (call !== null) return { ...read, calls: [...read.calls, call] }
  if (item["type"] === "message") {
    const content = objectsAt(item, "content")
    return {
      ...read,
      text: read.text + joinedAt(content, "output_text", "text"),
      refusal: read.refusal + joinedAt(content, "refusal", "refusal")
    }
  }
  if (item["type"] !== "reasoning") return { ...read, others: read.others + 1 }
  const text = reasoningTextOf(item)
  return {
    ...read,
    reasoning: read.reasoning + text,
    reasoningParts: [...read.reasoningParts, { model, text, item }]
  }
}

const incompleteReasons: Readonly<Record<string, FinishReason>> = {
  max_output_tokens: "length",
  max_tokens: "length",
  content_filter: "content_filter"
}

/** Why the response ended; a flaw when it has not, or for a reason nobody knows. */
export const finishOf = (response: Json, hasCalls: boolean): FinishReason | Flaw => {
  switch (response["status"]) {
    case "completed":
    case undefined:
      return hasCalls ? "tool_calls" : "stop"
    case "incomplete": {
      const details = detailAt(response, "incomplete_details")
      const reason = textAt(details, "reason")
      return Object.hasOwn(incompleteReasons, reason)
        ? (incompleteReasons[reason] ?? "length")
        : flaw("finish_reason_unknown")
    }
    default:
      return flaw("response_not_finished")
  }
}

/** A response object as a reply. `shown`: text of a stream whose last event repeats no items. */
export const readResponse = (
  context: ReadContext,
  response: unknown,
  items?: ReadonlyArray<Json>
): ModelReply | Flaw => {
  if (!isObject(response)) return flaw("not_an_object")
  if (response["object"] !== "response") return flaw("not_a_response")
  const usage = readUsage(response["usage"])
  if (isFlaw(usage)) return usage
  const output = response["output"]
  if (!Array.isArray(output) && items === undefined) return flaw("output_missing", usage)
  const own = objectsAt(response, "output")
  const from = own.length === 0 && items !== undefined ? items : own
  const read = from.reduce((sum, item) => withItem(sum, item, context.model), nothing)
  const finishReason = finishOf(response, read.calls.length > 0)
  if (isFlaw(finishReason)) return { ...finishReason, usage }
  return replyOf(context, read, finishReason, usage, response)
}

const replyOf = (
  context: ReadContext,
  read: Read,
  finishReason: FinishReason,
  usage: Usage.Usage | null,
  response: Json
): ModelReply | Flaw => {
  const cut = flawOfCalls(read.calls, finishReason, usage)
  if (cut !== null) return cut
  const isRefusal = read.refusal !== ""
  const hasNothing = read.text === "" && !isRefusal && read.calls.length === 0 && read.others === 0
  if (hasNothing && finishReason === "stop") return empty(usage)
  const id = textAt(response, "id")
  const served = textAt(response, "model")
  return {
    text: isRefusal || read.text === "" ? null : read.text,
    refusal: isRefusal ? read.refusal : null,
    reasoning: read.reasoning === "" ? null : read.reasoning,
    reasoningParts: read.reasoningParts,
    toolCalls: read.calls,
    finishReason,
    usage: usage ?? Usage.unknown,
    model: context.model,
    servedModel: served === "" ? null : served,
    providerRequestId: context.requestId,
    ...(id === "" ? {} : { responseId: id }),
    warnings: read.others === 0 ? [] : [`${read.others} parts of the reply are of a kind that is not kept.`]
  }
}

/** The failure inside a response that ended as `failed`, or in an error event; null when there is none. */
export const responseFault = (
  context: ReadContext,
  headers: Readonly<Record<string, string>>,
  body: unknown
): Verdict | null => {
  const fault = inBandFault(context.profile, { status: 200, headers, body })
  if (fault !== null || !isObject(body) || body["status"] !== "failed") return fault
  // A failure that says nothing of itself is the server's.
  return inBandFault(context.profile, { status: 200, headers, body: { error: { code: "server_error" } } })
}

/** A body of a 200 as a reply, or what is wrong with it: a flaw, or an error inside the 200. */
export const readBody = (
  context: ReadContext,
  text: string,
  headers: Readonly<Record<string, string>>
): Result.Result<ModelReply, Flaw | Verdict> => {
  if (text.trim() === "") return Result.fail(empty())
  const parsed = parse(text)
  if (Result.isFailure(parsed)) return Result.fail(bodyFlaw(parsed.failure))
  const fault = responseFault(context, headers, parsed.success)
  if (fault !== null) return Result.fail(fault)
  const reply = readResponse(context, parsed.success)
  return isFlaw(reply) ? Result.fail(reply) : Result.succeed(reply)
}
