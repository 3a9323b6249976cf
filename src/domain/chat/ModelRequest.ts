/** One logical request as the caller states it, and as it goes to one model. Never mutated by anybody. */
import type { AnswerLimits } from "./AnswerLimits.ts"
import type { Message, MessageInput, ToolInput, ToolSpec } from "./Message.ts"

/** `background` requests are shed first: the background preset applies to them. */
export type Priority = "foreground" | "background"

/** Who sends a request: the conversation, the summarizer of a compaction, or a side task. */
export type Role = "main" | "summarizer" | "background"

export interface ModelRequest {
  readonly messages: ReadonlyArray<Message>
  readonly tools?: ReadonlyArray<ToolSpec>
  /** The caller's cap on output tokens, a whole number from 1. No budget ever goes above it. */
  readonly maxOutputTokens?: number
  /** Default: foreground. */
  readonly priority?: Priority
  /**
   * Further fields of the provider's request body (temperature, response_format ...), sent as they are. `model`,
   * `messages`, `stream`, `max_tokens` and `max_completion_tokens` are holdfast's own: a request with one is refused.
   */
  readonly params?: Readonly<Record<string, unknown>>
}

/** A request as it comes to a public door: also with a history and tools typed by the `openai` package. */
export interface RequestInput extends Omit<ModelRequest, "messages" | "tools"> {
  readonly messages: ReadonlyArray<MessageInput>
  readonly tools?: ReadonlyArray<ToolInput>
}

/** A request addressed to one model with one budget. `maxOutputTokens` is a whole number >= 1, or null. */
export type WireRequest = Omit<ModelRequest, "maxOutputTokens"> & {
  readonly model: string
  /** null = no budget is sent. */
  readonly maxOutputTokens: number | null
  readonly role: Role
  /** The same for the same request that is sent again because its end is not known. Absent = it is never sent so. */
  readonly idempotencyKey?: string
  /** The answer to this request that a process before has left under this name (`Stored`). Absent = it is asked for anew. */
  readonly takeUp?: string
  /** How much of the answer is read. Default: `answerLimits`. */
  readonly limits?: AnswerLimits
}
