import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Message } from "../../../src/domain/chat/Message.ts"
import * as ConversationMemory from "../../../src/programs/agent/ConversationMemory.ts"

const user = (content: string): Message => ({ role: "user", content })

it.effect("a conversation tells the whole history after every change, and nothing when nothing is added", () =>
  Effect.gen(function* () {
    const told: Array<ReadonlyArray<Message>> = []
    const given = Object.freeze([user("a")])
    const { append, replace, messages } = yield* ConversationMemory.make(given, (all) =>
      Effect.sync(() => told.push(all))
    )
    const before = yield* messages
    yield* append([])
    yield* append([user("b"), user("c")])
    yield* replace([user("d")])
    assert.deepStrictEqual(told, [[user("a"), user("b"), user("c")], [user("d")]])
    assert.deepStrictEqual([before, yield* messages], [[user("a")], [user("d")]])
  })
)
