/**
 * A local estimate of prompt tokens: the last known usage in the history, plus what came after it by length. Good enough
 * to clamp a budget and to compare before and after; the provider has the last word.
 */
import * as Result from "effect/Result"
import { isAssistant, type ContentPart, type Message, type ToolSpec } from "./Message.ts"

/** Bytes of English text, code and JSON per token, rounded down so that estimates err to the large side. */
const bytesPerToken = 4
/** Tokens every message costs beside its text (role and separators). */
const perMessage = 4
/** A picture or file costs about this much; its base64 length says nothing. */
const perAttachment = 1_000

const tokensOf = (text: string): number => {
  let bytes = 0
  for (let index = 0; index < text.length; index += 1) bytes += text.charCodeAt(index) < 0x80 ? 1 : 2.5
  return Math.ceil(bytes / bytesPerToken)
}

const ofPart = (part: ContentPart): number => {
  const text = part["text"]
  return typeof text === "string" ? tokensOf(text) : perAttachment
}

/** Estimated tokens of one message. */
export const ofMessage = (message: Message): number => {
  const content = message.content
  const visible =
    typeof content === "string"
      ? tokensOf(content)
      : content === null || content === undefined
        ? 0
        : content.reduce((sum, part) => sum + ofPart(part), 0)
  if (!isAssistant(message)) return perMessage + visible
  const calls = (message.tool_calls ?? []).reduce(
    (sum, call) => sum + perMessage + tokensOf(call.function.name) + tokensOf(call.function.arguments),
    0
  )
  const thinking = (message.reasoning_parts ?? []).reduce((sum, part) => sum + tokensOf(part.text), 0)
  return perMessage + visible + calls + thinking
}

const ofTools = (tools: ReadonlyArray<ToolSpec>): number => {
  const text = tools.length === 0 ? "" : JSON.stringify(tools)
  return tokensOf(text)
}

/** Estimated prompt tokens of a request with these messages and tools. */
export const local = (messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>): number => {
  // Usage of a reply covers everything before it, tool schemas included, and the reply itself.
  for (let index = messages.length - 1; index >= 0; index -= 1) {
    const message = messages[index]
    if (message === undefined || !isAssistant(message)) continue
    const usage = message.usage
    if (usage === undefined || usage.promptTokens === null || usage.completionTokens === null) continue
    return messages
      .slice(index + 1)
      .reduce((sum, later) => sum + ofMessage(later), usage.promptTokens + usage.completionTokens)
  }
  return messages.reduce((sum, message) => sum + ofMessage(message), ofTools(tools))
}

type Estimate = typeof local

/**
 * A caller's estimate as a whole number from 0. One that throws, or gives no number, is replaced by the local one, and
 * its fault is told.
 */
export const guarded =
  (estimate: Estimate, tell: (fault: string) => void = () => undefined): Estimate =>
  (messages, tools) => {
    const tokens = Result.try(() => estimate(messages, tools))
    if (Result.isSuccess(tokens) && Number.isFinite(tokens.success)) return Math.max(0, Math.ceil(tokens.success))
    tell(Result.isFailure(tokens) ? String(tokens.failure) : `it gave ${String(tokens.success)}`)
    return Math.max(0, Math.ceil(local(messages, tools)))
  }
