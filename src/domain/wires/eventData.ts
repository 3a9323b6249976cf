/**
 * The data of one event, the same on every wire: a value to read, nothing at all, or what ends the stream. A line that
 * cannot be parsed may have held text or arguments: what follows it is not the answer that was given.
 */
import * as Result from "effect/Result"
import { isText, parse, type Json } from "../chat/json.ts"
import type { Usage } from "../chat/Usage.ts"
import { inBandFault, type Verdict } from "../provider/classify.ts"
import { cut, flaw, type Flaw, type HeaderMap, type ReadContext } from "./wireReply.ts"

export type EventData =
  | { readonly _tag: "Value"; readonly value: Json | ReadonlyArray<unknown> }
  | { readonly _tag: "Nothing" }
  | { readonly _tag: "Problem"; readonly problem: Flaw | Verdict }

const nothing: EventData = { _tag: "Nothing" }

const problem = (what: Flaw | Verdict): EventData => ({ _tag: "Problem", problem: what })

/** What gateways send to keep a line alive in place of a comment. */
const keepAlive =
  /^[\s:[("']*(ping|pong|keep[-_ ]?alive|heart[-_ ]?beat|noop|ok|connected|processing|waiting|done)\b[\s.:\])"']*$/i

/** Braces, or a quoted key: a piece of JSON and no sentence. */
const isPieceOfJson = (text: string): boolean => /^[{["]|[{}]|"\s*:/.test(text)

/** A server that says in words what went wrong, in place of an event. */
export const saidInWords = (context: ReadContext, headers: HeaderMap, text: string): Verdict | Flaw => {
  const verdict = inBandFault(context.profile, { status: 200, headers, body: { error: text } })
  return verdict === null
    ? flaw("chunk_not_json")
    : { ...verdict, kind: "server_error", code: "words_for_an_event", providerMessage: text }
}

/** `name` is the event's own, `error` for failures. */
export const readEventData = (
  context: ReadContext,
  headers: HeaderMap,
  usage: Usage | null,
  name: string | undefined,
  data: string
): EventData => {
  const { exact } = context.profile
  const words = (text: string): EventData => {
    if (name === "error") return problem(saidInWords(context, headers, text))
    if (exact) return problem(cut("chunk_not_json", usage))
    return keepAlive.test(text) ? nothing : problem(saidInWords(context, headers, text))
  }
  const parsed = parse(data)
  if (Result.isFailure(parsed)) {
    if (!exact && name !== "error" && keepAlive.test(data)) return nothing
    if (parsed.failure === "too_deep") return problem(flaw("nested_too_deep", usage))
    return isPieceOfJson(data.trim()) ? problem(cut("chunk_not_json", usage)) : words(data.trim())
  }
  const value = parsed.success
  if (typeof value === "object" && value !== null) {
    if (!Array.isArray(value) || value.length > 0) return { _tag: "Value", value: value as Json }
    return exact ? problem(flaw("chunk_not_an_object", usage)) : nothing
  }
  if (isText(value) && value.trim() !== "") return words(value)
  return exact ? problem(flaw("chunk_not_an_object", usage)) : nothing
}
