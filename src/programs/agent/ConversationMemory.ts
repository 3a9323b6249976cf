/** A Conversation in memory. */
import * as Effect from "effect/Effect"
import type { Message, MessageInput } from "../../domain/chat/Message.ts"
import type { Conversation } from "../../services/Conversation.ts"

/**
 * The given array is never changed; it may be typed by the `openai` package (what cannot be sent is told by the request). `onChange` is told the history after every change; it must not fail (a session file
 * writes itself so).
 */
export const make = (
  initial: ReadonlyArray<MessageInput> = [],
  onChange: (messages: ReadonlyArray<Message>) => Effect.Effect<void> = () => Effect.void
): Effect.Effect<Conversation> =>
  Effect.sync(() => {
    // One immutable array at a time: whoever has read it keeps what was true then.
    let messages = initial as ReadonlyArray<Message>
    const set = (next: ReadonlyArray<Message>): Effect.Effect<void> =>
      Effect.suspend(() => {
        messages = next
        return onChange(next)
      })
    return {
      messages: Effect.sync(() => messages),
      append: (more) => (more.length === 0 ? Effect.void : Effect.suspend(() => set([...messages, ...more]))),
      replace: set
    }
  })
