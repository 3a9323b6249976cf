/** What an answer tells, as Anthropic's messages API says it. */
import { isObject, parsedObject, type Json } from "../../../../domain/chat/json.ts"
import type { AnswerWriter } from "./AnswerWriter.ts"
import type { Finish, Piece, Pieces } from "./Telling.ts"
import { wholeOf } from "./Whole.ts"

const stops: { readonly [F in Finish]: string } = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  content_filter: "refusal"
}

const count = (object: unknown, key: string): number => {
  const value = isObject(object) ? object[key] : undefined
  return typeof value === "number" ? value : 0
}

/** This API counts cached and written tokens beside the input, not in it. */
const usageOf = (usage: Json | null): Json => {
  if (usage === null) return {}
  const cached = count(usage["prompt_tokens_details"], "cached_tokens")
  const written = count(usage["prompt_tokens_details"], "cache_creation_tokens")
  return {
    input_tokens: count(usage, "prompt_tokens") - cached - written,
    output_tokens: usage["completion_tokens"],
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: written
  }
}

const message = (fields: Json): Json => ({
  id: "msg_r",
  type: "message",
  role: "assistant",
  model: "m",
  content: [],
  stop_reason: null,
  stop_sequence: null,
  ...fields
})

/** Error types of this API by the codes that say the same on the others. */
const errorTypes: Readonly<Record<string, string>> = {
  rate_limit_exceeded: "rate_limit_error",
  overloaded: "overloaded_error",
  overloaded_error: "overloaded_error"
}

const errorOf = (error: Json): Json => ({
  type: "error",
  error: {
    type: errorTypes[String(error["type"])] ?? errorTypes[String(error["code"])] ?? "api_error",
    message: "synthetic"
  }
})

/** Chunks of one answer, turned into events one after the other. Text and thinking alternate; calls may interleave. */
export class MessagesWriter implements AnswerWriter {
  private hasBegun = false
  private isRefusal = false
  private finish: Finish | null = null
  private usage: Json | null = null
  private isOver = false
  /** Blocks that are open, by what they hold. */
  private readonly open = new Map<string, number>()
  private blocks = 0

  private begin(usage: Json | null): ReadonlyArray<Json> {
    if (this.hasBegun) return []
    this.hasBegun = true
    return [{ type: "message_start", message: message({ usage: usageOf(usage) }) }]
  }

  private close(isClosed: (key: string) => boolean): ReadonlyArray<Json> {
    const closed = [...this.open].filter(([key]) => isClosed(key))
    for (const [key] of closed) this.open.delete(key)
    return closed.map(([, index]) => ({ type: "content_block_stop", index }))
  }

  /** A delta in the block of this name, which is begun when it is not open. */
  private inBlock(key: string, content: Json, delta: Json | null): ReadonlyArray<Json> {
    const before = this.open.get(key)
    const index = before ?? this.blocks
    const deltas = delta === null ? [] : [{ type: "content_block_delta", index, delta }]
    if (before !== undefined) return deltas
    const isCall = key.startsWith("call")
    const begun = [
      ...this.close((other) => !other.startsWith("call") || !isCall),
      { type: "content_block_start", index, content_block: content }
    ]
    this.open.set(key, index)
    this.blocks += 1
    return [...begun, ...deltas]
  }

  private closing(): ReadonlyArray<Json> {
    if (this.finish === null || this.isOver) return []
    this.isOver = true
    const stop_reason = this.isRefusal ? "refusal" : stops[this.finish]
    return [
      { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: usageOf(this.usage) },
      { type: "message_stop" }
    ]
  }

  private eventsOf(piece: Piece): ReadonlyArray<Json> {
    switch (piece._tag) {
      case "Begun":
        return []
      case "Reasoning":
        return this.inBlock(
          "thinking",
          { type: "thinking", thinking: "", signature: "" },
          { type: "thinking_delta", thinking: piece.text }
        )
      case "Refusal":
      case "Text":
        this.isRefusal ||= piece._tag === "Refusal"
        return this.inBlock("text", { type: "text", text: "" }, { type: "text_delta", text: piece.text })
      case "Call":
        return this.inBlock(
          `call ${piece.index}`,
          { type: "tool_use", id: piece.id, name: piece.name, input: {} },
          piece.args === "" ? null : { type: "input_json_delta", partial_json: piece.args }
        )
      case "Finish":
        this.finish = piece.reason
        return this.close(() => true)
      case "Usage":
        this.usage = piece.usage
        return this.finish === null ? [{ type: "message_delta", delta: {}, usage: usageOf(piece.usage) }] : []
      case "Error":
        return [errorOf(piece.error)]
      case "End":
        return this.closing()
    }
  }

  write(pieces: Pieces): string {
    const usage = pieces.find((piece) => piece._tag === "Usage")?.usage ?? null
    return textOf([...this.begin(usage), ...pieces.flatMap((piece) => this.eventsOf(piece))])
  }

  end(): string {
    return textOf(this.closing())
  }
}

const textOf = (events: ReadonlyArray<Json>): string =>
  events.map((event) => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`).join("")

export const messagesBody = (pieces: Pieces): Json => {
  const { reasoning, text, refusal, calls, finish, usage, error } = wholeOf(pieces)
  if (error !== null) return errorOf(error)
  const said = refusal ?? text
  return message({
    content: [
      ...(reasoning === null ? [] : [{ type: "thinking", thinking: reasoning, signature: "s" }]),
      ...(said === null ? [] : [{ type: "text", text: said }]),
      ...calls.map(({ id, name, args }) => ({ type: "tool_use", id, name, input: parsedObject(args) ?? {} }))
    ],
    stop_reason: refusal !== null ? "refusal" : finish === null ? null : stops[finish],
    ...(usage === null ? {} : { usage: usageOf(usage) })
  })
}
