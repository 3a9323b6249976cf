/**
 * One response id, one item id per index, sequence numbers that go on, one end with the merged output: what a client of
 * the responses wire must see of an answer that took several attempts.
 */
import { isObject, type Json } from "../../chat/json.ts"
import type { Stitcher, UsageRepair } from "./NativeWire.ts"
import { objectsIn } from "./patch.ts"

interface Item {
  readonly index: number
  readonly id: string
  readonly type: string
  /** The item as it was closed; null = it is open. */
  done: Json | null
  /** Summary texts of thinking, as far as they were shown. */
  thinking: string
}

/** An item of the attempt under way, and what it is for the client; null = it is not shown. */
type Place = Item | null

const lifecycle = new Set(["response.created", "response.queued", "response.in_progress"])
const ends = new Set(["response.completed", "response.incomplete"])

const textAt = (object: Json, key: string): string => {
  const value = object[key]
  return typeof value === "string" ? value : ""
}

export class ResponsesStitcher implements Stitcher {
  private readonly usageWith: (raw: unknown, usage: UsageRepair | null) => unknown
  private head: Json | null = null
  private sequence = -1
  private readonly items = new Map<number, Item>()
  /** The message whose text goes on. */
  private message: Item | null = null
  private text = ""
  private places = new Map<number, Place>()
  private joined = false
  private readonly deadIds: Array<string> = []

  constructor(usageWith: (raw: unknown, usage: UsageRepair | null) => unknown) {
    this.usageWith = usageWith
  }

  get dead(): ReadonlyArray<string> {
    return this.deadIds
  }

  saw(event: Json): void {
    const type = textAt(event, "type")
    const number = event["sequence_number"]
    if (typeof number === "number") this.sequence = Math.max(this.sequence, number)
    if (lifecycle.has(type) && isObject(event["response"])) this.head ??= event["response"]
    const index = typeof event["output_index"] === "number" ? event["output_index"] : 0
    const { item } = event
    if (type === "response.output_item.added" && isObject(item)) this.add(index, item)
    const known = this.items.get(index)
    if (known === undefined) return
    if (type === "response.output_item.done" && isObject(item)) known.done = item
    if (type === "response.output_text.delta") this.text += textAt(event, "delta")
    if (type.startsWith("response.reasoning_") && type.endsWith(".delta")) known.thinking += textAt(event, "delta")
  }

  private add(index: number, item: Json): Item {
    const added: Item = { index, id: textAt(item, "id"), type: textAt(item, "type"), done: null, thinking: "" }
    this.items.set(index, added)
    if (added.type === "message") this.message = added
    return added
  }

  private numbered(event: Json): Json {
    this.sequence += 1
    return { ...event, sequence_number: this.sequence }
  }

  begin(): ReadonlyArray<Json> {
    this.places = new Map()
    this.joined = false
    const closing: Array<Json> = []
    for (const item of this.items.values()) {
      if (item.done !== null || item.type !== "reasoning") continue
      const summary = item.thinking === "" ? [] : [{ type: "summary_text", text: item.thinking }]
      item.done = { id: item.id, type: "reasoning", summary, status: "incomplete" }
      this.deadIds.push(item.id)
      closing.push(this.numbered({ type: "response.output_item.done", output_index: item.index, item: item.done }))
    }
    return closing
  }

  private get next(): number {
    return Math.max(-1, ...this.items.keys()) + 1
  }

  render(event: Json, text: string | null, usage: UsageRepair | null): ReadonlyArray<Json> {
    const type = textAt(event, "type")
    if (lifecycle.has(type)) {
      if (isObject(event["response"])) this.head ??= event["response"]
      return []
    }
    if (ends.has(type)) return [...this.closing(), this.numbered(this.ended(event, usage))]
    if (typeof event["output_index"] !== "number") return [this.numbered(event)]
    if (type === "response.output_item.added") return this.added(event, event["output_index"])
    const place = this.places.get(event["output_index"])
    if (place === undefined || place === null) return []
    return this.within(type, event, place, text).map((own) => this.numbered(own))
  }

