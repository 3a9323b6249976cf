/** The history of an agent's conversation, in the hands of its caller: valid after any ending of a run. */
import * as Effect from "effect/Effect"
import type { Message, MessageInput } from "../domain/chat/Message.ts"
import type { Conversation } from "../services/Conversation.ts"

export class AgentConversation {
  #messages: ReadonlyArray<Message>

  /** The given array is never changed. */
  constructor(messages: ReadonlyArray<MessageInput> = []) {
    this.#messages = messages as ReadonlyArray<Message>
  }

  /** As it is now; a later change makes a new array. */
  get messages(): ReadonlyArray<Message> {
    return this.#messages
  }

  /** Said to a running agent, it is read in its next step. */
  append(...messages: ReadonlyArray<Message>): void {
    this.#messages = [...this.#messages, ...messages]
  }

  /** For the loop. */
  static port(of: AgentConversation): Conversation {
    return {
      messages: Effect.sync(() => of.#messages),
      append: (more) => Effect.sync(() => of.append(...more)),
      replace: (messages) =>
        Effect.sync(() => {
          of.#messages = messages
        })
    }
  }

  /** A durable turn has its history from its journal. */
  static take(of: AgentConversation, messages: ReadonlyArray<Message>): void {
    of.#messages = messages
  }
}
