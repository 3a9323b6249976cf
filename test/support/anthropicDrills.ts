/** Drills written for OpenAI's wire, rewritten for Anthropic's: answers, streams and what is expected of request bodies. */

export type Json = Readonly<Record<string, unknown>>

export const isJson = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

const stops: Readonly<Record<string, string>> = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use"
}

const numberAt = (object: unknown, key: string): number => {
  const value = isJson(object) ? object[key] : undefined
  return typeof value === "number" ? value : 0
}

/** Anthropic counts cached and written tokens beside the input, not in it. */
const usageOf = (usage: unknown): Json => {
  if (!isJson(usage)) return {}
  const cached = numberAt(usage["prompt_tokens_details"], "cached_tokens")
  const written = numberAt(usage["prompt_tokens_details"], "cache_creation_tokens")
  return {
    usage: {
      input_tokens: numberAt(usage, "prompt_tokens") - cached - written,
      output_tokens: usage["completion_tokens"],
      cache_read_input_tokens: cached,
      cache_creation_input_tokens: written
    }
  }
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A call as a block; null = its arguments are no object and the reply says it is whole. */
const toolBlock = (call: unknown, isCut: boolean): Json | null => {
  const fn = isJson(call) && isJson(call["function"]) ? call["function"] : {}
  const args = parsed(String(fn["arguments"]))
  if (!isJson(args) && !isCut) return null
  return { type: "tool_use", id: isJson(call) ? call["id"] : "", name: fn["name"], input: isJson(args) ? args : {} }
}

const replyKeys = new Set(["role", "content", "tool_calls", "refusal", "reasoning_content", "reasoning"])

/** A whole reply on the other wire; null = it has none of that shape. */
const messageOf = (body: unknown): Json | null => {
  if (!isJson(body) || !Array.isArray(body["choices"]) || body["choices"].length !== 1) return null
  const choice: unknown = body["choices"][0]
  if (!isJson(choice) || !isJson(choice["message"])) return null
  const { message } = choice
  const { content, refusal } = message
  const reasoning = message["reasoning_content"] ?? message["reasoning"]
  const stop = typeof refusal === "string" ? "refusal" : stops[String(choice["finish_reason"])]
  if (stop === undefined || (typeof content !== "string" && content !== null)) return null
  if (Object.keys(message).some((key) => !replyKeys.has(key))) return null
  const calls = listOf(message["tool_calls"]).map((call) => toolBlock(call, stop === "max_tokens"))
  if (calls.includes(null)) return null
  const text = typeof refusal === "string" ? refusal : content
  return {
    type: "message",
    role: "assistant",
    model: "m",
    content: [
      ...(typeof reasoning === "string" ? [{ type: "thinking", thinking: reasoning, signature: "s" }] : []),
      ...(text === null || text === "" ? [] : [{ type: "text", text }]),
      ...calls
    ],
    stop_reason: stop,
    ...usageOf(body["usage"])
  }
}

/** Chunks of one answer, turned into events one after the other. Text and thinking alternate; calls may interleave. */
class EventWriter {
  private hasStarted = false
  private hasStopped = false
  /** Blocks that are open, by what they hold. */
  private readonly open = new Map<string, number>()
  private count = 0

  private start(chunk: Json): ReadonlyArray<Json> {
    if (this.hasStarted) return []
    this.hasStarted = true
    return [
      { type: "message_start", message: { type: "message", role: "assistant", model: "m", ...usageOf(chunk["usage"]) } }
    ]
  }

  private close(isClosed: (key: string) => boolean): ReadonlyArray<Json> {
    const closed = [...this.open].filter(([key]) => isClosed(key))
    for (const [key] of closed) this.open.delete(key)
    return closed.map(([, index]) => ({ type: "content_block_stop", index }))
  }

  /** A delta in the block of this name, which is begun when it is not open. */
  private inBlock(key: string, content: Json, delta: Json | null): ReadonlyArray<Json> {
    const before = this.open.get(key)
    const index = before ?? this.count
    const begun =
      before === undefined
        ? [
            ...this.close((other) => !other.startsWith("call") || !key.startsWith("call")),
            { type: "content_block_start", index, content_block: content }
          ]
        : []
    if (before === undefined) {
      this.open.set(key, index)
      this.count += 1
    }
    return [...begun, ...(delta === null ? [] : [{ type: "content_block_delta", index, delta }])]
  }

  private callEvents(call: unknown): ReadonlyArray<Json> {
    if (!isJson(call) || !isJson(call["function"])) return []
    const { name, arguments: args } = call["function"]
    return this.inBlock(
      `call ${String(call["index"] ?? 0)}`,
      { type: "tool_use", id: call["id"], name, input: {} },
      typeof args === "string" ? { type: "input_json_delta", partial_json: args } : null
    )
  }

  /** Events of one chunk; null = the other wire has nothing like it. */
  eventsOf(chunk: unknown): ReadonlyArray<Json> | null {
    if (chunk === "[DONE]") return this.hasStopped ? [{ type: "message_stop" }] : []
    if (!isJson(chunk)) return null
    const choice: unknown = listOf(chunk["choices"])[0]
    const found = isJson(choice) ? choice : {}
    const reason = found["finish_reason"]
    if (chunk["error"] !== undefined || found["error"] !== undefined || reason === "error")
      return [{ type: "error", error: { type: "api_error", message: "synthetic" } }]
    const delta = isJson(found["delta"]) ? found["delta"] : {}
    const reasoning = delta["reasoning_content"] ?? delta["reasoning"]
    const events: Array<Json> = [...this.start(chunk)]
    if (typeof reasoning === "string" && reasoning !== "")
      events.push(
        ...this.inBlock("thinking", { type: "thinking", thinking: "" }, { type: "thinking_delta", thinking: reasoning })
      )
    if (typeof delta["content"] === "string" && delta["content"] !== "")
      events.push(...this.inBlock("text", { type: "text", text: "" }, { type: "text_delta", text: delta["content"] }))
    for (const call of listOf(delta["tool_calls"])) events.push(...this.callEvents(call))
    const stop = stops[String(reason)]
    if (typeof reason === "string" && stop === undefined) return null
    if (stop !== undefined) {
      events.push(...this.close(() => true), {
        type: "message_delta",
        delta: { stop_reason: stop },
        ...usageOf(chunk["usage"])
      })
      this.hasStopped = true
    } else if (isJson(chunk["usage"])) events.push({ type: "message_delta", delta: {}, ...usageOf(chunk["usage"]) })
    return events
  }
}

/** Items of a stream on the other wire: one item stays one network read; null = it cannot be told there. */
const itemsOf = (items: ReadonlyArray<unknown>, writer: EventWriter): ReadonlyArray<Json> | null => {
  const found: Array<Json> = []
  for (const item of items) {
    if (!isJson(item) || item["raw"] !== undefined) return null
    if (Array.isArray(item["seq"])) {
      for (let round = 0; round < (typeof item["repeat"] === "number" ? item["repeat"] : 1); round += 1) {
        const inner = itemsOf(item["seq"], writer)
        if (inner === null) return null
        found.push(...inner)
      }
      continue
    }
    if (item["data"] === undefined) {
      found.push(item)
      continue
    }
    const events = writer.eventsOf(item["data"])
    if (events === null) return null
    if (events.length > 0)
      found.push({
        raw: events.map((event) => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`).join("")
      })
  }
  return found
}

/** A step on the other wire: failures and network faults stay; null = the step has no like there. */
const stepOf = (step: unknown): Json | null => {
  if (!isJson(step)) return null
  if (Array.isArray(step["cycle"])) {
    const cycle = step["cycle"].map(stepOf)
    return cycle.includes(null) ? null : { ...step, cycle }
  }
  if (step["generate"] !== undefined) return step
  if (Array.isArray(step["sse"])) {
    const sse = itemsOf(step["sse"], new EventWriter())
    return sse === null ? null : { ...step, sse }
  }
  if (typeof step["http"] === "number" && step["http"] >= 400) return step
  if (step["http"] !== 200) return step["http"] === undefined ? step : null
  const body = messageOf(step["body"])
  return body === null ? null : { ...step, body }
}

/** Messages in OpenAI's shape: what is expected of a request on that wire only. */
const wireKeys = new Set(["firstMessage", "lastMessage", "systemCount", "messageCount", "requestTails"])

/** Arguments come back as an object there and are written anew: the spaces between are not the model's. */
const compact = (key: string, value: unknown): unknown => {
  const args = key === "arguments" && typeof value === "string" ? parsed(value) : undefined
  return args === undefined ? expectOf(value) : JSON.stringify(args)
}

const expectOf = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(expectOf)
  if (!isJson(value)) return value === "OpenAIResponseError" ? "AnthropicResponseError" : value
  // A refusal is a stop reason of its own there.
  const { finishReason, ...rest } = value
  const kept = value["refusal"] === undefined || finishReason === undefined ? value : rest
  return Object.fromEntries(
    Object.entries(kept).flatMap(([key, inner]) => (wireKeys.has(key) ? [] : [[key, compact(key, inner)]]))
  )
}

/** Why a drill means nothing on the other wire; null = it can be rewritten. */
export const boundTo = (raw: Json): string | null => {
  if (raw["adapter"] !== undefined || raw["profile"] !== undefined) return "has a wire of its own"
  if (raw["id"] === "D-RV-01#3") return "is about the letter of its own wire"
  const config = isJson(raw["config"]) ? raw["config"] : {}
  if (config["env"] !== undefined || config["baseUrl"] !== undefined) return "is about the command's variables"
  if (JSON.stringify(raw["expect"] ?? {}).includes("max_completion_tokens")) return "is about a field of its own wire"
  return listOf(raw["provider"]).map(stepOf).includes(null) ? "has an answer without a like" : null
}

export const rewritten = (raw: Json): Json => ({
  ...raw,
  adapter: "anthropic",
  profile: "anthropic",
  provider: listOf(raw["provider"]).map(stepOf),
  expect: expectOf(raw["expect"])
})
