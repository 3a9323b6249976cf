/**
 * What an answer tells, piece by piece, whatever API it comes from. Fault scripts are written in the chat API's form: this
 * is read from it, and written again in any form.
 */
import { isObject, parsedObject, type Json } from "../../../../domain/chat/json.ts"

export type Finish = "stop" | "length" | "tool_calls" | "content_filter"

export type Piece =
  /** The answer has begun, and nothing else is known of it. */
  | { readonly _tag: "Begun" }
  | { readonly _tag: "Reasoning"; readonly text: string }
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Refusal"; readonly text: string }
  /** A tool call, or a further part of its arguments: then `name` is null. */
  | {
      readonly _tag: "Call"
      readonly index: number
      readonly id: unknown
      readonly name: unknown
      readonly args: string
    }
  | { readonly _tag: "Finish"; readonly reason: Finish }
  | { readonly _tag: "Usage"; readonly usage: Json }
  | { readonly _tag: "Error"; readonly error: Json }
  | { readonly _tag: "End" }

export type Pieces = ReadonlyArray<Piece>

const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

const finishes: ReadonlySet<unknown> = new Set(["stop", "length", "tool_calls", "content_filter"])

const isFinish = (value: unknown): value is Finish => finishes.has(value)

const textPieces = (message: Json): Pieces => {
  const reasoning = message["reasoning_content"] ?? message["reasoning"]
  const { content, refusal } = message
  return [
    ...(typeof reasoning === "string" && reasoning !== "" ? [{ _tag: "Reasoning" as const, text: reasoning }] : []),
    ...(typeof refusal === "string" ? [{ _tag: "Refusal" as const, text: refusal }] : []),
    ...(typeof content === "string" && content !== "" && typeof refusal !== "string"
      ? [{ _tag: "Text" as const, text: content }]
      : [])
  ]
}

const callPieces = (message: Json): Pieces | null => {
  const pieces: Array<Piece> = []
  for (const [at, call] of listOf(message["tool_calls"]).entries()) {
    if (!isObject(call) || !isObject(call["function"])) return null
    const { name, arguments: args } = call["function"]
    if (args !== undefined && typeof args !== "string") return null
    const index = typeof call["index"] === "number" ? call["index"] : at
    pieces.push({ _tag: "Call", index, id: call["id"] ?? null, name: name ?? null, args: args ?? "" })
  }
  return pieces
}

const messageKeys = new Set(["role", "content", "tool_calls", "refusal", "reasoning_content", "reasoning"])

const messagePieces = (message: Json): Pieces | null => {
  const { content } = message
  if (content !== undefined && content !== null && typeof content !== "string") return null
  if (Object.keys(message).some((key) => !messageKeys.has(key))) return null
  const calls = callPieces(message)
  return calls === null ? null : [...textPieces(message), ...calls]
}

const usagePieces = (usage: unknown): Pieces => (isObject(usage) ? [{ _tag: "Usage", usage }] : [])

const errorOf = (value: unknown): Json => (isObject(value) ? value : { message: String(value) })

/** The calls of a whole reply are objects, or the reply says that it was cut. */
const areWhole = (pieces: Pieces, reason: Finish): boolean =>
  reason === "length" || pieces.every((piece) => piece._tag !== "Call" || parsedObject(piece.args) !== null)

/** A body of the chat API; null = it has none of the forms that other APIs have too. */
export const readBody = (body: unknown): Pieces | null => {
  if (!isObject(body)) return null
  if (body["error"] !== undefined && body["error"] !== null && body["choices"] === undefined)
    return [{ _tag: "Error", error: errorOf(body["error"]) }]
  const [choice, ...others] = listOf(body["choices"])
  if (!isObject(choice) || others.length > 0 || !isObject(choice["message"])) return null
  const reason = choice["finish_reason"]
  const said = messagePieces(choice["message"])
  if (said === null || !isFinish(reason) || !areWhole(said, reason)) return null
  return [{ _tag: "Begun" }, ...said, { _tag: "Finish", reason }, ...usagePieces(body["usage"]), { _tag: "End" }]
}

/** One chunk of a chat stream; null = no other API has its like. */
export const readChunk = (chunk: unknown): Pieces | null => {
  if (chunk === "[DONE]") return [{ _tag: "End" }]
  if (!isObject(chunk)) return null
  const found: unknown = listOf(chunk["choices"])[0]
  const choice = isObject(found) ? found : {}
  const reason = choice["finish_reason"] ?? null
  const error = chunk["error"] ?? choice["error"]
  if (error !== undefined || reason === "error") return [{ _tag: "Error", error: errorOf(error) }]
  const said = messagePieces(isObject(choice["delta"]) ? choice["delta"] : {})
  if (said === null || (reason !== null && !isFinish(reason))) return null
  return [
    { _tag: "Begun" },
    ...said,
    ...(reason === null ? [] : [{ _tag: "Finish" as const, reason }]),
    ...usagePieces(chunk["usage"])
  ]
}
