/**
 * Tool results with more than text (an image, a file) for the chat wire, whose results hold text only: what is no text
 * goes in a user message behind the results of the same reply, named by its call. Pure; the history stays as it is.
 */
import type { ContentPart, Message, ToolMessage } from "../chat/Message.ts"

const isTextPart = (part: ContentPart): boolean => part.type === "text"

/** The result as text, with a word in the place of what travels behind it. */
const textResult = (message: ToolMessage, parts: ReadonlyArray<ContentPart>): ToolMessage => {
  const texts = parts.filter(isTextPart)
  return { ...message, content: texts.length === 0 ? "The result follows below." : texts }
}

/** What is no text of one result, introduced by the id of its call. */
const behind = (message: ToolMessage, parts: ReadonlyArray<ContentPart>): ReadonlyArray<ContentPart> => {
  const others = parts.filter((part) => !isTextPart(part))
  return [{ type: "text", text: `From the result of ${message.tool_call_id}:` }, ...others]
}

const hasOthers = (message: Message): message is ToolMessage & { readonly content: ReadonlyArray<ContentPart> } =>
  message.role === "tool" && Array.isArray(message.content) && !message.content.every(isTextPart)

export const withTextResults = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  if (!messages.some(hasOthers)) return messages
  const sent: Array<Message> = []
  let waiting: Array<ContentPart> = []
  const flush = (): void => {
    if (waiting.length > 0) sent.push({ role: "user", content: waiting })
    waiting = []
  }
  for (const message of messages) {
    if (message.role !== "tool") flush()
    if (hasOthers(message)) {
      waiting.push(...behind(message, message.content))
      sent.push(textResult(message, message.content))
    } else sent.push(message)
  }
  flush()
  return sent
}
