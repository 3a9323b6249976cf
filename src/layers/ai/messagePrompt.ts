/**
 * From the messages of an attempt to a prompt for a LanguageModel. A message that came from the caller's prompt is that
 * message again, with all its options; only what recovery has written (a fragment, a summary, what a continuation asks)
 * is made anew. Pure.
 */
import * as Prompt from "effect/ai/Prompt"
import { isObject, isText, parsedOrText } from "../../domain/chat/json.ts"
import { isAssistant, textOf, type ContentPart, type Message } from "../../domain/chat/Message.ts"
import type { Mapped } from "./promptMessages.ts"

const dataAddress = /^data:([^;,]+)[;,]/

const filePart = (part: ContentPart): ReadonlyArray<Prompt.FilePart> => {
  const held = part["image_url"] ?? part["file"]
  const address = isObject(held) ? (held["url"] ?? held["file_data"] ?? held["file_url"]) : undefined
  if (!isText(address)) return []
  const mediaType =
    dataAddress.exec(address)?.[1] ?? (part.type === "image_url" ? "image/*" : "application/octet-stream")
  return [Prompt.makePart("file", { mediaType, data: address.startsWith("data:") ? address : new URL(address) })]
}

const contentParts = (content: string | ReadonlyArray<ContentPart>): ReadonlyArray<Prompt.TextPart | Prompt.FilePart> =>
  isText(content)
    ? [Prompt.makePart("text", { text: content })]
    : content.flatMap((part): ReadonlyArray<Prompt.TextPart | Prompt.FilePart> =>
        isText(part["text"]) ? [Prompt.makePart("text", { text: part["text"] })] : filePart(part)
      )

/** Names of calls by their ids: a result of effect/ai says which tool it is of. */
type CallNames = Map<string, string>

const assistantParts = (message: Message, names: CallNames): ReadonlyArray<Prompt.AssistantMessagePart> => {
  const text = textOf(message)
  const calls = isAssistant(message) ? (message.tool_calls ?? []) : []
  for (const call of calls) names.set(call.id, call.function.name)
  return [
    ...(text === "" ? [] : [Prompt.makePart("text", { text })]),
    ...calls.map((call) =>
      Prompt.makePart("tool-call", {
        id: call.id,
        name: call.function.name,
        params: parsedOrText(call.function.arguments),
        providerExecuted: false
      })
    )
  ]
}

const messageOf = (message: Message, names: CallNames): Prompt.Message => {
  switch (message.role) {
    case "system":
    case "developer":
      return Prompt.makeMessage("system", { content: textOf(message) })
    case "user":
      return Prompt.makeMessage("user", { content: [...contentParts(message.content)] })
    case "assistant":
      return Prompt.makeMessage("assistant", { content: [...assistantParts(message, names)] })
    case "tool": {
      const { tool_call_id: id } = message
      const part = { id, name: names.get(id) ?? id, isFailure: false, providerExecuted: false, result: textOf(message) }
      return Prompt.makeMessage("tool", { content: [Prompt.makePart("tool-result", part)] })
    }
  }
}

const noteCalls = (from: Prompt.Message, names: CallNames): void => {
  if (from.role !== "assistant") return
  for (const part of from.content) if (part.type === "tool-call") names.set(part.id, part.name)
}

/** Where the message at `at` comes from, not before `since`; null = from no message of the caller. */
const sourceOf = (
  texts: ReadonlyArray<string>,
  at: number,
  known: ReadonlyArray<Known>,
  since: number
): number | null => {
  for (let index = since; index < known.length; index += 1) {
    const own = known[index]?.texts ?? []
    if (own.length > 0 && own.every((text, offset) => texts[at + offset] === text)) return index
  }
  return null
}

interface Known extends Mapped {
  readonly texts: ReadonlyArray<string>
}

export const promptOf = (messages: ReadonlyArray<Message>, mapped: ReadonlyArray<Mapped>): Prompt.Prompt => {
  const known = mapped.map((one): Known => ({ ...one, texts: one.to.map((message) => JSON.stringify(message)) }))
  const texts = messages.map((message) => JSON.stringify(message))
  const names: CallNames = new Map()
  const content: Array<Prompt.Message> = []
  let since = 0
  const take = (index: number): void => {
    const from = known[index]?.from
    if (from === undefined) return
    noteCalls(from, names)
    content.push(from)
  }
  for (let at = 0; at < messages.length;) {
    const source = sourceOf(texts, at, known, since)
    const message = messages[at]
    if (source === null) {
      if (message !== undefined) content.push(messageOf(message, names))
      at += 1
      continue
    }
    // What became no message of ours still stands before the next one that did.
    for (let index = since; index < source; index += 1) if (known[index]?.to.length === 0) take(index)
    take(source)
    at += known[source]?.to.length ?? 1
    since = source + 1
  }
  for (let index = since; index < known.length; index += 1) if (known[index]?.to.length === 0) take(index)
  return Prompt.fromMessages(content)
}
