/**
 * What is wrong with a request before it is sent: JavaScript, JSON and casts bring what no type has checked. The code of
 * the error is the path of the field; never a value of it.
 */
import { isObject } from "../chat/json.ts"
import { isMessage, isToolSpec, type Message } from "../chat/Message.ts"
import { makeModelError, type ModelError } from "./ModelError.ts"
import * as Result from "effect/Result"
import type { ModelRequest, RequestInput } from "../chat/ModelRequest.ts"

/** Body fields that are holdfast's own. */
const ownParams = ["model", "messages", "stream", "max_tokens", "max_completion_tokens"] as const

const isWholeCall = (call: unknown): boolean =>
  isObject(call) &&
  typeof call["id"] === "string" &&
  isObject(call["function"]) &&
  typeof call["function"]["name"] === "string" &&
  typeof call["function"]["arguments"] === "string"

const callsFault = (calls: unknown): string | null => {
  if (calls === undefined || calls === null) return null
  if (!Array.isArray(calls)) return ".tool_calls"
  const bad = calls.findIndex((call) => !isWholeCall(call))
  return bad === -1 ? null : `.tool_calls[${bad}]`
}

const roles: ReadonlySet<unknown> = new Set<Message["role"]>(["system", "developer", "user", "assistant", "tool"])

/** Path below the message; null = fine. */
const messageFault = (message: unknown): string | null => {
  if (!isObject(message)) return ""
  if (!roles.has(message["role"])) return ".role"
  if (!isMessage(message))
    return message["role"] === "tool" && typeof message["tool_call_id"] !== "string" ? ".tool_call_id" : ".content"
  if (Array.isArray(message.content)) {
    const bad = message.content.findIndex((part: unknown) => !isObject(part) || typeof part["type"] !== "string")
    if (bad !== -1) return `.content[${bad}]`
  }
  return message.role === "assistant" ? callsFault(message.tool_calls) : null
}

const listFault = (name: string, list: unknown, faultOf: (entry: unknown) => string | null): string | null => {
  if (!Array.isArray(list)) return name
  for (const [index, entry] of list.entries()) {
    const fault = faultOf(entry)
    if (fault !== null) return `${name}[${index}]${fault}`
  }
  return null
}

const paramsFault = (params: unknown): string | null => {
  if (params === undefined) return null
  if (!isObject(params)) return "params"
  const own = ownParams.find((name) => params[name] !== undefined)
  if (own !== undefined) return `params.${own}`
  // One reply is what recovery carries.
  if (params["n"] !== undefined && params["n"] !== null && params["n"] !== 1) return "params.n"
  return params["functions"] === undefined ? null : "params.functions"
}

const isCap = (value: unknown): boolean =>
  value === undefined || (typeof value === "number" && Number.isSafeInteger(value) && value >= 1)

const requestFields: ReadonlyArray<string> = [
  "messages",
  "tools",
  "maxOutputTokens",
  "priority",
  "params"
] satisfies ReadonlyArray<keyof ModelRequest>

/** A field nobody reads would be dropped in silence: `temperature` beside `messages` belongs into `params`. */
const unknownField = (request: Readonly<Record<string, unknown>>): string | null =>
  Object.keys(request).find((name) => request[name] !== undefined && !requestFields.includes(name)) ?? null

/** Path of the first field that cannot be sent; null = fine. */
const fieldOf = (request: unknown): string | null => {
  if (!isObject(request)) return "request"
  const { messages, tools, maxOutputTokens, priority, params } = request
  const list = listFault("messages", messages, messageFault)
  if (list !== null) return list
  const badTools = tools === undefined ? null : listFault("tools", tools, (tool) => (isToolSpec(tool) ? null : ""))
  if (badTools !== null) return badTools
  if (!isCap(maxOutputTokens)) return "maxOutputTokens"
  if (priority !== undefined && priority !== "foreground" && priority !== "background") return "priority"
  return paramsFault(params) ?? unknownField(request)
}

/** The failure of a request that cannot be sent; null = it can. */
export const requestFault = (request: RequestInput): ModelError | null => {
  const code = fieldOf(request)
  return code === null ? null : makeModelError({ kind: "invalid_request", status: null, code })
}

/** The request, of which it is known now that it can be sent. */
export const checkedRequest = (request: RequestInput): Result.Result<ModelRequest, ModelError> => {
  const fault = requestFault(request)
  return fault === null ? Result.succeed(request as ModelRequest) : Result.fail(fault)
}
