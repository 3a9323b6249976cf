/** A run that keeps its history in one file of JSON, whole, after every change. What is in flight when it is killed is lost. */
import * as Effect from "effect/Effect"
import * as SessionFile from "../../../layers/stores/SessionFile.ts"
import type { Message } from "../../../domain/chat/Message.ts"
import * as ConversationMemory from "../../agent/ConversationMemory.ts"
import { runAgent } from "../../agent/runAgent.ts"
import type { Input } from "./input.ts"
import type { Keeping, KeptTurn } from "./keeping.ts"

export const inSessionFile = Effect.fnUntraced(function* (
  path: string,
  input: Pick<Input, "prompt" | "resume">,
  news: ReadonlyArray<string>
) {
  const session = yield* SessionFile.open(path, input.resume)
  const kept =
    session.keptAs === null
      ? []
      : [`an unfinished session stood there and is kept: go on with it by --resume --session ${session.keptAs}`]
  const keeping: Keeping = {
    spentBefore: session.spentBefore,
    news: [...news, ...kept],
    begin: (spent) =>
      Effect.gen(function* () {
        const save = (messages: ReadonlyArray<Message>): Effect.Effect<void> =>
          Effect.flatMap(spent, (amount) => session.save(messages, amount))
        const conversation = yield* ConversationMemory.make(session.before, save)
        return {
          run: (options) => runAgent({ ...options, conversation }, input.prompt),
          save: Effect.flatMap(conversation.messages, save),
          fault: session.fault
        } satisfies KeptTurn
      })
  }
  return keeping
})
