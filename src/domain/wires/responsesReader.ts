/** Events of the responses wire, as they come. The last event holds the whole response and has the last word. */
import { isJson, isObject, isText, type Json } from "../chat/json.ts"
import type { FinishReason, ModelPart, ModelReply, ToolCall } from "../chat/ModelReply.ts"
import * as Usage from "../chat/Usage.ts"
import type { Verdict } from "../provider/classify.ts"
import type { EventReader } from "./EventReader.ts"
import { EventDataReader } from "./eventData.ts"
import {
  callOf,
  finishOfItems,
  isCall,
  itemsOf,
  readResponse,
  readUsage,
  responseFault,
  textAt
} from "./responsesReply.ts"
import { Deviations, flaw, isFlaw, type CallReading, type Flaw, type HeaderMap, type ReadContext } from "./wireReply.ts"

/** Events that bring a piece of a call. */
const isCallPiece = (type: string): boolean =>
  type.startsWith("response.function_call_arguments.") || type.startsWith("response.custom_tool_call_input.")

/** One item as its events come. */
interface Slot {
  readonly id: string
  readonly index: unknown
  /** As it began. */
  readonly start: Json
  text: string
  refusal: string
  thoughts: string
  input: string
  /** As it ended; null = no event has said so. */
  whole: Json | null
}

/** A call that no event has ended is whole when its input is. */
const calledBy = ({ start, input }: Slot): Json =>
  start["type"] === "custom_tool_call"
    ? { ...start, input, status: "completed" }
    : { ...start, arguments: input, status: isJson(input) ? "completed" : "incomplete" }

/** The item as it ended, or as its pieces tell it. */
const itemOf = (slot: Slot): Json => {
  if (slot.whole !== null) return slot.whole
  if (isCall(slot.start)) return calledBy(slot)
  if (slot.start["type"] === "reasoning")
    return { ...slot.start, summary: [{ type: "summary_text", text: slot.thoughts }] }
  if (slot.start["type"] !== "message") return slot.start
  const text = slot.text === "" ? [] : [{ type: "output_text", text: slot.text }]
  const refusal = slot.refusal === "" ? [] : [{ type: "refusal", refusal: slot.refusal }]
  return { role: "assistant", ...slot.start, content: [...text, ...refusal] }
}

const isSameCall = (one: ToolCall, other: ToolCall | undefined): boolean =>
  one.id === other?.id && one.name === other.name && one.arguments === other.arguments

class ResponseReader implements EventReader {
  private readonly context: ReadContext
  private readonly headers: HeaderMap
  private readonly events: EventDataReader
  private readonly deviations = new Deviations()
  readonly parts: Array<ModelPart> = []
  /** Items in the order they began. An index is a hint and no name: some servers use one for every item. */
  private readonly slots: Array<Slot> = []
  private readonly announced: Array<ToolCall> = []
  private shown = ""
  private answerId = ""
  private response: Json | null = null
  finishReason: FinishReason | null = null
  usage: Usage.Usage | null = null
  done = false

  constructor(context: ReadContext, headers: HeaderMap) {
    this.context = context
    this.headers = headers
    this.events = new EventDataReader(context, headers)
  }

  private get reading(): CallReading {
    return { context: this.context, deviations: this.deviations, answerId: this.answerId }
  }

  onEvent(name: string | undefined, data: string): Flaw | Verdict | null {
    if (data.trim() === "[DONE]") return null
    const read = this.events.read(name, data, this.usage)
    if (read._tag === "Problem") return read.problem
    if (read._tag === "Nothing") return null
    const event = read.value
    if (!isObject(event)) return flaw("event_not_an_object", this.usage)
    // Some relays keep the type in the event's name alone.
    const type = textAt(event, "type") || (this.context.profile.exact ? "" : (name ?? ""))
    return responseFault(this.context, this.headers, event) ?? this.read(type, event)
  }

  private read(type: string, event: Json): Flaw | Verdict | null {
    switch (type) {
      case "response.created":
      case "response.queued":
      case "response.in_progress":
        if (isObject(event["response"])) this.onBegun(event["response"])
        return null
      case "response.output_text.delta":
        return this.onText(event)
      case "response.refusal.delta":
        return this.onPiece(event, "message", "refusal")
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        this.parts.push({ _tag: "Reasoning", text: textAt(event, "delta") })
        return this.onPiece(event, "reasoning", "thoughts")
      case "response.output_item.added":
        return this.onBegin(event)
      case "response.output_item.done":
        return this.onItem(event)
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
      case "response.cancelled":
        return this.onEnd(event["response"])
      default:
        return isCallPiece(type) ? this.onCallPiece(type, event) : null
    }
  }

  /** An answer in the background is made to its end, whoever reads it: it can be asked for by its id. */
  private onBegun(response: Json): void {
    const id = textAt(response, "id")
    if (id === "" || id === this.answerId) return
    this.answerId = id
    if (response["background"] === true) this.parts.push({ _tag: "Stored", name: id })
  }

