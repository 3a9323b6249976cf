/**
 * What a tool gave back, as text a model can read: texts as they are, JSON values as JSON, nothing as a word. What cannot be
 * text says why: a half-shown value would be read as the whole.
 */
import * as Result from "effect/Result"
import { wellFormed } from "../chat/codePoints.ts"

/** Characters of one result: more is no answer but a flood, in every further request. */
const maxLength = 1_000_000

/** Levels of lists and objects. */
const maxDepth = 100

/** Single values, those of lists and objects counted one by one. */
const maxValues = 500_000

/** What a model reads when a tool gave back nothing. */
export const nothing = "(no output)"

const article = (name: string): string => (/^[aeiou]/i.test(name) ? `an ${name}` : `a ${name}`)

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null
}

const isBytes = (value: object): boolean => ArrayBuffer.isView(value) || value instanceof ArrayBuffer

const nameOf = (value: object): string => {
  const made: unknown = Reflect.get(value, "constructor")
  return typeof made === "function" && made.name !== "" ? made.name : "object"
}

/** An instance that JSON shows as `{}`: a Map, a Set, a Response. Instances with fields of their own are their fields. */
const isHollow = (value: object): boolean => !isPlain(value) && Object.keys(value).length === 0

const flawOfObject = (value: object, depth: number): string | null => {
  if (depth >= maxDepth) return `more than ${maxDepth} levels`
  if (isBytes(value)) return "bytes"
  if (value instanceof Error) return article(value.name)
  return !Array.isArray(value) && isHollow(value) ? article(nameOf(value)) : null
}

const flawOfPlain = (value: unknown): string | null => {
  if (typeof value === "bigint" || typeof value === "function" || typeof value === "symbol")
    return article(typeof value)
  return typeof value === "number" && !Number.isFinite(value) ? `the number ${value}` : null
}

/** Why a value has no place in JSON, or is dropped there in silence; null = it has one. */
const flawOf = (root: unknown): string | null => {
  // What is shared is written each time: a small value may unfold to one without end.
  let left = maxValues
  const look = (value: unknown, above: ReadonlyArray<object>): string | null => {
    left -= 1
    if (left < 0) return `more than ${maxValues} values`
    if (typeof value !== "object" || value === null) return flawOfPlain(value)
    if (above.includes(value)) return "a cycle"
    if (!isBytes(value) && typeof Reflect.get(value, "toJSON") === "function") return null
    const own = flawOfObject(value, above.length)
    if (own !== null) return own
    for (const one of Object.values(value)) {
      const flaw = look(one, [...above, value])
      if (flaw !== null) return flaw
    }
    return null
  }
  return look(root, [])
}

const measured = (text: string): Result.Result<string, string> =>
  text.length <= maxLength
    ? Result.succeed(wellFormed(text))
    : Result.fail(`the result has ${text.length} characters, more than ${maxLength}`)

const jsonOf = (value: unknown): Result.Result<string, string> => {
  // Getters, proxies and `toJSON` are a guest's code.
  const flaw = Result.try(() => flawOf(value))
  if (Result.isFailure(flaw)) return Result.fail("the result cannot be read")
  if (flaw.success !== null) return Result.fail(`the result is no JSON value: it holds ${flaw.success}`)
  const json = Result.try((): string | undefined => JSON.stringify(value))
  if (Result.isFailure(json)) return Result.fail("the result is no JSON value")
  return json.success === undefined ? Result.succeed(nothing) : measured(json.success)
}

/** The text, or why there is none. */
export const textOf = (value: unknown): Result.Result<string, string> => {
  if (value === undefined) return Result.succeed(nothing)
  return typeof value === "string" ? measured(value) : jsonOf(value)
}
