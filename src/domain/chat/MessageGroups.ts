/**
 * Messages in units that must not be torn: an assistant message with tool calls and all its results are one unit, paired
 * by adjacency (ids may repeat across turns). Every other message is a unit of its own.
 */
import { isAssistant, isSystem, type Message } from "./Message.ts"

export type MessageGroup = readonly [Message, ...Array<Message>]

const hasCalls = (message: Message): boolean =>
  isAssistant(message) && message.tool_calls !== undefined && message.tool_calls.length > 0

/** The messages cut into units, in order. Joining them gives the messages again. */
export const groupsOf = (messages: ReadonlyArray<Message>): ReadonlyArray<MessageGroup> => {
  const groups: Array<[Message, ...Array<Message>]> = []
  for (const message of messages) {
    const last = groups.at(-1)
    if (message.role === "tool" && last !== undefined && hasCalls(last[0])) last.push(message)
    else groups.push([message])
  }
  return groups
}

/** Number of system messages at the front. They stay first and unchanged. */
export const leadingSystem = (messages: ReadonlyArray<Message>): number => {
  const first = messages.findIndex((message) => !isSystem(message))
  return first === -1 ? messages.length : first
}

export interface Split {
  readonly system: ReadonlyArray<Message>
  /** What a summary replaces; empty when there is nothing to compact. */
  readonly old: ReadonlyArray<Message>
  readonly recent: ReadonlyArray<Message>
}

/** Whole units from the end, at least `keep` messages, stay; what lies between them and the system prompt is old. */
export const splitForCompaction = (messages: ReadonlyArray<Message>, keep: number): Split => {
  const head = leadingSystem(messages)
  const groups = groupsOf(messages.slice(head))
  let kept = 0
  let from = groups.length
  for (const group of groups.toReversed()) {
    if (kept >= keep) break
    from -= 1
    kept += group.length
  }
  return {
    system: messages.slice(0, head),
    old: groups.slice(0, from).flat(),
    recent: groups.slice(from).flat()
  }
}

/**
 * First fault of the pairing of tool calls and results, as a sentence; null = every call has exactly one result right
 * behind it and every result has a call.
 */
export const unpaired = (messages: ReadonlyArray<Message>): string | null => {
  let open: Array<string> = []
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      const at = open.indexOf(message.tool_call_id)
      if (at === -1) return `messages[${index}]: the tool result ${message.tool_call_id} answers no call just before it`
      open.splice(at, 1)
      continue
    }
    if (open.length > 0) return `messages[${index}]: the tool call ${open[0]} has no result before it`
    open = isAssistant(message) ? (message.tool_calls ?? []).map((call) => call.id) : []
  }
  return open.length === 0 ? null : `the tool call ${open[0]} has no result`
}