  private added(event: Json, index: number): ReadonlyArray<Json> {
    const item = isObject(event["item"]) ? event["item"] : {}
    const type = textAt(item, "type")
    if (type === "message" && !this.joined && this.message !== null && this.message.done === null) {
      this.joined = true
      this.places.set(index, this.message)
      return []
    }
    // Thinking behind shown text is that of a replay or of a continuation: the client has had its own.
    if (type === "reasoning" && this.text !== "") {
      this.places.set(index, null)
      return []
    }
    const place = this.add(this.next, item)
    this.places.set(index, place)
    return [this.numbered({ ...event, output_index: place.index })]
  }

  private isGoingOn(place: Item): boolean {
    return this.joined && place === this.message
  }

  private within(type: string, event: Json, place: Item, text: string | null): ReadonlyArray<Json> {
    const at = { output_index: place.index, ...("item_id" in event ? { item_id: place.id } : {}) }
    const isMessage = place === this.message
    switch (type) {
      case "response.content_part.added":
        return this.isGoingOn(place) && this.text !== "" ? [] : [{ ...event, ...at }]
      case "response.output_text.delta":
        if (text === null || text === "") return []
        this.text += text
        return [{ ...event, ...at, delta: text }]
      case "response.output_text.done":
        return [{ ...event, ...at, ...(isMessage ? { text: this.text } : {}) }]
      case "response.content_part.done":
        return [
          { ...event, ...at, ...(isMessage && isObject(event["part"]) ? { part: this.wholePart(event["part"]) } : {}) }
        ]
      case "response.output_item.done": {
        const item = isObject(event["item"]) ? event["item"] : {}
        place.done = isMessage ? this.whole(item) : item
        return [{ ...event, ...at, item: place.done }]
      }
      default:
        if (type.startsWith("response.reasoning_") && type.endsWith(".delta")) place.thinking += textAt(event, "delta")
        return [{ ...event, ...at }]
    }
  }

  /** A message that the last attempt has not gone on with ends as far as it was shown. */
  private closing(): ReadonlyArray<Json> {
    const { message } = this
    if (message === null || message.done !== null || this.joined) return []
    const place = { item_id: message.id, output_index: message.index, content_index: 0 }
    const part = { type: "output_text", text: this.text, annotations: [], logprobs: [] }
    message.done = { id: message.id, type: "message", role: "assistant", status: "completed", content: [part] }
    return [
      { type: "response.output_text.done", ...place, text: this.text, logprobs: [] },
      { type: "response.content_part.done", ...place, part },
      { type: "response.output_item.done", output_index: message.index, item: message.done }
    ].map((event) => this.numbered(event))
  }

  private wholePart(part: Json): Json {
    return part["type"] === "output_text" ? { ...part, text: this.text } : part
  }

  /** The message with the id that the client knows and the whole text. */
  private whole(item: Json): Json {
    const parts = objectsIn(item["content"])
    const at = parts.findIndex((part) => part["type"] === "output_text")
    return {
      ...item,
      id: this.message?.id ?? item["id"],
      content: parts.map((part, index) => (index === at ? this.wholePart(part) : part))
    }
  }

  /** What was whole before the last attempt, then the last attempt's own; thinking that broke off is no part of it. */
  private output(own: ReadonlyArray<Json>): ReadonlyArray<Json> {
    const shown = new Set([...this.places.values()].flatMap((place) => (place === null ? [] : [place])))
    const before = [...this.items.values()]
      .filter((item) => !shown.has(item) && item.done !== null && !this.deadIds.includes(item.id))
      .map((item) => item.done)
      .filter((item) => item !== null)
    const last = own.flatMap((item, index): ReadonlyArray<Json> => {
      const place = this.places.get(index)
      if (place === null) return []
      return [place !== undefined && place === this.message ? this.whole(item) : item]
    })
    return [...before, ...last]
  }

  private ended(event: Json, usage: UsageRepair | null): Json {
    const response = isObject(event["response"]) ? event["response"] : {}
    const head = this.head ?? {}
    const own = objectsIn(response["output"])
    return {
      ...event,
      response: {
        ...response,
        ...(head["id"] === undefined ? {} : { id: head["id"] }),
        ...(head["created_at"] === undefined ? {} : { created_at: head["created_at"] }),
        output: this.output(own),
        ...(response["usage"] === undefined ? {} : { usage: this.usageWith(response["usage"], usage) })
      }
    }
  }
}
