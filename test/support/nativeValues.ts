/** Requests, replies and streams of the three wires, made from the SDKs' types and fields that no type knows. */
import type { Chance } from "./chance.ts"
import { bodyOf, eventTexts, plain, type Script, type WireName } from "./nativeScripts.ts"
import { SdkTypes, spaced, withUnknown, type Json } from "./sdkTypes.ts"

const openAi = new SdkTypes([
  "openai/resources/shared.d.ts",
  "openai/resources/completions.d.ts",
  "openai/resources/chat/completions/completions.d.ts",
  "openai/resources/responses/responses.d.ts"
])
const anthropic = new SdkTypes(["@anthropic-ai/sdk/resources/messages/messages.d.ts"])

const sdkOf: { readonly [W in WireName]: SdkTypes } = { chat: openAi, responses: openAi, messages: anthropic }

const paramsOf: { readonly [W in WireName]: string } = {
  chat: "ChatCompletionCreateParamsBase",
  responses: "ResponseCreateParamsBase",
  messages: "MessageCreateParamsBase"
}

/** Thinking that broke off stays behind on the way up: no provider takes it back. */
const isBrokenThought = (item: Json): boolean =>
  (item["type"] === "reasoning" && item["status"] === "incomplete" && typeof item["encrypted_content"] !== "string") ||
  (item["type"] === "thinking" && item["signature"] === "")

const withoutBroken = (value: unknown): unknown => {
  if (Array.isArray(value))
    return value.filter((entry) => !(isObject(entry) && isBrokenThought(entry))).map(withoutBroken)
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutBroken(inner)]))
    : value
}

/** A request as a program of any language would write it. A stored stream would be taken up again, not asked for anew. */
export const requestText = (wire: WireName, stream: boolean, random: Chance, isStored = true): string => {
  const { background: _, n, ...params } = sdkOf[wire].make(paramsOf[wire], random)
  // A provider gives as many choices as are asked for; the answers here have one.
  if (n !== undefined) params["n"] = typeof n === "number" ? Math.min(n, 1) : n
  const stored = wire === "responses" && !isStored ? { store: false } : {}
  return spaced(withUnknown(withoutBroken({ ...params, stream, ...stored }), random), random)
}

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

const text = (random: Chance): string => random.pick(["a", "ein Satz.", "\u00e9\ud83d\ude00", 'x "y"'])

const objects = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value.filter(isObject) : [])

/** Items that recovery reads for what they are, and that random words would make into something broken. */
const readItems = new Set(["message", "function_call", "custom_tool_call", "tool_use", "text", "thinking"])

const others = (items: unknown): ReadonlyArray<Json> =>
  objects(items).filter((item) => !readItems.has(String(item["type"])))

/** A whole reply: what recovery looks at is whole, everything else is as the types would have it. */
const wholeBody: { readonly [W in WireName]: (random: Chance) => Json } = {
  chat: (random) => {
    const made = openAi.make("ChatCompletion", random)
    const { function_call: _, ...message } = openAi.make("ChatCompletionMessage", random)
    const choice = openAi.make("ChatCompletion.Choice", random)
    const said = { ...message, role: "assistant", content: text(random), refusal: null, tool_calls: [] }
    return { ...made, choices: [{ ...choice, index: 0, finish_reason: "stop", message: said }] }
  },
  responses: (random) => {
    const made = openAi.make("Response", random)
    const message = openAi.make("ResponseOutputMessage", random)
    const part = openAi.make("ResponseOutputText", random)
    const said = { ...message, type: "message", role: "assistant", content: [{ ...part, text: text(random) }] }
    return {
      ...made,
      id: "resp_1",
      status: "completed",
      error: null,
      incomplete_details: null,
      output: [...others(made["output"]), said]
    }
  },
  messages: (random) => {
    const made = anthropic.make("Message", random)
    const block = anthropic.make("TextBlock", random)
    return {
      ...made,
      content: [...others(made["content"]), { ...block, text: text(random) }],
      stop_reason: "end_turn",
      stop_details: null
    }
  }
}

export const replyText = (wire: WireName, random: Chance): string =>
  spaced(withUnknown(wholeBody[wire](random), random), random)

interface Event {
  readonly name: string | null
  readonly data: unknown
}

const parsedEvent = (written: string): Event => {
  const name = /^event: (.*)$/m.exec(written)?.[1] ?? null
  const data = /^data: (.*)$/m.exec(written)?.[1] ?? ""
  return { name, data: data === "[DONE]" ? data : JSON.parse(data) }
}

