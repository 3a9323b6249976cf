/** What every wire shares: what can be wrong with an answer inside a 200, and the checks a reply must pass. Pure. */
import { digest } from "../chat/digest.ts"
import { isObject, type JsonFault } from "../chat/json.ts"
import type { FaultKind } from "../failure/FaultKind.ts"
import type { FinishReason, ModelPart, ModelReply, ToolCall } from "../chat/ModelReply.ts"
import type { ProviderProfile } from "../provider/ProviderProfile.ts"
import * as Usage from "../chat/Usage.ts"

/** Why an answer cannot be used. `code` says what is wrong with it; it is never a text of the provider. */
export interface Flaw {
  readonly kind: Extract<FaultKind, "malformed_response" | "empty_reply" | "interrupted">
  readonly code: string
  readonly usage: Usage.Usage | null
}

export const flaw = (code: string, usage: Usage.Usage | null = null): Flaw => ({
  kind: "malformed_response",
  code,
  usage
})

/** The answer ends in its middle, however politely the connection was closed. */
export const cut = (code: string, usage: Usage.Usage | null = null): Flaw => ({ kind: "interrupted", code, usage })

/** A body that is no JSON value to read: it may only have been cut. */
export const bodyFlaw = (fault: JsonFault): Flaw =>
  fault === "cut" ? cut("body_cut") : flaw(fault === "too_deep" ? "nested_too_deep" : "not_json")

/** A reply that says nothing. */
export const empty = (usage: Usage.Usage | null = null): Flaw => ({ kind: "empty_reply", code: "empty_reply", usage })

/** No reply at all: a body of nothing. */
export const emptyBody: Flaw = { kind: "empty_reply", code: "empty_body", usage: null }

export const isFlaw = (value: unknown): value is Flaw =>
  isObject(value) && "kind" in value && "code" in value && "usage" in value

export interface ReadContext {
  readonly profile: ProviderProfile
  /** The model asked for. */
  readonly model: string
  readonly requestId: string | null
  /** The caller's name of a tool that the request had to name otherwise on this wire. Default: the name itself. */
  readonly ownName?: (wireName: string) => string
}

/** What the calls of one answer are read with. */
export interface CallReading {
  readonly context: ReadContext
  readonly deviations: Deviations
  /** The answer's own id: made ids of calls begin from it. */
  readonly answerId: string
}

/** An id for a call that came without: the same for the same answer, whether it came whole or in a stream. */
export const madeCallId = (reading: CallReading, at: number, name: string, args: string): string => {
  reading.deviations.note("call_without_id")
  return `call_${digest([reading.context.requestId ?? "", reading.answerId, at, name, args].join("\n"))}`
}

/** Names in lower case. */
export type HeaderMap = Readonly<Record<string, string>>

/** What was not as the API says and was read all the same. */
export type Deviation =
  | "call_without_id"
  | "call_without_arguments"
  | "arguments_not_text"
  | "call_repeated"
  | "content_in_parts"
  | "content_as_text"
  | "object_missing"
  | "usage_not_a_count"
  | "role_missing"
  | "events_for_a_body"

const deviations: Readonly<Record<Deviation, string>> = {
  call_without_id: "A tool call came without an id and was given one.",
  call_without_arguments: "A tool call came without arguments: it is read as one with none.",
  arguments_not_text: "The arguments of a tool call came as an object in place of a text.",
  call_repeated: "A tool call was sent twice and is kept once.",
  content_in_parts: "The content came as a list of parts; its texts were joined.",
  content_as_text: "The content came as one text in place of a list of parts.",
  object_missing: "The answer did not say that it is a response: it is read as one.",
  usage_not_a_count: "A usage count of the provider is no count: it is unknown.",
  role_missing: "The message named no role: it is read as the assistant's.",
  events_for_a_body: "An event stream came in answer to a plain request and was read as one."
}

export const sentenceOf = (deviation: Deviation): string => deviations[deviation]

/** Every deviation is told once. */
export class Deviations {
  private readonly seen = new Set<Deviation>()

  note(deviation: Deviation): void {
    this.seen.add(deviation)
  }

  sentences(): ReadonlyArray<string> {
    return [...this.seen].map((deviation) => deviations[deviation])
  }
}

/** A finish word nobody knows, told by name as far as it is a word. */
export const unknownFinish = (word: unknown, usage: Usage.Usage | null): Flaw =>
  flaw(
    typeof word === "string" && /^[\w.:/-]{1,64}$/.test(word)
      ? `finish_reason_unknown:${word}`
      : "finish_reason_unknown",
    usage
  )

/**
 * Every call whole, and none missing where one is announced. Under a length stop one may be cut: what matters then is
 * that there was one.
 */
export const flawOfCalls = (
  calls: ReadonlyArray<ToolCall>,
  finishReason: FinishReason,
  usage: Usage.Usage | null
): Flaw | null => {
  if (finishReason === "tool_calls" && calls.length === 0) return flaw("tool_calls_missing", usage)
  if (finishReason === "length") return null
  if (calls.some((call) => call.name === "")) return flaw("tool_call_without_name", usage)
  return calls.some((call) => call.id === "") ? flaw("tool_call_not_whole", usage) : null
}

/** The parts of a reply that came whole, in the order a stream would have brought them. */
export const partsOf = (reply: ModelReply): ReadonlyArray<ModelPart> => [
  ...(reply.reasoning === null || reply.reasoning === ""
    ? []
    : [{ _tag: "Reasoning" as const, text: reply.reasoning }]),
  ...(reply.text === null || reply.text === "" ? [] : [{ _tag: "Text" as const, text: reply.text }]),
  ...reply.toolCalls.map((call) => ({ _tag: "ToolCall" as const, call })),
  ...(Usage.isKnown(reply.usage) ? [{ _tag: "Usage" as const, usage: reply.usage }] : []),
  { _tag: "End" as const, reply }
]
