/** Answers of the three wires, made from one script: what the model thinks, says and calls, piece by piece. */

export type Json = Readonly<Record<string, unknown>>
export type WireName = "chat" | "responses" | "messages"
export const wireNames: ReadonlyArray<WireName> = ["chat", "responses", "messages"]

export interface Script {
  readonly reasoning: ReadonlyArray<string>
  readonly text: ReadonlyArray<string>
  readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly args: ReadonlyArray<string> }>
  readonly refusal?: ReadonlyArray<string>
  readonly finish?: "stop" | "length"
  readonly id?: string
}

export const plain = (text: ReadonlyArray<string>, id = "a"): Script => ({ reasoning: [], text, calls: [], id })

export const pathOf: { readonly [W in WireName]: string } = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages"
}

const idOf = (script: Script): string => script.id ?? "a"
const whole = (parts: ReadonlyArray<string>): string => parts.join("")
const outputTokens = (script: Script): number =>
  script.reasoning.length + script.text.length + script.calls.length * 3 + (script.refusal?.length ?? 0)
const isCut = (script: Script): boolean => script.finish === "length"

const chatFinish = (script: Script): string =>
  isCut(script) ? "length" : script.calls.length > 0 ? "tool_calls" : "stop"

const chatUsage = (script: Script): Json => ({
  prompt_tokens: 10,
  completion_tokens: outputTokens(script),
  total_tokens: 10 + outputTokens(script)
})

const chatBody = (script: Script): Json => ({
  id: `chatcmpl-${idOf(script)}`,
  object: "chat.completion",
  created: 1,
  model: "m-served",
  choices: [
    {
      index: 0,
      finish_reason: chatFinish(script),
      logprobs: null,
      message: {
        role: "assistant",
        content: script.text.length === 0 ? null : whole(script.text),
        refusal: script.refusal === undefined ? null : whole(script.refusal),
        ...(script.reasoning.length === 0 ? {} : { reasoning_content: whole(script.reasoning) }),
        ...(script.calls.length === 0
          ? {}
          : {
              tool_calls: script.calls.map(({ id, name, args }) => ({
                id,
                type: "function",
                function: { name, arguments: whole(args) }
              }))
            })
      }
    }
  ],
  usage: chatUsage(script)
})

const chatEvents = (script: Script): ReadonlyArray<unknown> => {
  const head = { id: `chatcmpl-${idOf(script)}`, object: "chat.completion.chunk", created: 1, model: "m-served" }
  const chunk = (delta: Json, finish: string | null = null) => ({
    ...head,
    choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }]
  })
  return [
    chunk({ role: "assistant", content: "" }),
    ...script.reasoning.map((text) => chunk({ reasoning_content: text })),
    ...script.text.map((text) => chunk({ content: text })),
    ...(script.refusal ?? []).map((refusal) => chunk({ refusal })),
    ...script.calls.flatMap(({ id, name, args }, index) => [
      chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] }),
      ...args.map((text) => chunk({ tool_calls: [{ index, function: { arguments: text } }] }))
    ]),
    chunk({}, chatFinish(script)),
    { ...head, choices: [], usage: chatUsage(script) },
    "[DONE]"
  ]
}

const messagesUsage = (script: Script): Json => ({
  input_tokens: 10,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  output_tokens: outputTokens(script)
})

const parsed = (text: string): unknown => JSON.parse(text === "" ? "{}" : text)

const blocksOf = (script: Script): ReadonlyArray<Json> => [
  ...(script.reasoning.length === 0
    ? []
    : [{ type: "thinking", thinking: whole(script.reasoning), signature: `sig-${idOf(script)}` }]),
  ...(script.text.length === 0 ? [] : [{ type: "text", text: whole(script.text), citations: null }]),
  ...(script.refusal === undefined ? [] : [{ type: "text", text: whole(script.refusal), citations: null }]),
  ...script.calls.map(({ id, name, args }) => ({ type: "tool_use", id, name, input: parsed(whole(args)) }))
]

const messagesStop = (script: Script): string =>
  script.refusal !== undefined
    ? "refusal"
    : isCut(script)
      ? "max_tokens"
      : script.calls.length > 0
        ? "tool_use"
        : "end_turn"

