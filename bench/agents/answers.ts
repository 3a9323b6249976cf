/** What a scripted provider says in each wire: one text or one tool call, as the events of a stream. */
export type WireName = "chat" | "responses" | "messages"

export type Turn =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Call"; readonly id: string; readonly name: string; readonly args: string }

/** A stream in order; `shown` counts the events until the first piece of text or of arguments is out. */
export interface Events {
  readonly all: ReadonlyArray<string>
  readonly head: number
  readonly pieces: number
}

export interface Shape {
  /** Ends as if the output limit had been met, after half of the pieces. */
  readonly isShort?: boolean
  /** Nothing but an end. */
  readonly isEmpty?: boolean
  /** A word that stands in the place of the finish reason. */
  readonly finish?: string
  readonly withoutUsage?: boolean
  readonly withoutDone?: boolean
}

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
const named = (event: { readonly type: string; readonly [field: string]: unknown }): string =>
  `event: ${event.type}\n${data(event)}`

/** Ten characters a piece, so that every answer has a middle. */
export const piecesOf = (turn: Turn, { isShort = false, isEmpty = false }: Shape): ReadonlyArray<string> => {
  if (isEmpty) return []
  const whole = turn._tag === "Text" ? turn.text : turn.args
  const pieces = whole.match(/[^]{1,10}/g) ?? []
  return isShort ? pieces.slice(0, Math.ceil(pieces.length / 2)) : pieces
}

const chat = (model: string, turn: Turn, shape: Shape): Events => {
  const chunk = (delta: object, finish: string | null = null) =>
    data({
      id: "chatcmpl-a",
      object: "chat.completion.chunk",
      created: 1,
      model,
      choices: [{ index: 0, delta, finish_reason: finish }]
    })
  const pieces = piecesOf(turn, shape)
  const isCall = turn._tag === "Call" && shape.isEmpty !== true
  const head = [chunk({ role: "assistant", content: "" })]
  if (isCall)
    head.push(
      chunk({
        tool_calls: [{ index: 0, id: turn.id, type: "function", function: { name: turn.name, arguments: "" } }]
      })
    )
  const body = pieces.map((piece) =>
    chunk(isCall ? { tool_calls: [{ index: 0, function: { arguments: piece } }] } : { content: piece })
  )
  const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
  const finish = shape.finish ?? (shape.isShort === true ? "length" : isCall ? "tool_calls" : "stop")
  const tail = [chunk({}, finish)]
  if (shape.withoutUsage !== true)
    tail.push(data({ id: "chatcmpl-a", object: "chat.completion.chunk", created: 1, model, choices: [], usage }))
  if (shape.withoutDone !== true) tail.push("data: [DONE]\n\n")
  return { all: [...head, ...body, ...tail], head: head.length, pieces: body.length }
}

const messages = (model: string, turn: Turn, shape: Shape): Events => {
  const pieces = piecesOf(turn, shape)
  const isCall = turn._tag === "Call"
  const message = {
    id: "msg_a",
    type: "message",
    role: "assistant",
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 100, output_tokens: 1 }
  }
  const block = isCall ? { type: "tool_use", id: turn.id, name: turn.name, input: {} } : { type: "text", text: "" }
  const head = [
    named({ type: "message_start", message }),
    ...(shape.isEmpty === true ? [] : [named({ type: "content_block_start", index: 0, content_block: block })])
  ]
  const body = pieces.map((piece) =>
    named({
      type: "content_block_delta",
      index: 0,
      delta: isCall ? { type: "input_json_delta", partial_json: piece } : { type: "text_delta", text: piece }
    })
  )
  const stop =
    shape.finish ?? (shape.isShort === true ? "max_tokens" : isCall && shape.isEmpty !== true ? "tool_use" : "end_turn")
  const tail = [
    ...(shape.isEmpty === true ? [] : [named({ type: "content_block_stop", index: 0 })]),
    named({
      type: "message_delta",
      delta: { stop_reason: stop, stop_sequence: null },
      ...(shape.withoutUsage === true ? {} : { usage: { output_tokens: 20 } })
    }),
    ...(shape.withoutDone === true ? [] : [named({ type: "message_stop" })])
  ]
  return { all: [...head, ...body, ...tail], head: head.length, pieces: body.length }
}

