import type { Verdict } from "../provider/classify.ts"
import type { FinishReason, ModelPart, ModelReply } from "../chat/ModelReply.ts"
import type { Usage } from "../chat/Usage.ts"
import type { Flaw } from "./wireReply.ts"

/** One wire's understanding of its events. */
export interface EventReader {
  /** Parts that events have brought; the assembler takes them out. */
  readonly parts: Array<ModelPart>
  readonly usage: Usage | null
  /** null = the wire has not said yet why it stopped: the stream is not whole. */
  readonly finishReason: FinishReason | null
  /** The wire's own end was read. */
  readonly done: boolean
  /** Returns what ends the stream early; null = nothing. */
  readonly onEvent: (name: string | undefined, data: string) => Flaw | Verdict | null
  /** The whole reply, once there is a finish reason; calls not announced yet are announced. */
  readonly reply: (finishReason: FinishReason) => ModelReply | Flaw
}
