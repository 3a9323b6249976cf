/** What the consumer of a recovered stream gets. Plain values, one array per network read; nothing validates them twice. */
import type { ModelReply } from "./ModelReply.ts"
import type { Usage } from "./Usage.ts"

export type NoticeAbout = "waiting" | "switched" | "compacting" | "heartbeat"

export type ReplyPart =
  | { readonly _tag: "TextDelta"; readonly text: string }
  | { readonly _tag: "ReasoningDelta"; readonly text: string }
  /** A whole tool call. It may still be dropped by a Reset: run it after Finish. */
  | { readonly _tag: "ToolCallReady"; readonly id: string; readonly name: string; readonly arguments: string }
  | { readonly _tag: "UsageSeen"; readonly usage: Usage }
  /** Something a user may want to see while nothing else moves. `text` is one sentence. */
  | {
      readonly _tag: "Notice"
      readonly about: NoticeAbout
      readonly text: string
      readonly attempt: number
      readonly remainingMs?: number
    }
  /** Drop everything shown since the beginning, or since the last Reset. */
  | { readonly _tag: "Reset" }
  /** The whole reply: the parts after the last Reset, joined. Always the last part. */
  | { readonly _tag: "Finish"; readonly reply: ModelReply }
