/** A strict reader of the three wires: an answer is whole only with the API's own end, a failure only with its own words. */
import { createParser } from "eventsource-parser"
import { pathOf, type WireName } from "./answers.ts"

export interface Heard {
  readonly text: string
  /** The API's own end was read, and nothing spoke of an error. */
  readonly isWhole: boolean
  /** HTTP status; null = no answer came. */
  readonly status: number | null
  /** Words of the error, from the body, the stream or the connection; null = none. */
  readonly error: string | null
  readonly model: string | null
  readonly hasUsage: boolean
  readonly millis: number
}

export const bodyOf = (wire: WireName, model: string): Readonly<Record<string, unknown>> => {
  const messages = [{ role: "user", content: "Say the sixty words." }]
  if (wire === "responses") return { model, input: messages, stream: true, store: false }
  if (wire === "messages") return { model, messages, max_tokens: 1_000, stream: true }
  return { model, messages, stream: true, stream_options: { include_usage: true } }
}

interface Ear {
  text: string
  isWhole: boolean
  error: string | null
  model: string | null
  hasUsage: boolean
}

type Json = Readonly<Record<string, unknown>>
const at = (value: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>(
    (inner, key) => (typeof inner === "object" && inner !== null ? Reflect.get(inner, key) : undefined),
    value
  )

const hearChat = (ear: Ear, event: Json): void => {
  if (event["error"] !== undefined) ear.error = JSON.stringify(event["error"])
  const content = at(event, "choices", 0, "delta", "content")
  if (typeof content === "string") ear.text += content
  if (typeof event["model"] === "string") ear.model = event["model"]
  if (typeof at(event, "choices", 0, "finish_reason") === "string") ear.isWhole = true
  if (typeof at(event, "usage", "completion_tokens") === "number") ear.hasUsage = true
}

const hearResponses = (ear: Ear, event: Json): void => {
  if (event["type"] === "response.output_text.delta") ear.text += String(event["delta"])
  if (event["type"] === "error" || event["type"] === "response.failed") ear.error = JSON.stringify(event)
  if (event["type"] !== "response.completed") return
  ear.isWhole = true
  ear.model = String(at(event, "response", "model"))
  ear.hasUsage = typeof at(event, "response", "usage", "output_tokens") === "number"
  // What a client shows and what it keeps must be one text.
  if (at(event, "response", "output", 0, "content", 0, "text") !== ear.text)
    ear.error = "the final text differs from the shown one"
}

const hearMessages = (ear: Ear, event: Json): void => {
  if (event["type"] === "error") ear.error = JSON.stringify(event["error"])
  if (event["type"] === "message_start") ear.model = String(at(event, "message", "model"))
  const text = at(event, "delta", "text")
  if (event["type"] === "content_block_delta" && typeof text === "string") ear.text += text
  if (event["type"] === "message_delta") ear.hasUsage = typeof at(event, "usage", "output_tokens") === "number"
  if (event["type"] === "message_stop") ear.isWhole = true
}

const hear: Readonly<Record<WireName, (ear: Ear, event: Json) => void>> = {
  chat: hearChat,
  responses: hearResponses,
  messages: hearMessages
}

/** A stream that has come to its end, heard from its text. */
export const hearAll = (wire: WireName, text: string): Pick<Heard, "text" | "isWhole" | "error"> => {
  const ear: Ear = { text: "", isWhole: false, error: null, model: null, hasUsage: false }
  const parser = createParser({
    onEvent: (event) => {
      if (event.data !== "[DONE]") hear[wire](ear, JSON.parse(event.data) as Json)
    }
  })
  parser.feed(text)
  return { ...ear, isWhole: ear.isWhole && ear.error === null }
}

export interface AskOptions {
  readonly baseUrl: string
  readonly wire: WireName
  readonly model: string
  readonly headers?: Readonly<Record<string, string>>
  /** Default: the platform's. */
  readonly fetch?: typeof fetch
  readonly signal?: AbortSignal
}

/** One request, heard to its end. Never rejects. */
export const ask = async (options: AskOptions): Promise<Heard> => {
  const begin = performance.now()
  const { wire, model } = options
  const ear: Ear = { text: "", isWhole: false, error: null, model: null, hasUsage: false }
  let status: number | null = null
  try {
    const response = await (options.fetch ?? fetch)(`${options.baseUrl.replace(/\/v1$/, "")}${pathOf[wire]}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        authorization: "Bearer wall",
        ...options.headers
      },
      body: JSON.stringify(bodyOf(wire, model)),
      ...(options.signal === undefined ? {} : { signal: options.signal })
    })
    status = response.status
    if (!response.ok || response.body === null) ear.error = await response.text()
    else {
      const parser = createParser({
        onEvent: (event) => {
          if (event.data !== "[DONE]") hear[wire](ear, JSON.parse(event.data) as Json)
        }
      })
      const decoder = new TextDecoder()
      for await (const chunk of response.body) parser.feed(decoder.decode(chunk as Uint8Array, { stream: true }))
    }
  } catch (cause) {
    ear.error ??= cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)
  }
  return { ...ear, isWhole: ear.isWhole && ear.error === null, status, millis: performance.now() - begin }
}
