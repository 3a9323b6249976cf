/** What every wire shares: what can be wrong with an answer inside a 200, and the checks a reply must pass. Pure. */
import { isObject } from "../chat/json.ts"
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

export const empty = (usage: Usage.Usage | null = null): Flaw => ({ kind: "empty_reply", code: "empty_reply", usage })

export const isFlaw = (value: unknown): value is Flaw =>
  isObject(value) && "kind" in value && "code" in value && "usage" in value

export interface ReadContext {
  readonly profile: ProviderProfile
  /** The model asked for. */
  readonly model: string
  readonly requestId: string | null
}

/** Every call whole. Under a length stop one may be cut: what matters then is that there was one. */
export const flawOfCalls = (
  calls: ReadonlyArray<ToolCall>,
  finishReason: FinishReason,
  usage: Usage.Usage | null
): Flaw | null =>
  finishReason !== "length" && calls.some((call) => call.id === "" || call.name === "")
    ? flaw("tool_call_not_whole", usage)
    : null

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
