/** What an agent run tells while it works, for a display or a log. Plain values; bodies are in it. */
import type { Finding } from "./LoopGuard.ts"
import type { ModelReply, ToolCall } from "../chat/ModelReply.ts"
import type { ReplyPart } from "../chat/ReplyPart.ts"
import type { ToolResult } from "./ToolResult.ts"

export type AgentEvent =
  /** A model round begins; `step` counts from 1. */
  | { readonly _tag: "StepStarted"; readonly step: number }
  /** A part of a streamed reply; after a Reset what was shown since the last one is void. */
  | { readonly _tag: "PartSeen"; readonly part: ReplyPart }
  /** The one merged reply entered the history. */
  | { readonly _tag: "Replied"; readonly step: number; readonly reply: ModelReply }
  | { readonly _tag: "ToolStarted"; readonly call: ToolCall }
  | { readonly _tag: "ToolEnded"; readonly call: ToolCall; readonly result: ToolResult }
  /** A result entered the history, in call order; also for calls that were never run. */
  | { readonly _tag: "ResultAdded"; readonly call: ToolCall; readonly result: ToolResult }
  | { readonly _tag: "LoopWarned"; readonly finding: Finding }
  | { readonly _tag: "LoopBroke"; readonly finding: Finding }
