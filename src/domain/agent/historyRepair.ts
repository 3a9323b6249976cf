/**
 * A history as it is found after a crash may hold tool calls without results; no provider takes it. Every such call gets
 * one result, in call order. Nothing else is changed, and a valid history comes back as it is.
 */
import { isAssistant, type Message, type MessageToolCall } from "../chat/Message.ts"
import { groupsOf } from "../chat/MessageGroups.ts"
import { interrupted, toMessage, type ToolResult } from "./ToolResult.ts"

export interface Repaired {
  readonly messages: ReadonlyArray<Message>
  /** Calls that found no result, with the one they got. */
  readonly added: ReadonlyArray<{ readonly call: MessageToolCall; readonly result: ToolResult }>
}

export const repairHistory = (messages: ReadonlyArray<Message>): Repaired => {
  const added: Array<Repaired["added"][number]> = []
  const repaired = groupsOf(messages).flatMap((group): ReadonlyArray<Message> => {
    const [first, ...found] = group
    const calls = isAssistant(first) ? (first.tool_calls ?? []) : []
    if (calls.length === 0) return group
    const left = [...found]
    const results = calls.map((call): Message => {
      const at = left.findIndex((message) => message.role === "tool" && message.tool_call_id === call.id)
      const [result] = at === -1 ? [] : left.splice(at, 1)
      if (result !== undefined) return result
      added.push({ call, result: interrupted })
      return toMessage(call, interrupted)
    })
    return [first, ...results, ...left]
  })
  return added.length === 0 ? { messages, added } : { messages: repaired, added }
}
