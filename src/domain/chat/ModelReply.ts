/** A validated reply of a model, and the parts it arrives in. A reply is whole or it is not a reply. */
import type { AssistantMessage, MessageToolCall, ProviderMeta, ReasoningPart } from "./Message.ts"
import type { Usage } from "./Usage.ts"

/**
 * Why the model stopped, in one spelling for all providers. `length`: the output budget is used up. `window_full`: a
 * larger budget would not help. `pause`: the provider wants the turn continued later. `refusal`: said by providers that have
 * such a reason; others send a refusal with `stop`. Whether the model refused is told by `reply.refusal`.
 */
export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter" | "refusal" | "window_full" | "pause"

/** A whole tool call. `arguments` is the JSON text exactly as the model wrote it; it may be unparsable. */
export interface ToolCall {
  readonly id: string
  readonly name: string
  readonly arguments: string
  readonly providerMeta?: ProviderMeta
}

export interface ModelReply {
  /** Visible text; null when there is none (a refusal, only tool calls). */
  readonly text: string | null
  /** The refusal's text; null when the model did not refuse. */
  readonly refusal: string | null
  /** Reasoning the provider made visible; never part of the history by itself. */
  readonly reasoning: string | null
  /** Reasoning that is bound to the model and must be sent back to it. */
  readonly reasoningParts: ReadonlyArray<ReasoningPart>
  readonly toolCalls: ReadonlyArray<ToolCall>
  readonly finishReason: FinishReason
  /**
   * Usage of the last request, also of a joined reply: the history's token estimate begins with it. What every request
   * used and cost, also dropped and failed ones, is in the `UsageSeen` events and in the trail of a failure.
   */
  readonly usage: Usage
  /** The model asked for. */
  readonly model: string
  /** The model the provider says it used; null when it says nothing. */
  readonly servedModel: string | null
  /** The provider's own id of the HTTP request; null when it gave none. */
  readonly providerRequestId: string | null
  /** The provider's id of the answer itself, where answers can be asked for again (the Responses API). */
  readonly responseId?: string
  /** Sentences for the user: a silently shortened prompt, a skipped chunk, a hint that was passed over. */
  readonly warnings: ReadonlyArray<string>
  /** Further fields of the provider's message (audio, images, annotations): kept in the history, bound to the model. */
  readonly extra?: Readonly<Record<string, unknown>>
  /** Further fields of the provider's answer (id, logprobs, citations, service tier): for the caller, not the history. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** What an adapter's stream emits. The last part is `End`; a stream without it is a failure. */
export type ModelPart =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Reasoning"; readonly text: string }
  | { readonly _tag: "ToolCall"; readonly call: ToolCall }
  /** A fragment of a tool call arrived: progress, nothing to show. */
  | { readonly _tag: "ToolCallDelta" }
  | { readonly _tag: "Usage"; readonly usage: Usage }
  /** The answer is kept where it is made, under this name: another process can take it up, and nobody is asked again. */
  | { readonly _tag: "Stored"; readonly name: string }
  /** Bytes arrived without content: a comment, a blank line, a role delta. */
  | { readonly _tag: "Life" }
  /**
   * The reply is whole; the line has not ended, and may still bring its last counts. The reply as it stands, for the case
   * that time is up before they come. `End` follows.
   */
  | { readonly _tag: "Whole"; readonly reply: ModelReply }
  | { readonly _tag: "End"; readonly reply: ModelReply }

const toMessageCall = (call: ToolCall): MessageToolCall => ({
  id: call.id,
  type: "function",
  function: { name: call.name, arguments: call.arguments },
  ...(call.providerMeta === undefined ? {} : { provider_meta: call.providerMeta })
})

/** The one message a merged reply adds to the canonical history. */
export const toMessage = (reply: ModelReply): AssistantMessage => ({
  role: "assistant",
  content: reply.text,
  ...(reply.refusal === null ? {} : { refusal: reply.refusal }),
  ...(reply.toolCalls.length === 0 ? {} : { tool_calls: reply.toolCalls.map(toMessageCall) }),
  ...(reply.reasoningParts.length === 0 ? {} : { reasoning_parts: reply.reasoningParts }),
  ...(reply.extra === undefined ? {} : { provider_meta: { ...reply.extra, model: reply.model } }),
  usage: reply.usage
})