  /** The item an event is about, begun here when no event has begun it. */
  private slotOf(event: Json, start: Json): Slot {
    const id = textAt(event, "item_id") || textAt(start, "id")
    const index = event["output_index"]
    const known =
      (id === "" ? undefined : this.slots.find((slot) => slot.id === id)) ??
      this.slots.findLast(
        (slot) =>
          slot.index === index &&
          slot.whole === null &&
          slot.start["type"] === start["type"] &&
          (id === "" || slot.id === "")
      )
    return known ?? this.begin(id, index, start)
  }

  private begin(id: string, index: unknown, start: Json): Slot {
    const slot: Slot = { id, index, start, text: "", refusal: "", thoughts: "", input: "", whole: null }
    this.slots.push(slot)
    return slot
  }

  private onBegin(event: Json): Flaw | null {
    const { item } = event
    if (!isObject(item)) return flaw("item_not_an_object", this.usage)
    const id = textAt(item, "id")
    const isKnown = id !== "" && this.slots.some((slot) => slot.id === id)
    if (!isKnown) this.begin(id, event["output_index"], item)
    if (isCall(item)) this.parts.push({ _tag: "ToolCallDelta" })
    return null
  }

  private onPiece(event: Json, type: string, field: "text" | "refusal" | "thoughts" | "input"): Flaw | null {
    const { delta } = event
    if (!isText(delta)) return flaw("content_not_text", this.usage)
    this.slotOf(event, { type })[field] += delta
    return null
  }

  private onText(event: Json): Flaw | null {
    const problem = this.onPiece(event, "message", "text")
    const delta = textAt(event, "delta")
    this.shown += delta
    if (problem === null && delta !== "") this.parts.push({ _tag: "Text", text: delta })
    return problem
  }

  private onCallPiece(type: string, event: Json): Flaw | null {
    this.parts.push({ _tag: "ToolCallDelta" })
    const kind = type.startsWith("response.custom_tool_call_input.") ? "custom_tool_call" : "function_call"
    if (type.endsWith(".delta")) return this.onPiece(event, kind, "input")
    const input = event[kind === "function_call" ? "arguments" : "input"]
    if (type.endsWith(".done") && isText(input)) this.slotOf(event, { type: kind }).input = input
    return null
  }

  private onItem(event: Json): Flaw | null {
    const { item } = event
    if (!isObject(item)) return flaw("item_not_an_object", this.usage)
    const slot = this.slotOf(event, item)
    if (slot.whole === null) slot.whole = item
    else this.deviations.note("call_repeated")
    return this.announce()
  }

  /** Calls in the order of the reply, as far as they are whole. */
  private announce(): Flaw | null {
    const calls = this.slots.filter((slot) => isCall(slot.whole ?? slot.start))
    for (const { whole } of calls.slice(this.announced.length)) {
      if (whole === null || whole["status"] === "incomplete") return null
      const call = callOf(this.reading, whole, this.announced)
      if (isFlaw(call)) return { ...call, usage: this.usage }
      // What has no name or no id is told with the reply.
      if (call.name === "" || call.id === "") return null
      this.announced.push(call)
      this.parts.push({ _tag: "ToolCall", call })
    }
    return null
  }

  private onEnd(response: unknown): Flaw | Verdict | null {
    if (!isObject(response)) return flaw("response_missing", this.usage)
    const fault = responseFault(this.context, this.headers, response)
    if (fault !== null) return fault
    const usage = readUsage(this.context, this.deviations, response["usage"])
    if (isFlaw(usage)) return usage
    if (usage !== null) {
      this.usage = this.usage === null ? usage : Usage.update(this.usage, usage)
      this.parts.push({ _tag: "Usage", usage: this.usage })
    }
    const own = itemsOf(response)
    const finish = finishOfItems(this.context, response, own.length > 0 ? own : this.itemsSeen())
    if (isFlaw(finish)) return { ...finish, usage: this.usage }
    this.response = response
    this.finishReason = finish
    this.done = true
    return null
  }

  private itemsSeen(): ReadonlyArray<Json> {
    return this.slots.map(itemOf)
  }

  reply(finishReason: FinishReason): ModelReply | Flaw {
    const reply = readResponse(this.context, this.deviations, this.response, this.itemsSeen())
    if (isFlaw(reply)) return { ...reply, usage: reply.usage ?? this.usage }
    // What was shown is what was said: a last event that says something else is not believed.
    if (reply.refusal === null) {
      const said = reply.text ?? ""
      if (!said.startsWith(this.shown)) return flaw("text_differs", this.usage)
      const rest = said.slice(this.shown.length)
      if (rest !== "") this.parts.push({ _tag: "Text", text: rest })
    }
    if (finishReason === "length") return reply
    if (this.announced.some((call, at) => !isSameCall(call, reply.toolCalls[at])))
      return flaw("tool_calls_differ", this.usage)
    for (const call of reply.toolCalls.slice(this.announced.length)) this.parts.push({ _tag: "ToolCall", call })
    return reply
  }
}

/** Assembles the events of one stream. */
export const eventReaderOf = (context: ReadContext, headers: HeaderMap): EventReader =>
  new ResponseReader(context, headers)
