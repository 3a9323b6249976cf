/**
 * One spelling per JSON value: object keys sorted, array order kept, 1.0 written as 1. Values are read, never changed.
 */
import * as Result from "effect/Result"
import { parse } from "../chat/json.ts"

/** The canonical text of a parsed JSON value. */
export const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null"
  const entries = Object.entries(value)
    .filter(([, entry]) => entry !== undefined)
    .sort(([left], [right]) => (left < right ? -1 : 1))
  return `{${entries.map(([key, entry]) => `${JSON.stringify(key)}:${canonical(entry)}`).join(",")}}`
}

/** Integers a double cannot hold: two of them may parse to the same number. */
const longNumbers = /\d{16,}/g

/**
 * The canonical text of a JSON text; text that is not JSON stands for itself. Digits beyond a double's precision are
 * kept beside it, so that two different large ids never become one.
 */
export const canonicalText = (text: string): string => {
  const parsed = parse(text)
  if (Result.isFailure(parsed)) return `raw:${text.trim()}`
  const long = text.match(longNumbers)
  return long === null ? canonical(parsed.success) : `${canonical(parsed.success)}#${long.join(",")}`
}