const messageHead = (script: Script): Json => ({
  id: `msg_${idOf(script)}`,
  type: "message",
  role: "assistant",
  model: "m-served"
})

const messagesBody = (script: Script): Json => ({
  ...messageHead(script),
  content: blocksOf(script),
  stop_reason: messagesStop(script),
  stop_sequence: null,
  usage: messagesUsage(script)
})

const messagesEvents = (script: Script): ReadonlyArray<Json> => {
  const blocks: ReadonlyArray<{ readonly start: Json; readonly deltas: ReadonlyArray<Json> }> = [
    ...(script.reasoning.length === 0
      ? []
      : [
          {
            start: { type: "thinking", thinking: "", signature: "" },
            deltas: [
              ...script.reasoning.map((thinking) => ({ type: "thinking_delta", thinking })),
              { type: "signature_delta", signature: `sig-${idOf(script)}` }
            ]
          }
        ]),
    ...[script.text, script.refusal ?? []]
      .filter((parts) => parts.length > 0)
      .map((parts) => ({
        start: { type: "text", text: "", citations: null },
        deltas: parts.map((text) => ({ type: "text_delta", text }))
      })),
    ...script.calls.map(({ id, name, args }) => ({
      start: { type: "tool_use", id, name, input: {} },
      deltas: args.map((partial_json) => ({ type: "input_json_delta", partial_json }))
    }))
  ]
  return [
    {
      type: "message_start",
      message: {
        ...messageHead(script),
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { ...messagesUsage(script), output_tokens: 1 }
      }
    },
    { type: "ping" },
    ...blocks.flatMap(({ start, deltas }, index) => [
      { type: "content_block_start", index, content_block: start },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index }
    ]),
    {
      type: "message_delta",
      delta: { stop_reason: messagesStop(script), stop_sequence: null },
      usage: messagesUsage(script)
    },
    { type: "message_stop" }
  ]
}

const responsesItems = (script: Script): ReadonlyArray<Json> => [
  ...(script.reasoning.length === 0
    ? []
    : [
        {
          id: `rs_${idOf(script)}`,
          type: "reasoning",
          summary: [{ type: "summary_text", text: whole(script.reasoning) }],
          encrypted_content: `sealed-${idOf(script)}`
        }
      ]),
  ...(script.text.length === 0 && script.refusal === undefined
    ? []
    : [
        {
          id: `msg_${idOf(script)}`,
          type: "message",
          role: "assistant",
          status: isCut(script) ? "incomplete" : "completed",
          content:
            script.refusal === undefined
              ? [{ type: "output_text", text: whole(script.text), annotations: [], logprobs: [] }]
              : [{ type: "refusal", refusal: whole(script.refusal) }]
        }
      ]),
  ...script.calls.map(({ id, name, args }) => ({
    id: `fc_${id}`,
    type: "function_call",
    status: "completed",
    call_id: id,
    name,
    arguments: whole(args)
  }))
]

const responsesBody = (script: Script): Json => ({
  id: `resp_${idOf(script)}`,
  object: "response",
  created_at: 1,
  status: isCut(script) ? "incomplete" : "completed",
  error: null,
  incomplete_details: isCut(script) ? { reason: "max_output_tokens" } : null,
  instructions: null,
  metadata: {},
  model: "m-served",
  output: responsesItems(script),
  parallel_tool_calls: true,
  temperature: 1,
  tool_choice: "auto",
  tools: [],
  top_p: 1,
  usage: {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: outputTokens(script),
    output_tokens_details: { reasoning_tokens: script.reasoning.length },
    total_tokens: 10 + outputTokens(script)
  }
})

