/**
 * How a body without an error status says that it is a failure and no reply: by its fields alone, never by a text. What
 * has a part of a reply is a reply, whatever else it holds.
 */
import { isObject, isText, type Json } from "../chat/json.ts"
import { valueAt } from "./AnswerPlaces.ts"

/** Fields that a reply or a piece of one has, and a failure has not. */
const replyFields = ["choices", "candidates", "content", "content_block", "delta", "output", "item", "part", "usage"]

const isReplyType = (type: unknown): boolean => isText(type) && /^(response\.|message|content|ping)/.test(type)

const isReply = (body: Json): boolean =>
  replyFields.some((field) => body[field] !== undefined && body[field] !== null) ||
  isObject(body["message"]) ||
  isReplyType(body["type"])

/** Something is said there: no null, no empty value, no `false` and no 0. */
const isSaid = (value: unknown): boolean => {
  if (value === undefined || value === null || value === false || value === "" || value === 0) return false
  return !Array.isArray(value) || value.length > 0
}

/** A response that failed says so as its own state, or in the event that carries it. */
export const hasFailed = (body: Json): boolean =>
  body["type"] === "response.failed" || (isObject(body["response"]) && isObject(valueAt(body, "/response/error")))

/** A failure that names itself one. */
export const hasError = (body: Json): boolean =>
  hasFailed(body) || isSaid(body["error"]) || body["object"] === "error" || body["type"] === "error"

/** Values of a code or state under which nothing failed. */
const goodStates: ReadonlySet<string> = new Set(["0", "200", "ok", "success", "succeeded", "true"])

const isBadCode = (value: unknown): boolean =>
  (typeof value === "number" || (isText(value) && value !== "")) && !goodStates.has(String(value).toLowerCase())

const isBadStatus = (value: unknown): boolean => {
  const number = typeof value === "number" || (isText(value) && /^\d{3}$/.test(value)) ? Number(value) : 0
  return number >= 400 && number <= 599
}

const codeFields = ["code", "error_code", "errorCode", "errcode"]
const statusFields = ["status", "status_code", "statusCode", "http_status", "http_code"]

/** Lists of errors, a fault, a detail without a type: nothing but a failure is written so. */
const isFaultAlone = (body: Json): boolean =>
  isSaid(body["errors"]) ||
  isObject(body["fault"]) ||
  body["success"] === false ||
  statusFields.some((field) => isBadStatus(body[field])) ||
  (isSaid(body["detail"]) && body["type"] === undefined && body["event"] === undefined)

const sayings = ["message", "msg", "error_msg", "error_message", "errmsg", "Message"]

const saysSomething = (body: Json): boolean => sayings.some((field) => isText(body[field]) && body[field] !== "")

/**
 * A failure that does not call itself an error. `plain`: nothing but a failure has this shape; `perhaps`: so do other
 * things, and only a known word tells; null: it is none.
 */
export const failureBeside = (body: Json): "plain" | "perhaps" | null => {
  if (isReply(body)) return null
  if (isFaultAlone(body)) return "plain"
  if (!saysSomething(body)) return null
  if (codeFields.some((field) => isBadCode(body[field]))) return "plain"
  return isText(body["type"]) || isText(body["__type"]) ? "perhaps" : null
}