const responseEvents = openAi.byTag(/^Response\w+Event$/)
const messageEvents = anthropic.byTag(/^Raw\w+Event$/)

/** The fields of the event's type around those of the script. */
const dressed = (wire: WireName, { name, data }: Event, random: Chance): Event => {
  if (typeof data !== "object" || data === null) return { name, data }
  if (wire === "chat") {
    const { usage: _, ...chunk } = openAi.make("ChatCompletionChunk", random)
    return { name, data: { ...chunk, ...data } }
  }
  const type = (wire === "responses" ? responseEvents : messageEvents).get(String(name))
  return { name, data: type === undefined ? data : { ...sdkOf[wire].make(type, random), ...data } }
}

/** Events that recovery reads: another one of them would be another answer. */
const isRead = (type: string): boolean =>
  /^(?:error$|response\.(?:created|in_progress|queued|completed|failed|incomplete|output_item|content_part|output_text|refusal|function_call|custom_tool|reasoning|mcp_call_arguments))/.test(
    type
  )

const otherResponseEvents = [...responseEvents].filter(([type]) => !isRead(type) && type.startsWith("response."))

/** An event that brings an error is one to every client. */
const withoutError = ({ error: _, ...event }: Json): Json => event

/** Something that may stand between two events of this wire, and that nobody has to know. */
const between: { readonly [W in WireName]: (random: Chance) => Event } = {
  chat: (random) => {
    const { usage: _, ...chunk } = openAi.make("ChatCompletionChunk", random)
    return { name: null, data: { ...chunk, choices: [] } }
  },
  responses: (random) => {
    const [type, name] = random.pick(otherResponseEvents)
    return random.below(3) === 0
      ? { name: "response.new_thing", data: { type: "response.new_thing", sequence_number: 1 } }
      : { name: type, data: withoutError(openAi.make(name, random)) }
  },
  messages: (random) =>
    random.below(2) === 0
      ? { name: "ping", data: { type: "ping" } }
      : { name: "new_thing", data: { type: "new_thing", index: 0 } }
}

const dataLines = (json: string, random: Chance, newline: string): string => {
  const mark = random.pick(["data: ", "data:"])
  return json
    .split("\n")
    .map((line) => mark + line + newline)
    .join("")
}

const eventText = ({ name, data }: Event, random: Chance, newline: string): string => {
  const json = typeof data === "string" ? data : spaced(withUnknown(data, random), random)
  const id = random.below(6) === 0 ? `id: ${random.below(9)}${newline}` : ""
  const comment = random.below(6) === 0 ? `: a comment${newline}` : ""
  const event = name === null ? "" : `event: ${name}${newline}`
  return comment + id + event + dataLines(json, random, newline) + newline
}

const scriptOf = (random: Chance): Script => ({
  ...plain([text(random), text(random)], "r"),
  reasoning: random.below(2) === 0 ? ["hm", " well"] : [],
  calls:
    random.below(2) === 0
      ? []
      : [
          { id: "c1", name: "t", args: ['{"a":', "1}"] },
          { id: "c2", name: "u", args: ["{}"] }
        ]
})

/** A whole stream as bytes would travel: any line end, comments, ids, events that nobody knows. */
export const streamText = (wire: WireName, random: Chance): string => {
  const newline = random.pick(["\n", "\n", "\r\n"])
  const events = eventTexts(wire, scriptOf(random)).map((written) => dressed(wire, parsedEvent(written), random))
  const last = events.length - (wire === "chat" ? 2 : 1)
  const all = events.flatMap((event, index) =>
    index > 0 && index < last && random.below(3) === 0 ? [between[wire](random), event] : [event]
  )
  const head = random.pick(["", `: hello${newline}${newline}`, `retry: 100${newline}${newline}`])
  return head + all.map((event) => eventText(event, random, newline)).join("")
}

/** The first events of an answer that has shown nothing yet. */
export const beginnings: { readonly [W in WireName]: ReadonlyArray<string> } = {
  chat: eventTexts("chat", plain(["never"], "first")).slice(0, 1),
  responses: eventTexts("responses", plain(["never"], "first")).slice(0, 4),
  messages: eventTexts("messages", plain(["never"], "first")).slice(0, 3)
}

/** Half a body, as it breaks off. */
export const halfBody = (wire: WireName): string => {
  const whole = JSON.stringify(bodyOf(wire, plain(["never"], "first")))
  return whole.slice(0, whole.length / 2)
}
