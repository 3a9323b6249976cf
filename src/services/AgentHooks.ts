/** What a user may hang into an agent run. Each is read when a run begins; a retry of a request runs none of them. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Message } from "../domain/chat/Message.ts"
import type { ModelReply, ToolCall } from "../domain/chat/ModelReply.ts"

export interface Hooks {
  /** Sees the user's prompt before it enters the history and may change it. */
  readonly onUserPrompt?: (prompt: string) => Effect.Effect<string>
  /** Sees the final reply; a text sends the model back to work with that message, null lets it go. */
  readonly onStop?: (reply: ModelReply) => Effect.Effect<string | null>
  /** Asked before a tool with `approval: true`, together with all others of its reply before any of them runs. */
  readonly onApproval?: (call: ToolCall) => Effect.Effect<boolean>
}

export const AgentHooks = Context.Reference<Hooks>("holdfast/AgentHooks", { defaultValue: () => ({}) })

/** The system prompt of each step, instead of the history's own; null = the history's own. */
export const SystemPrompt = Context.Reference<Effect.Effect<string> | null>("holdfast/SystemPrompt", {
  defaultValue: () => null
})

/** What is sent of the history; it is given whole units and returns whole units. null = all of it. */
export const HistoryPreparation = Context.Reference<
  ((messages: ReadonlyArray<Message>) => Effect.Effect<ReadonlyArray<Message>>) | null
>("holdfast/HistoryPreparation", { defaultValue: () => null })

export interface Memory {
  /** What is worth remembering for this turn; it is told to the model beside the system prompt. null = nothing. */
  readonly recall: (messages: ReadonlyArray<Message>) => Effect.Effect<string | null>
  /** Learns from a turn that has ended well. */
  readonly learn: (messages: ReadonlyArray<Message>) => Effect.Effect<void>
}

/** Bound to the raw client, as a background request: a memory is never recovered. null = no memory. */
export const AgentMemory = Context.Reference<Memory | null>("holdfast/AgentMemory", { defaultValue: () => null })
