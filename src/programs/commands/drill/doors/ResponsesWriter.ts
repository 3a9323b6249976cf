/** What an answer tells, as the Responses API says it. */
import { isObject, type Json } from "../../../../domain/chat/json.ts"
import type { AnswerWriter } from "./AnswerWriter.ts"
import type { Finish, Piece, Pieces } from "./Telling.ts"
import { wholeOf, type Whole } from "./Whole.ts"

const count = (object: unknown, key: string): number => {
  const value = isObject(object) ? object[key] : undefined
  return typeof value === "number" ? value : 0
}

const usageOf = (usage: Json | null): Json | null =>
  usage === null
    ? null
    : {
        input_tokens: usage["prompt_tokens"],
        input_tokens_details: { cached_tokens: count(usage["prompt_tokens_details"], "cached_tokens") },
        output_tokens: usage["completion_tokens"],
        output_tokens_details: { reasoning_tokens: count(usage["completion_tokens_details"], "reasoning_tokens") },
        total_tokens: usage["total_tokens"] ?? count(usage, "prompt_tokens") + count(usage, "completion_tokens")
      }

const statusOf = (finish: Finish | null): string =>
  finish === "length" || finish === "content_filter" ? "incomplete" : "completed"

const reasonOf = (finish: Finish | null): Json | null =>
  finish === "length"
    ? { reason: "max_output_tokens" }
    : finish === "content_filter"
      ? { reason: "content_filter" }
      : null

const response = (fields: Json): Json => ({
  id: "resp_r",
  object: "response",
  created_at: 1,
  status: "in_progress",
  error: null,
  incomplete_details: null,
  instructions: null,
  metadata: {},
  model: "m",
  output: [],
  parallel_tool_calls: true,
  temperature: 1,
  tool_choice: "auto",
  tools: [],
  top_p: 1,
  usage: null,
  ...fields
})

/** An item of the answer while it grows. */
interface Growing {
  readonly id: string
  readonly at: number
  readonly key: string
  text: string
  readonly whole: (text: string, status: string) => Json
}

const partOf = (kind: "output_text" | "refusal", text: string): Json =>
  kind === "refusal" ? { type: "refusal", refusal: text } : { type: "output_text", text, annotations: [] }

export class ResponsesWriter implements AnswerWriter {
  private sequence = 0
  private hasBegun = false
  private isOver = false
  private finish: Finish | null = null
  private usage: Json | null = null
  private readonly items: Array<Growing> = []

  private event(type: string, fields: Json): string {
    const data = { type, sequence_number: this.sequence, ...fields }
    this.sequence += 1
    return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`
  }

  private begin(): string {
    if (this.hasBegun) return ""
    this.hasBegun = true
    return this.event("response.created", { response: response({}) })
  }

  /** The item of this name, which is begun when it is new. */
  private grow(
    key: string,
    make: (id: string) => Growing["whole"],
    started: (item: Growing) => string
  ): readonly [Growing, string] {
    const found = this.items.find((item) => item.key === key)
    if (found !== undefined) return [found, ""]
    const at = this.items.length
    const id = `item_${at}`
    const item: Growing = { id, at, key, text: "", whole: make(id) }
    this.items.push(item)
    const added = this.event("response.output_item.added", { output_index: at, item: item.whole("", "in_progress") })
    return [item, added + started(item)]
  }

  private message(kind: "output_text" | "refusal", delta: string): string {
    const [item, begun] = this.grow(
      kind,
      (id) => (text, status) => ({
        id,
        type: "message",
        role: "assistant",
        status,
        content: status === "in_progress" ? [] : [partOf(kind, text)]
      }),
      ({ id, at }) =>
        this.event("response.content_part.added", {
          item_id: id,
          output_index: at,
          content_index: 0,
          part: partOf(kind, "")
        })
    )
    item.text += delta
    const place = { item_id: item.id, output_index: item.at, content_index: 0 }
    return (
      begun + this.event(`response.${kind}.delta`, { ...place, delta, ...(kind === "refusal" ? {} : { logprobs: [] }) })
    )
  }

  private reasoning(delta: string): string {
    const [item, begun] = this.grow(
      "reasoning",
      (id) => (text) => ({ id, type: "reasoning", summary: text === "" ? [] : [{ type: "summary_text", text }] }),
      ({ id, at }) =>
        this.event("response.reasoning_summary_part.added", {
          item_id: id,
          output_index: at,
          summary_index: 0,
          part: { type: "summary_text", text: "" }
        })
    )
    item.text += delta
    const place = { item_id: item.id, output_index: item.at, summary_index: 0 }
    return begun + this.event("response.reasoning_summary_text.delta", { ...place, delta })
  }

  private call({ index, id: call_id, name, args }: Extract<Piece, { _tag: "Call" }>): string {
    const [item, begun] = this.grow(
      `call ${index}`,
      (id) => (text, status) => ({ id, type: "function_call", status, call_id, name, arguments: text }),
      () => ""
    )
    item.text += args
    const delta = { item_id: item.id, output_index: item.at, delta: args }
    return args === "" ? begun : begun + this.event("response.function_call_arguments.delta", delta)
  }

  private closing(): string {
    if (this.finish === null || this.isOver) return ""
    this.isOver = true
    const status = statusOf(this.finish)
    const output = this.items.map((item) => item.whole(item.text, status))
    const done = output.map((item, output_index) => this.event("response.output_item.done", { output_index, item }))
    const whole = response({
      status,
      incomplete_details: reasonOf(this.finish),
      output,
      usage: usageOf(this.usage)
    })
    return done.join("") + this.event(`response.${status}`, { response: whole })
  }

  private eventsOf(piece: Piece): string {
    switch (piece._tag) {
      case "Begun":
        return ""
      case "Reasoning":
        return this.reasoning(piece.text)
      case "Text":
        return this.message("output_text", piece.text)
      case "Refusal":
        return this.message("refusal", piece.text)
      case "Call":
        return this.call(piece)
      case "Finish":
        this.finish = piece.reason
        return ""
      case "Usage":
        this.usage = piece.usage
        return ""
      case "Error":
        return this.event("error", { error: piece.error })
      case "End":
        return this.closing()
    }
  }

  write(pieces: Pieces): string {
    return pieces.map((piece) => this.begin() + this.eventsOf(piece)).join("")
  }

  end(): string {
    return this.closing()
  }
}

const itemsOf = ({ reasoning, text, refusal, calls, finish }: Whole): ReadonlyArray<Json> => {
  const status = statusOf(finish)
  const message = (kind: "output_text" | "refusal", said: string): Json => ({
    id: `msg_${kind}`,
    type: "message",
    role: "assistant",
    status,
    content: [partOf(kind, said)]
  })
  return [
    ...(reasoning === null
      ? []
      : [{ id: "rs_r", type: "reasoning", summary: [{ type: "summary_text", text: reasoning }] }]),
    ...(refusal === null ? [] : [message("refusal", refusal)]),
    ...(text === null ? [] : [message("output_text", text)]),
    ...calls.map(({ id, name, args }, at) => ({
      id: `fc_${at}`,
      type: "function_call",
      status,
      call_id: id,
      name,
      arguments: args
    }))
  ]
}

export const responsesBody = (pieces: Pieces): Json => {
  const whole = wholeOf(pieces)
  if (whole.error !== null) return { error: whole.error }
  return response({
    status: statusOf(whole.finish),
    incomplete_details: reasonOf(whole.finish),
    output: itemsOf(whole),
    usage: usageOf(whole.usage)
  })
}
