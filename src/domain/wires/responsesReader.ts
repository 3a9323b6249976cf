/** Events of the responses wire, as they come. The last event holds the whole response and has the last word. */
import { isObject, type Json } from "../chat/json.ts"
import type { FinishReason, ModelPart, ModelReply } from "../chat/ModelReply.ts"
import * as Usage from "../chat/Usage.ts"
import type { Verdict } from "../provider/classify.ts"
import type { EventReader } from "./EventReader.ts"
import { readEventData } from "./eventData.ts"
import { callOf, finishOf, readResponse, readUsage, responseFault } from "./responsesWire.ts"
import { flaw, isFlaw, type Flaw, type HeaderMap, type ReadContext } from "./wireReply.ts"

const textAt = (object: Json, key: string): string => {
  const value = object[key]
  return typeof value === "string" ? value : ""
}

/** Events that bring a piece of a call. */
const isCallPiece = (type: string): boolean =>
  type.startsWith("response.function_call_arguments.") || type.startsWith("response.custom_tool_call_input.")

class ResponseReader implements EventReader {
  private readonly context: ReadContext
  private readonly headers: HeaderMap
  readonly parts: Array<ModelPart> = []
  /** Whole items by their index, for servers whose last event repeats none. */
  private readonly items = new Map<number, Json>()
  /** Texts of items that no event has closed. */
  private readonly texts = new Map<number, string>()
  private readonly announced = new Set<string>()
  private response: Json | null = null
  finishReason: FinishReason | null = null
  usage: Usage.Usage | null = null
  done = false

  constructor(context: ReadContext, headers: HeaderMap) {
    this.context = context
    this.headers = headers
  }

  onEvent(name: string | undefined, data: string): Flaw | Verdict | null {
    if (data.trim() === "[DONE]") return null
    const read = readEventData(this.context, this.headers, this.usage, name, data)
    if (read._tag === "Problem") return read.problem
    if (read._tag === "Nothing") return null
    const event = read.value
    if (!isObject(event)) return flaw("event_not_an_object", this.usage)
    const type = textAt(event, "type")
    // A failure may stand beside the type, below it or in the response; an event named so is one whatever it holds.
    const isNamedError = name === "error" && type !== "error" && !isObject(event["error"])
    const fault = responseFault(this.context, this.headers, isNamedError ? { error: event } : event)
    return fault ?? this.read(type, event)
  }

  private read(type: string, event: Json): Flaw | Verdict | null {
    switch (type) {
      case "response.output_text.delta":
        return this.onText(event)
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        this.parts.push({ _tag: "Reasoning", text: textAt(event, "delta") })
        return null
      case "response.output_item.added": {
        const item = event["item"]
        if (isObject(item) && callOf(item, this.context.model) !== null) this.parts.push({ _tag: "ToolCallDelta" })
        return null
      }
      case "response.output_item.done":
        return this.onItem(event)
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
      case "response.cancelled":
        return this.onEnd(event["response"])
      default:
        if (isCallPiece(type)) this.parts.push({ _tag: "ToolCallDelta" })
        return null
    }
  }

  private indexOf(event: Json): number {
    const index = event["output_index"]
    return typeof index === "number" ? index : 0
  }

  private onText(event: Json): Flaw | null {
    const { delta } = event
    if (typeof delta !== "string") return flaw("content_not_text", this.usage)
    const index = this.indexOf(event)
    this.texts.set(index, (this.texts.get(index) ?? "") + delta)
    if (delta !== "") this.parts.push({ _tag: "Text", text: delta })
    return null
  }

  private onItem(event: Json): Flaw | null {
    const { item } = event
    if (!isObject(item)) return flaw("item_not_an_object", this.usage)
    this.items.set(this.indexOf(event), item)
    if (callOf(item, this.context.model) !== null) this.announce(item)
    return null
  }

  private announce(item: Json): void {
    const call = callOf(item, this.context.model)
    if (call === null || call.id === "" || call.name === "" || item["status"] === "incomplete") return
    if (this.announced.has(call.id)) return
    this.announced.add(call.id)
    this.parts.push({ _tag: "ToolCall", call })
  }

  private onEnd(response: unknown): Flaw | Verdict | null {
    if (!isObject(response)) return flaw("response_missing", this.usage)
    const fault = responseFault(this.context, this.headers, response)
    if (fault !== null) return fault
    const usage = readUsage(response["usage"])
    if (isFlaw(usage)) return usage
    if (usage !== null) {
      this.usage = this.usage === null ? usage : Usage.update(this.usage, usage)
      this.parts.push({ _tag: "Usage", usage: this.usage })
    }
    const output: unknown = response["output"]
    const items = Array.isArray(output) && output.length > 0 ? output.filter(isObject) : [...this.items.values()]
    const finish = finishOf(
      response,
      items.some((item) => callOf(item, this.context.model) !== null)
    )
    if (isFlaw(finish)) return { ...finish, usage: this.usage }
    this.response = response
    this.finishReason = finish
    this.done = true
    return null
  }

  /** Items in their order; a message that no event closed is what its deltas said. */
  private itemsSeen(): ReadonlyArray<Json> {
    const indexes = [...new Set([...this.items.keys(), ...this.texts.keys()])].sort((left, right) => left - right)
    return indexes.map(
      (index) =>
        this.items.get(index) ?? {
          type: "message",
          content: [{ type: "output_text", text: this.texts.get(index) ?? "" }]
        }
    )
  }

  reply(finishReason: FinishReason): ModelReply | Flaw {
    const reply = readResponse(this.context, this.response, this.itemsSeen())
    if (isFlaw(reply)) return reply
    const shown = [...this.texts.values()].join("")
    // What was shown is what was said: a last event that says something else is not believed.
    if (reply.refusal === null && shown !== "" && (reply.text ?? "") !== shown) return flaw("text_differs", this.usage)
    if (finishReason !== "length")
      for (const call of reply.toolCalls) {
        if (this.announced.has(call.id)) continue
        this.announced.add(call.id)
        this.parts.push({ _tag: "ToolCall", call })
      }
    return reply
  }
}

/** Assembles the events of one stream. */
export const eventReaderOf = (context: ReadContext, headers: HeaderMap): EventReader =>
  new ResponseReader(context, headers)
