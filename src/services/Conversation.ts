/**
 * The canonical history of one conversation. The caller owns it: after any ending of a run, also an interruption, it
 * holds a valid history and never a fragment, a continuation prompt or half a reply.
 */
import type * as Effect from "effect/Effect"
import type { Message } from "../domain/chat/Message.ts"

export interface Conversation {
  readonly messages: Effect.Effect<ReadonlyArray<Message>>
  readonly append: (messages: ReadonlyArray<Message>) => Effect.Effect<void>
  /** Only to repair a history that was found broken, and to put results next to their calls. */
  readonly replace: (messages: ReadonlyArray<Message>) => Effect.Effect<void>
}
