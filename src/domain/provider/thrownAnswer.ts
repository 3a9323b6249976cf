/**
 * What a call threw that is no chat (an embedding, a picture, a file), as a failure: read by the one classifier from what
 * the error holds of the answer. SDKs, fetch and effect/http differ in the place, not in the facts: a status, headers, a
 * body. An error without any of them, and without a network code, is a program's own and no failure of a provider.
 */
import { isObject, isText, parsedOrText, type Json } from "../chat/json.ts"
import { isModelError, makeModelError, type Failure, type ModelError } from "../failure/ModelError.ts"
import { networkCode } from "../failure/networkCode.ts"
import { classifyAnswer } from "./classify.ts"
import type { ProviderProfile } from "./ProviderProfile.ts"

interface Found {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

const isPair = (value: unknown): value is readonly [string, string] =>
  Array.isArray(value) && isText(value[0]) && isText(value[1])

/** Headers of the platform are pairs; others are an object. Names in lower case. */
const headersOf = (headers: unknown): Readonly<Record<string, string>> => {
  if (typeof headers !== "object" || headers === null) return {}
  const pairs: Iterable<unknown> = Symbol.iterator in headers ? (headers as Iterable<unknown>) : Object.entries(headers)
  return Object.fromEntries([...pairs].filter(isPair).map(([name, value]) => [name.toLowerCase(), value]))
}

const isFailedStatus = (status: unknown): status is number =>
  typeof status === "number" && Number.isInteger(status) && status >= 300 && status <= 599

const bodyOf = (value: unknown): unknown => (isText(value) ? parsedOrText(value) : (value ?? null))

/** Where errors keep their answer: themselves (SDKs), `response` (a Response), `reason.response` (effect/http). */
const placesOf = (error: Json): ReadonlyArray<unknown> => {
  const reason = error["reason"]
  return [error, error["response"], ...(isObject(reason) ? [reason["response"], reason] : [])]
}

const answerIn = (error: Json): Found | null => {
  for (const place of placesOf(error)) {
    if (!isObject(place)) continue
    const status = place["status"] ?? place["statusCode"]
    if (!isFailedStatus(status)) continue
    const body = error["error"] ?? error["body"] ?? error["responseBody"] ?? error["data"] ?? place["data"]
    return { status, headers: headersOf(place["headers"] ?? error["responseHeaders"]), body: bodyOf(body) }
  }
  return null
}

/** SDKs have one class for failed answers and lost lines: these have the places of an answer, and none. */
const isUnanswered = (error: Json): boolean =>
  "status" in error && "headers" in error && "error" in error && error["status"] === undefined

const isTimeout = (error: Json): boolean => error["name"] === "TimeoutError" || error["_tag"] === "TimeoutError"

const deepest = 5

/** The error and what it wraps, outside in. */
const chainOf = (error: unknown): ReadonlyArray<Json> => {
  const chain: Array<Json> = []
  let current = error
  while (isObject(current) && chain.length < deepest && !chain.includes(current)) {
    chain.push(current)
    current = current["cause"]
  }
  return chain
}

/** A lost line; null = the error is of no network. */
const lineOf = (error: unknown, chain: ReadonlyArray<Json>): Omit<Failure, "model"> | null => {
  if (chain.some(isTimeout)) return { kind: "timeout", status: null }
  const code = networkCode(error)
  if (code !== null) return { kind: "connection", status: null, code }
  // Without a cause it was taken back by its caller, or ran out of the SDK's own time.
  return chain.some((one) => isUnanswered(one) && one["cause"] !== undefined)
    ? { kind: "connection", status: null, code: "no_answer" }
    : null
}

/** The failure of a call; null = the error is none of a provider or of the network. */
export const failureOfThrown = (error: unknown, model: string, profile: ProviderProfile): ModelError | null => {
  if (isModelError(error)) return error
  const chain = chainOf(error)
  for (const one of chain) {
    if (isModelError(one)) return one
    const answer = answerIn(one)
    // The provider's words may echo a key that is not known here: they stay in the error itself.
    if (answer !== null) return makeModelError({ ...classifyAnswer(profile, answer), model, providerMessage: null })
  }
  const line = lineOf(error, chain)
  return line === null ? null : makeModelError({ ...line, model })
}
