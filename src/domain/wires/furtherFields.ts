/**
 * Fields a provider sends beyond those that have a place of their own: kept beside a reply, whether it came as one body
 * or in pieces. Pieces are joined here so that both ways give the same.
 */
import { isCount, isObject, isText, type Json } from "../chat/json.ts"

export type Fields = Record<string, unknown>

const none: Json = Object.freeze({})

/** A field may have the name of what every object has: an assignment to that one is none. */
const setOwn = (fields: Fields, key: string, value: unknown): void => {
  if (key === "__proto__")
    Object.defineProperty(fields, key, { value, enumerable: true, writable: true, configurable: true })
  else fields[key] = value
}

/** Texts that come in pieces; every other text is replaced by the latest. */
const growing = new Set(["text", "thinking", "summary", "content", "transcript", "data", "arguments", "input"])

/** Entries with the same index are pieces of one; entries without one are new. */
const joinedLists = (before: ReadonlyArray<unknown>, after: ReadonlyArray<unknown>): ReadonlyArray<unknown> => {
  const list = [...before]
  for (const entry of after) {
    const index = isObject(entry) ? entry["index"] : undefined
    const at = isCount(index) ? list.findIndex((one) => isObject(one) && isSameEntry(one, entry)) : -1
    if (at === -1) list.push(entry)
    else list[at] = joined("", list[at], entry)
  }
  return list
}

const isSameEntry = (one: Json, other: unknown): boolean =>
  isObject(other) &&
  one["index"] === other["index"] &&
  (one["type"] ?? other["type"]) === (other["type"] ?? one["type"])

const joined = (key: string, before: unknown, after: unknown): unknown => {
  if (Array.isArray(before) && Array.isArray(after)) return joinedLists(before, after)
  if (isObject(before) && isObject(after)) return withPieces({ ...before }, after)
  return isText(before) && isText(after) && growing.has(key) ? before + after : after
}

/** Adds pieces of a message, by key; null says nothing. */
export const withPieces = (fields: Fields, pieces: Json): Fields => {
  if (pieces === none) return fields
  for (const [key, value] of Object.entries(pieces)) {
    if (value === null || value === undefined) continue
    fields[key] = fields[key] === undefined ? value : joined(key, fields[key], value)
  }
  return fields
}

/** The fields of an object that are not among the known ones; null is nothing. Most objects have none of them. */
export const further = (object: Json, known: ReadonlySet<string>): Json => {
  let found: Record<string, unknown> | null = null
  for (const key of Object.keys(object)) {
    if (known.has(key) || object[key] === null) continue
    found ??= {}
    setOwn(found, key, object[key])
  }
  return found ?? none
}

/** Adds the same fields to those before them; a later value counts. */
export const addFurther = (fields: Fields, object: Json, known: ReadonlySet<string>): void => {
  for (const key in object) {
    const value = object[key]
    if (value !== null && !known.has(key) && Object.hasOwn(object, key)) setOwn(fields, key, value)
  }
}

/** Fields of an optional property: nothing when there are none. */
export const someOf = (fields: Json): Json | undefined => (Object.keys(fields).length === 0 ? undefined : fields)
