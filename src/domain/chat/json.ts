/**
 * JSON values, read once for the whole house: what is an object, what is a count, and a parse that never throws and
 * knows a text that stops in its middle or nests without end from one that is no JSON at all. Pure.
 */
import * as Result from "effect/Result"

export type Json = Readonly<Record<string, unknown>>

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const isText = (value: unknown): value is string => typeof value === "string"

/** A whole number from 0. */
export const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0

/** The text at a key; null when something else stands there, or nothing. */
export const textOr = (object: Json, key: string): string | null => {
  const value = object[key]
  return isText(value) ? value : null
}

/** Why a text is no JSON value that can be used. `cut`: it begins like one and stops in its middle. */
export type JsonFault = "not_json" | "cut" | "too_deep"

/** Deeper values end recursive code (`JSON.stringify`, a schema) in place of a sentence. No real answer nests so. */
export const nestingLimit = 512

/** What brackets and quotes say about a text, whether it can be parsed or not. */
interface Shape {
  /** Levels of lists and objects at the deepest place. */
  readonly depth: number
  /** A value, or a text in it, was begun and not ended. */
  readonly isOpen: boolean
}

const shapeOf = (text: string): Shape => {
  let level = 0
  let depth = 0
  let inString = false
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charCodeAt(at)
    if (inString) {
      if (char === 0x5c) at += 1
      else if (char === 0x22) inString = false
    } else if (char === 0x22) inString = true
    else if (char === 0x7b || char === 0x5b) depth = Math.max(depth, (level += 1))
    else if (char === 0x7d || char === 0x5d) level -= 1
  }
  return { depth, isOpen: inString || level > 0 }
}

const faultOf = (text: string): JsonFault => (/^\s*[{["]/.test(text) && shapeOf(text).isOpen ? "cut" : "not_json")

/** Whether a parsed value has more levels of lists and objects than this. Goes no deeper than the limit itself. */
const isDeeperThan = (value: unknown, limit: number): boolean => {
  if (typeof value !== "object" || value === null) return false
  if (limit === 0) return true
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) if (isDeeperThan(value[at], limit - 1)) return true
    return false
  }
  for (const key in value) if (isDeeperThan(Reflect.get(value, key), limit - 1)) return true
  return false
}

const failed = (fault: JsonFault): Result.Result<never, JsonFault> => Result.fail(fault)

export const parse = (text: string, limit: number = nestingLimit): Result.Result<unknown, JsonFault> => {
  // A level takes two characters at least: only a long text can be too deep.
  const isLong = text.length > 2 * limit
  try {
    const value: unknown = JSON.parse(text)
    return isLong && isDeeperThan(value, limit) ? failed("too_deep") : Result.succeed(value)
  } catch {
    return failed(isLong && shapeOf(text).depth > limit ? "too_deep" : faultOf(text))
  }
}

export const isJson = (text: string): boolean => Result.isSuccess(parse(text))

/** Whether a text ends like an object or a list. */
export const endsLikeBody = (text: string): boolean => /[}\]]\s*$/.test(text.slice(-64))

/** A text that ends like an object or a list, and is one: what follows it can only be blanks. */
export const isWholeBody = (text: string): boolean => endsLikeBody(text) && isJson(text)

/** The value, or the text itself when it is no JSON. */
export const parsedOrText = (text: string): unknown => Result.getOrElse(parse(text), () => text)

/** The object a text holds; null = it holds something else, or is no JSON. */
export const parsedObject = (text: string): Json | null => {
  const parsed = parse(text)
  return Result.isSuccess(parsed) && isObject(parsed.success) ? parsed.success : null
}
