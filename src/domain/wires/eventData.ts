/**
 * The data of one event, the same on every wire: a value to read, nothing at all, or what ends the stream. A line that
 * cannot be parsed may have held text or arguments: what follows it is not the answer that was given.
 */
import * as Result from "effect/Result"
import { isObject, isText, parse, type Json } from "../chat/json.ts"
import type { Usage } from "../chat/Usage.ts"
import { inBandFault, type Verdict } from "../provider/classify.ts"
import { cut, flaw, type Flaw, type HeaderMap, type ReadContext } from "./wireReply.ts"

export type EventData =
  | { readonly _tag: "Value"; readonly value: Json | ReadonlyArray<unknown> }
  | { readonly _tag: "Nothing" }
  | { readonly _tag: "Problem"; readonly problem: Flaw | Verdict }

const nothing: EventData = { _tag: "Nothing" }

const problem = (what: Flaw | Verdict): EventData => ({ _tag: "Problem", problem: what })

/** What gateways send to keep a line alive in place of a comment, or a comment that a relay has wrapped as data. */
const keepAlive =
  /^\s*:|^[\s:[("']*(ping|pong|keep[-_ ]?alive|heart[-_ ]?beat|noop|ok|connected|processing|waiting|done)\b[\s.:\])"']*$/i

/** Braces, or a quoted key: a piece of JSON and no sentence. */
const isPieceOfJson = (text: string): boolean => /^[{["]|[{}]|"\s*:/.test(text)

/** A server that says in words what went wrong, in place of an event. */
const saidInWords = (context: ReadContext, headers: HeaderMap, text: string): Verdict | Flaw => {
  const verdict = inBandFault(context.profile, { status: 200, headers, body: { error: text } })
  return verdict === null
    ? flaw("chunk_not_json")
    : { ...verdict, kind: "server_error", code: "words_for_an_event", providerMessage: text }
}

type EventValue = Json | ReadonlyArray<unknown>

/** The events of one stream, as far as they are the same on every wire. */
export class EventDataReader {
  private readonly context: ReadContext
  private readonly headers: HeaderMap
  /** An event has been read that reports no failure. */
  private hasBegun = false

  constructor(context: ReadContext, headers: HeaderMap) {
    this.context = context
    this.headers = headers
  }

  /** `name` is the event's own, `error` for failures. */
  read(name: string | undefined, data: string, usage: Usage | null): EventData {
    const { exact } = this.context.profile
    const parsed = parse(data)
    if (Result.isFailure(parsed)) {
      if (!exact && name !== "error" && keepAlive.test(data)) return nothing
      if (parsed.failure === "too_deep") return problem(flaw("nested_too_deep", usage))
      return isPieceOfJson(data.trim()) ? problem(cut("chunk_not_json", usage)) : this.words(name, data.trim(), usage)
    }
    const value = parsed.success
    if (typeof value === "object" && value !== null) {
      if (!Array.isArray(value) || value.length > 0) return this.value(name, value as EventValue)
      return exact ? problem(flaw("chunk_not_an_object", usage)) : nothing
    }
    if (isText(value) && value.trim() !== "") return this.words(name, value, usage)
    return exact ? problem(flaw("chunk_not_an_object", usage)) : nothing
  }

  private words(name: string | undefined, text: string, usage: Usage | null): EventData {
    if (name === "error") return problem(saidInWords(this.context, this.headers, text))
    if (this.context.profile.exact) return problem(cut("chunk_not_json", usage))
    return keepAlive.test(text) ? nothing : problem(saidInWords(this.context, this.headers, text))
  }

  private value(name: string | undefined, value: EventValue): EventData {
    const fault = this.fault(name, value)
    if (fault !== null) return problem(fault)
    this.hasBegun = true
    return { _tag: "Value", value }
  }

  /**
   * The failure that an event reports. To the letter of an API an unknown one in place of the whole stream is none of its
   * answers; behind the first event it can only be the server's.
   */
  private fault(name: string | undefined, value: EventValue): Verdict | null {
    // An event named so is a failure whatever it holds.
    const isNamed = name === "error" && isObject(value) && value["type"] !== "error" && !("error" in value)
    const body = isNamed ? { error: value } : value
    const place = this.context.profile.exact && !this.hasBegun ? "body" : "event"
    return inBandFault(this.context.profile, { status: 200, headers: this.headers, body }, place)
  }
}
