/**
 * Which field of the request a refusal names: OpenAI's `param`, or the `loc` of a validation error. A name only, never
 * the message beside it. A name tells the prompt's size apart from a bad prompt only together with what is said of it:
 * `messages` alone is any fault of any message.
 */
import { isObject, type Json } from "../chat/json.ts"
import { countNames, refusedPart } from "../failure/RefusedPart.ts"
import { valuesAt } from "./AnswerPlaces.ts"

/** Codes that say a field is too long: OpenAI's error codes, and pydantic's error types. */
const lengthWords: ReadonlySet<string> = new Set([
  "string_above_max_length",
  "array_above_max_length",
  "string_too_long",
  "too_long",
  "too_many_tokens"
])

interface Refusal {
  readonly name: string
  readonly words: ReadonlyArray<unknown>
}

/** `["body", "messages", 0, "content"]` -> `messages.0.content`. */
const nameOfPath = (path: ReadonlyArray<unknown>): string =>
  (path[0] === "body" ? path.slice(1) : path).map(String).join(".")

/** A name of a field, not a sentence: what stands there may be anything. */
const nameShape = /^[\w.[\]]{1,80}$/

const refusalOf = (error: Json): ReadonlyArray<Refusal> => {
  const { param, loc, code, type } = error
  const name = Array.isArray(loc) ? nameOfPath(loc) : param
  return typeof name === "string" && nameShape.test(name) && name !== "None" ? [{ name, words: [code, type] }] : []
}

const places = ["/error", "/error/error", "/response/error", "", "/detail/error", "/detail", "/detail/*", "/errors/*"]

const refusalsIn = (body: unknown): ReadonlyArray<Refusal> =>
  places.flatMap((place) => valuesAt(body, place).filter(isObject).flatMap(refusalOf))

/** The field that is refused, by name; null = none is named. */
export const refusedField = (body: unknown): string | null => refusalsIn(body)[0]?.name ?? null

/** Whether the refusal says, by names and codes alone, that the prompt is too long. */
export const refusesPromptLength = (body: unknown): boolean =>
  refusalsIn(body).some(
    ({ name, words }) =>
      countNames.has(name) ||
      (refusedPart(name) === "prompt" && words.some((word) => typeof word === "string" && lengthWords.has(word)))
  )
