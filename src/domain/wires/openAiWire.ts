/**
 * OpenAI's chat wire: from a request to a body, from a body or chunks to a validated reply. Pure; knows no SDK and no
 * socket. A 200 is not a success until it has been read here.
 */
import * as Result from "effect/Result"
import { isObject, isText, parse, type Json } from "../chat/json.ts"
import type { ModelReply } from "../chat/ModelReply.ts"
import type { WireRequest } from "../chat/ModelRequest.ts"
import type * as Usage from "../chat/Usage.ts"
import { finishReasonOf, inBandFault, type Verdict } from "../provider/classify.ts"
import type { BudgetParam, ProviderProfile } from "../provider/ProviderProfile.ts"
import { withTextResults } from "./resultParts.ts"
import { fit, wellFormedJson } from "./history.ts"
import { readCalls } from "./openAiCalls.ts"
import {
  furtherOf,
  furtherOfBody,
  furtherOfChoice,
  isAssistantRole,
  isLegacyCall,
  readContent,
  readThoughts,
  readUsage,
  textAt,
  toReply
} from "./openAiMessage.ts"
import {
  bodyFlaw,
  Deviations,
  emptyBody,
  flaw,
  flawOfCalls,
  isFlaw,
  unknownFinish,
  type CallReading,
  type Flaw,
  type ReadContext
} from "./wireReply.ts"

/** Wire name of the output budget for a model of this profile. */
export const budgetParamOf = (profile: ProviderProfile, model: string): BudgetParam => {
  const isOther = profile.completionTokenModels.some((prefix) => model.startsWith(prefix))
  if (!isOther) return profile.budgetParam
  return profile.budgetParam === "max_tokens" ? "max_completion_tokens" : "max_tokens"
}

const chosenTool = (choice: unknown, wireName: (own: string) => string): Json =>
  isObject(choice) && isObject(choice["function"]) && isText(choice["function"]["name"])
    ? { tool_choice: { ...choice, function: { ...choice["function"], name: wireName(choice["function"]["name"]) } } }
    : {}

/** Items that the Responses API has sealed have no place here, also when they are this model's own. */
const withoutItems = (messages: ReadonlyArray<Json>): ReadonlyArray<Json> =>
  messages.map((message) => {
    const parts = message["reasoning_parts"]
    if (!Array.isArray(parts) || !parts.some((part) => isObject(part) && "item" in part)) return message
    const { reasoning_parts: _, ...rest } = message
    const kept = parts.filter((part) => !(isObject(part) && "item" in part))
    return kept.length === 0 ? rest : { ...rest, reasoning_parts: kept }
  })

/**
 * The JSON body. Unknown fields of the caller pass through; model, messages and budget are the request's own. The
 * history goes out as this provider takes it.
 */
export const toBody = (
  request: WireRequest,
  profile: ProviderProfile,
  budgetParam: BudgetParam,
  stream: boolean
): Json => {
  const { max_tokens: _, max_completion_tokens: __, ...params } = wellFormedJson(request.params ?? {})
  const { messages, tools, wireName } = fit(request, profile)
  return {
    ...params,
    ...chosenTool(params["tool_choice"], wireName),
    model: request.model,
    messages: withoutItems(withTextResults(messages)),
    ...(tools.length === 0 ? {} : { tools }),
    ...(request.maxOutputTokens === null ? {} : { [budgetParam]: request.maxOutputTokens }),
    ...(stream ? { stream: true, stream_options: params["stream_options"] ?? { include_usage: true } } : {})
  }
}

/** A body of a 200 as a reply, or what is wrong with it: a flaw, or an error inside the 200. */
export const readBody = (
  context: ReadContext,
  text: string,
  headers: Readonly<Record<string, string>>
): Result.Result<ModelReply, Flaw | Verdict> => {
  if (text.trim() === "") return Result.fail(emptyBody)
  const parsed = parse(text)
  if (Result.isFailure(parsed)) return Result.fail(bodyFlaw(parsed.failure))
  const body = parsed.success
  if (body === null) return Result.fail(flaw("not_an_object"))
  const fault = inBandFault(context.profile, { status: 200, headers, body })
  if (fault !== null) return Result.fail(fault)
  const reply = readCompletion(context, body)
  return isFlaw(reply) ? Result.fail(reply) : Result.succeed(reply)
}

/** A filter that stopped a reply before its first word leaves the message out. */
const hasMessage = ({ profile }: ReadContext, { message, finish_reason: reason }: Json): boolean =>
  isObject(message) ||
  (!profile.exact &&
    (message === undefined || message === null) &&
    isText(reason) &&
    finishReasonOf(profile, reason) === "content_filter")

const readCompletion = (context: ReadContext, body: unknown): ModelReply | Flaw => {
  if (!isObject(body)) return flaw("not_an_object")
  const deviations = new Deviations()
  const usage = readUsage(context, deviations, body["usage"])
  if (isFlaw(usage)) return usage
  const choices = body["choices"]
  if (!Array.isArray(choices)) return flaw("choices_missing", usage)
  if (choices.length !== 1) return flaw(choices.length === 0 ? "no_choices" : "several_choices", usage)
  const choice: unknown = choices[0]
  if (!isObject(choice) || !hasMessage(context, choice)) return flaw("message_missing", usage)
  const reply = readMessage({ context, deviations, answerId: textAt(body, "id") ?? "" }, body, choice, usage)
  return isFlaw(reply) ? { ...reply, usage } : reply
}

const readMessage = (reading: CallReading, body: Json, choice: Json, usage: Usage.Usage | null): ModelReply | Flaw => {
  const { context, deviations } = reading
  const message = isObject(choice["message"]) ? choice["message"] : {}
  if (!isAssistantRole(context, deviations, message["role"])) return flaw("role_not_assistant")
  if (isLegacyCall(context, message["function_call"])) return flaw("legacy_function_call")
  const rawReason = choice["finish_reason"]
  const finishReason = isText(rawReason) ? finishReasonOf(context.profile, rawReason) : null
  if (finishReason === null) return unknownFinish(rawReason, usage)
  const content = readContent(context, deviations, message["content"])
  if (isFlaw(content)) return content
  const refusal = textAt(message, "refusal")
  if (refusal === undefined) return flaw("refusal_not_text")
  const toolCalls = readCalls(reading, message["tool_calls"])
  if (isFlaw(toolCalls)) return toolCalls
  const faulty = flawOfCalls(toolCalls, finishReason, usage)
  if (faulty !== null) return faulty
  const thoughts = readThoughts(message)
  return toReply(context, {
    text: content.text,
    refusal: refusal === "" ? null : refusal,
    thoughts:
      content.thinking === ""
        ? thoughts
        : { field: thoughts?.field ?? "reasoning_content", text: (thoughts?.text ?? "") + content.thinking },
    toolCalls,
    finishReason,
    usage,
    servedModel: textAt(body, "model") ?? null,
    warnings: deviations.sentences(),
    extra: {
      ...furtherOf(message),
      ...(content.others.length === 0 ? {} : { content_parts: content.others })
    },
    details: { ...furtherOfBody(body), ...furtherOfChoice(choice) }
  })
}
