/**
 * The messages a turn has added to its history, from what its journal keeps: nothing of a history is stored twice. Pure.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { toMessage, type ModelReply } from "../chat/ModelReply.ts"
import type { Message } from "../chat/Message.ts"
import { interrupted, notRun, toMessage as toResultMessage, type ToolResult } from "./ToolResult.ts"
import { codecs, keys, type Prompt } from "./turnFacts.ts"

/** The value of a step that has an end; undefined = there is none. */
export type ReadFact = (key: string) => unknown

const read = <A>(codec: Schema.Codec<A, unknown>, value: unknown): A | null =>
  value === undefined ? null : Result.getOrElse(Schema.decodeUnknownResult(codec)(value), () => null)

const user = (content: Prompt): ReadonlyArray<Message> => (content === null ? [] : [{ role: "user", content }])

/** Results in call order; a call without one has the result it gets when a history is repaired. */
const resultsOf = (of: ReadFact, step: number, reply: ModelReply, isLast: boolean): ReadonlyArray<Message> =>
  reply.toolCalls.map((call, ordinal) => {
    const kept: ToolResult | null = read(codecs.result, of(keys.call(step, ordinal)))
    return toResultMessage(call, kept ?? (isLast ? interrupted : notRun("no result.")))
  })

/** What the turn added, up to where it is. */
export const addedBy = (of: ReadFact): ReadonlyArray<Message> => {
  const added: Array<Message> = [...user(read(codecs.prompt, of(keys.prompt)))]
  for (let step = 1; ; step += 1) {
    const fact = read(codecs.reply, of(keys.reply(step)))
    if (fact === null) return added
    const isLast = of(keys.reply(step + 1)) === undefined
    added.push(
      toMessage(fact.reply),
      ...resultsOf(of, step, fact.reply, isLast),
      ...user(read(codecs.text, of(keys.warned(step)))),
      ...user(read(codecs.optionalText, of(keys.more(step))))
    )
  }
}

/** The turn this one comes after; null = none. */
export const comesAfter = (of: ReadFact): string | null => read(codecs.text, of(keys.after))

/** The history a turn began with, when it comes after no other one. */
export const startOf = (of: ReadFact): ReadonlyArray<Message> => read(codecs.messages, of(keys.history)) ?? []