const responses = (model: string, turn: Turn, shape: Shape): Events => {
  const pieces = piecesOf(turn, shape)
  const said = pieces.join("")
  const isCall = turn._tag === "Call"
  let sequence = -1
  const event = (type: string, rest: object): string => named({ type, sequence_number: (sequence += 1), ...rest })
  const usage = {
    input_tokens: 100,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 20,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 120
  }
  const response = (status: string, output: ReadonlyArray<object>, isOver: boolean) => ({
    id: "resp_a",
    object: "response",
    created_at: 1,
    status,
    error: null,
    incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
    model,
    output,
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
    store: false,
    usage: isOver && shape.withoutUsage !== true ? usage : null
  })
  const item = isCall
    ? { id: "fc_a", type: "function_call", call_id: turn.id, name: turn.name, arguments: "" }
    : { id: "msg_a", type: "message", role: "assistant", content: [] }
  const part = { type: "output_text", text: said, annotations: [] }
  const place = { item_id: item.id, output_index: 0, ...(isCall ? {} : { content_index: 0 }) }
  const open =
    shape.isEmpty === true
      ? []
      : [
          event("response.output_item.added", { output_index: 0, item: { ...item, status: "in_progress" } }),
          ...(isCall ? [] : [event("response.content_part.added", { ...place, part: { ...part, text: "" } })])
        ]
  const head = [event("response.created", { response: response("in_progress", [], false) }), ...open]
  const body = pieces.map((delta) =>
    event(isCall ? "response.function_call_arguments.delta" : "response.output_text.delta", { ...place, delta })
  )
  const status = shape.isShort === true ? "incomplete" : (shape.finish ?? "completed")
  const done = isCall ? { ...item, status, arguments: said } : { ...item, status, content: [part] }
  const close = isCall
    ? [event("response.function_call_arguments.done", { ...place, arguments: said })]
    : [
        event("response.output_text.done", { ...place, text: said }),
        event("response.content_part.done", { ...place, part })
      ]
  const output = shape.isEmpty === true ? [] : [done]
  const tail = [
    ...(shape.isEmpty === true ? [] : [...close, event("response.output_item.done", { output_index: 0, item: done })]),
    // This API has no [DONE]: its last event is what says that the answer is whole.
    event(shape.isShort === true ? "response.incomplete" : "response.completed", {
      response: response(status, output, true)
    })
  ]
  return { all: [...head, ...body, ...tail], head: head.length, pieces: body.length }
}

const answers = { chat, responses, messages }

export const eventsOf = (wire: WireName, model: string, turn: Turn, shape: Shape = {}): Events =>
  answers[wire](model, turn, shape)

/** An error as the body of an answer. */
export const errorBody = (wire: WireName, type: string, code: string | null, message: string): unknown =>
  wire === "messages"
    ? { type: "error", error: { type, message, ...(code === null ? {} : { code }) } }
    : { error: { message, type, param: null, code } }

/** An error as an event of a stream that has begun. */
export const errorEvent = (wire: WireName, kind: "overloaded" | "api_error"): string => {
  const message = kind === "overloaded" ? "Overloaded" : "Internal server error"
  if (wire === "messages")
    return named({ type: "error", error: { type: kind === "overloaded" ? "overloaded_error" : "api_error", message } })
  const code = kind === "overloaded" ? "server_is_overloaded" : "server_error"
  if (wire === "chat") return data({ error: { message, type: "server_error", code } })
  return named({
    type: "response.failed",
    sequence_number: 90,
    response: { id: "resp_a", object: "response", status: "failed", error: { code, message }, output: [], usage: null }
  })
}
