/** The healthy answer of the wall: one text of sixty words, one stream event per word, in each of the three wires. */

export type WireName = "chat" | "responses" | "messages"

export const words: ReadonlyArray<string> = Array.from({ length: 60 }, (_, index) =>
  index === 59 ? "word60." : `word${String(index + 1).padStart(2, "0")} `
)
export const wholeText = words.join("")

export const pathOf: Readonly<Record<WireName, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages"
}

/** An answer in pieces: what comes before the first word, each word, and what makes it whole. */
export interface Answer {
  readonly head: ReadonlyArray<string>
  readonly word: (index: number) => string
  readonly tail: ReadonlyArray<string>
}

const promptTokens = 12

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
const named = (event: { readonly type: string; readonly [field: string]: unknown }): string =>
  `event: ${event.type}\n${data(event)}`

const chat = (model: string): Answer => {
  const chunk = (delta: object, finish: string | null = null) =>
    data({
      id: "chatcmpl-wall",
      object: "chat.completion.chunk",
      created: 1,
      model,
      choices: [{ index: 0, delta, finish_reason: finish }]
    })
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: words.length,
    total_tokens: promptTokens + words.length
  }
  return {
    head: [chunk({ role: "assistant", content: "" })],
    word: (index) => chunk({ content: words[index] }),
    tail: [
      chunk({}, "stop"),
      data({ id: "chatcmpl-wall", object: "chat.completion.chunk", created: 1, model, choices: [], usage }),
      "data: [DONE]\n\n"
    ]
  }
}

const messages = (model: string): Answer => ({
  head: [
    named({
      type: "message_start",
      message: {
        id: "msg_wall",
        type: "message",
        role: "assistant",
        model,
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: promptTokens, output_tokens: 1 }
      }
    }),
    named({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } })
  ],
  word: (index) => named({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: words[index] } }),
  tail: [
    named({ type: "content_block_stop", index: 0 }),
    named({
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { output_tokens: words.length }
    }),
    named({ type: "message_stop" })
  ]
})

const responses = (model: string): Answer => {
  const item = { id: "msg_wall", type: "message", role: "assistant" }
  const part = (text: string) => ({ type: "output_text", text, annotations: [] })
  const response = (status: string, output: ReadonlyArray<object>, usage: object | null) => ({
    id: "resp_wall",
    object: "response",
    created_at: 1,
    status,
    error: null,
    incomplete_details: null,
    model,
    output,
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
    store: false,
    usage
  })
  const place = { item_id: item.id, output_index: 0, content_index: 0 }
  const usage = {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: words.length,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: promptTokens + words.length
  }
  const done = { ...item, status: "completed", content: [part(wholeText)] }
  const event = (sequence: number, type: string, rest: object) => named({ type, sequence_number: sequence, ...rest })
  return {
    head: [
      event(0, "response.created", { response: response("in_progress", [], null) }),
      event(1, "response.in_progress", { response: response("in_progress", [], null) }),
      event(2, "response.output_item.added", {
        output_index: 0,
        item: { ...item, status: "in_progress", content: [] }
      }),
      event(3, "response.content_part.added", { ...place, part: part("") })
    ],
    word: (index) => event(4 + index, "response.output_text.delta", { ...place, delta: words[index], logprobs: [] }),
    tail: [
      event(64, "response.output_text.done", { ...place, text: wholeText, logprobs: [] }),
      event(65, "response.content_part.done", { ...place, part: part(wholeText) }),
      event(66, "response.output_item.done", { output_index: 0, item: done }),
      event(67, "response.completed", { response: response("completed", [done], usage) })
    ]
  }
}

const answers: Readonly<Record<WireName, (model: string) => Answer>> = { chat, responses, messages }

export const answerOf = (wire: WireName, model: string): Answer => answers[wire](model)

/** An error in the body of an answer, as each API writes it. */
export const errorOf = (wire: WireName, type: string, code: string | null, message: string): unknown =>
  wire === "messages"
    ? { type: "error", error: { type, message, ...(code === null ? {} : { code }) } }
    : { error: { message, type, param: null, code } }