const itemEvents = (script: Script, item: Json, output_index: number): ReadonlyArray<Json> => {
  const place = { item_id: item["id"], output_index }
  const done = { type: "response.output_item.done", output_index, item }
  if (item["type"] === "reasoning")
    return [
      { type: "response.output_item.added", output_index, item: { ...item, summary: [], encrypted_content: null } },
      {
        type: "response.reasoning_summary_part.added",
        ...place,
        summary_index: 0,
        part: { type: "summary_text", text: "" }
      },
      ...script.reasoning.map((delta) => ({
        type: "response.reasoning_summary_text.delta",
        ...place,
        summary_index: 0,
        delta
      })),
      { type: "response.reasoning_summary_text.done", ...place, summary_index: 0, text: whole(script.reasoning) },
      done
    ]
  if (item["type"] === "message") {
    const at = { ...place, content_index: 0 }
    const [part] = item["content"] as ReadonlyArray<Json>
    const isRefusal = script.refusal !== undefined
    const pieces = isRefusal ? (script.refusal ?? []) : script.text
    const kind = isRefusal ? "refusal" : "output_text"
    const field = isRefusal ? "refusal" : "text"
    return [
      { type: "response.output_item.added", output_index, item: { ...item, status: "in_progress", content: [] } },
      { type: "response.content_part.added", ...at, part: { ...part, [field]: "" } },
      ...pieces.map((delta) => ({
        type: `response.${kind}.delta`,
        ...at,
        delta,
        ...(isRefusal ? {} : { logprobs: [] })
      })),
      { type: `response.${kind}.done`, ...at, [field]: whole(pieces), ...(isRefusal ? {} : { logprobs: [] }) },
      { type: "response.content_part.done", ...at, part },
      done
    ]
  }
  const call = script.calls.find(({ id }) => id === item["call_id"])
  return [
    { type: "response.output_item.added", output_index, item: { ...item, status: "in_progress", arguments: "" } },
    ...(call?.args ?? []).map((delta) => ({ type: "response.function_call_arguments.delta", ...place, delta })),
    {
      type: "response.function_call_arguments.done",
      ...place,
      name: item["name"],
      arguments: item["arguments"]
    },
    done
  ]
}

const responsesEvents = (script: Script): ReadonlyArray<Json> => {
  const body = responsesBody(script)
  const begun = { ...body, status: "in_progress", incomplete_details: null, output: [], usage: null }
  return [
    { type: "response.created", response: begun },
    { type: "response.in_progress", response: begun },
    ...responsesItems(script).flatMap((item, index) => itemEvents(script, item, index)),
    { type: isCut(script) ? "response.incomplete" : "response.completed", response: body }
  ].map((event, sequence_number) => ({ ...event, sequence_number }))
}

const named = (event: Json): string => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`

/** The events of a script, each as it travels. */
export const eventTexts = (wire: WireName, script: Script): ReadonlyArray<string> => {
  switch (wire) {
    case "chat":
      return chatEvents(script).map((event) => `data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`)
    case "messages":
      return messagesEvents(script).map(named)
    case "responses":
      return responsesEvents(script).map(named)
  }
}

export const bodyOf = (wire: WireName, script: Script): Json =>
  wire === "chat" ? chatBody(script) : wire === "messages" ? messagesBody(script) : responsesBody(script)

/** What a program asks on each wire. */
export const requestOf = (wire: WireName, fields: Json = {}): Json => {
  const model = "m"
  switch (wire) {
    case "chat":
      return { model, messages: [{ role: "user", content: "go" }], ...fields }
    case "messages":
      return { model, max_tokens: 1000, messages: [{ role: "user", content: "go" }], ...fields }
    case "responses":
      return { model, input: "go", ...fields }
  }
}

const errors: { readonly [W in WireName]: (code: string) => Json } = {
  chat: (code) => ({ error: { message: "synthetic", type: "server_error", param: null, code } }),
  responses: (code) => ({ error: { message: "synthetic", type: "server_error", param: null, code } }),
  messages: () => ({ type: "error", error: { type: "overloaded_error", message: "synthetic" } })
}

export const errorOf = (wire: WireName, code = "server_is_overloaded"): Json => errors[wire](code)

/** The error event of a wire in the midst of a stream. */
export const errorEventOf = (wire: WireName): string => {
  const body = errorOf(wire)
  if (wire === "chat") return `data: ${JSON.stringify(body)}\n\n`
  return `event: error\ndata: ${JSON.stringify({ type: "error", ...body })}\n\n`
}
