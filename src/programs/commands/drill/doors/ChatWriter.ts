/** What an answer tells, as the chat API says it. */
import type { Json } from "../../../../domain/chat/json.ts"
import type { AnswerWriter } from "./AnswerWriter.ts"
import { wholeOf, type Whole } from "./Whole.ts"
import type { Pieces } from "./Telling.ts"

const head = { id: "r", object: "chat.completion.chunk", created: 1, model: "m" }

const chunk = (delta: Json, finish_reason: string | null = null): Json => ({
  ...head,
  choices: [{ index: 0, delta, finish_reason }]
})

const text = (value: unknown): string => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`

export class ChatWriter implements AnswerWriter {
  private readonly begunCalls = new Set<number>()

  private eventsOf(piece: Pieces[number]): ReadonlyArray<unknown> {
    switch (piece._tag) {
      case "Begun":
        return []
      case "Reasoning":
        return [chunk({ reasoning_content: piece.text })]
      case "Text":
        return [chunk({ content: piece.text })]
      case "Refusal":
        return [chunk({ refusal: piece.text })]
      case "Call": {
        const { index, id, name, args } = piece
        const isFirst = !this.begunCalls.has(index)
        this.begunCalls.add(index)
        const call = isFirst
          ? { index, id, type: "function", function: { name, arguments: args } }
          : { index, function: { arguments: args } }
        return [chunk({ tool_calls: [call] })]
      }
      case "Finish":
        return [chunk({}, piece.reason)]
      case "Usage":
        return [{ ...head, choices: [], usage: piece.usage }]
      case "Error":
        return [{ error: piece.error }]
      case "End":
        return ["[DONE]"]
    }
  }

  write(pieces: Pieces): string {
    return pieces
      .flatMap((piece) => this.eventsOf(piece))
      .map(text)
      .join("")
  }

  end(): string {
    return ""
  }
}

const callOf = ({ id, name, args }: Whole["calls"][number]): Json => ({
  id,
  type: "function",
  function: { name, arguments: args }
})

export const chatBody = (pieces: Pieces): Json => {
  const { reasoning, text: content, refusal, calls, finish, usage, error } = wholeOf(pieces)
  if (error !== null) return { error }
  return {
    id: "r",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [
      {
        index: 0,
        finish_reason: finish,
        message: {
          role: "assistant",
          content,
          ...(refusal === null ? {} : { refusal }),
          ...(reasoning === null ? {} : { reasoning_content: reasoning }),
          ...(calls.length === 0 ? {} : { tool_calls: calls.map(callOf) })
        }
      }
    ],
    ...(usage === null ? {} : { usage })
  }
}
