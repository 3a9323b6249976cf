/**
 * The messages of the current logical request: what the caller sent, perhaps compacted, plus fragments and continuation
 * prompts. They live only here; the canonical history never sees them. Every function returns a new window.
 */
import type { Message } from "./Message.ts"
import { splitForCompaction, unpaired, type Split } from "./MessageGroups.ts"

export interface RequestWindow {
  /** The caller's messages, or their compacted form. */
  readonly base: ReadonlyArray<Message>
  /** Texts of the truncated replies that are kept, in order. */
  readonly fragments: ReadonlyArray<string>
  readonly continuationPrompt: string
}

export const make = (messages: ReadonlyArray<Message>, continuationPrompt: string): RequestWindow => ({
  base: messages,
  fragments: [],
  continuationPrompt
})

/** What goes on the wire. It never ends with an assistant message of our making. */
export const messagesOf = (window: RequestWindow): ReadonlyArray<Message> =>
  window.fragments.length === 0
    ? window.base
    : [
        ...window.base,
        ...window.fragments.flatMap((fragment): ReadonlyArray<Message> => [
          { role: "assistant", content: fragment },
          { role: "user", content: window.continuationPrompt }
        ])
      ]

/** Keeps a fragment, to be followed by the continuation prompt. */
export const keep = (window: RequestWindow, fragment: string): RequestWindow => ({
  ...window,
  fragments: [...window.fragments, fragment]
})

/** The kept fragments joined verbatim. */
export const textOf = (window: RequestWindow): string => window.fragments.join("")

export const split = (window: RequestWindow, keepRecent: number): Split => splitForCompaction(window.base, keepRecent)

/** Usage counted the messages that are gone now: an estimate must not start from it. */
export const withoutUsage = (message: Message): Message => {
  if (message.role !== "assistant" || message.usage === undefined) return message
  const { usage: _, ...rest } = message
  return rest
}

/** What stands in the place of the messages a summary replaces. */
export const summaryMessage = (summary: string): Message => ({
  role: "user",
  content: `Summary of the conversation so far:\n\n${summary}`
})

/** A summary in place of the old messages: the system prompt stays first, the recent units stay whole. */
export const withSummary = (window: RequestWindow, parts: Split, summary: string): RequestWindow => ({
  ...window,
  base: [...parts.system, summaryMessage(summary), ...parts.recent.map(withoutUsage)]
})

/** First fault of the tool pairing of what would be sent; null = fine. Checked before every send. */
export const faultOf = (window: RequestWindow): string | null => unpaired(messagesOf(window))

/** Longest end of `before` that `after` begins with, at most `limit` characters: text a continuation repeats. */
export const overlapOf = (before: string, after: string, limit: number): number => {
  for (let length = Math.min(limit, before.length, after.length); length > 0; length -= 1)
    if (before.endsWith(after.slice(0, length))) return length
  return 0
}
