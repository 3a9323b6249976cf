/** Events of one stream of Anthropic's wire, as they come. */
import { isJson, isObject, isText, type Json } from "../chat/json.ts"
import type { FinishReason, ModelPart, ModelReply } from "../chat/ModelReply.ts"
import * as Usage from "../chat/Usage.ts"
import { finishReasonOf, type Verdict } from "../provider/classify.ts"
import {
  argumentsOf,
  blockOf,
  callsOf,
  furtherOfBody,
  readUsage,
  textAt,
  toReply,
  type Block
} from "./anthropicReply.ts"
import type { EventReader } from "./EventReader.ts"
import { EventDataReader } from "./eventData.ts"
import type { Fields } from "./furtherFields.ts"
import { SameForm } from "./SameForm.ts"
import {
  Deviations,
  flaw,
  isFlaw,
  unknownFinish,
  type CallReading,
  type Flaw,
  type HeaderMap,
  type ReadContext
} from "./wireReply.ts"

class MessageReader implements EventReader {
  private readonly context: ReadContext
  private readonly events: EventDataReader
  private readonly deviations = new Deviations()
  private readonly form = new SameForm("text")
  /** Index of the block whose text has the remembered form. */
  private textIndex = 0
  readonly parts: Array<ModelPart> = []
  private readonly blocks: Array<Block> = []
  /** The block an index stands for now: some relays use one again for the next block. */
  private readonly byIndex = new Map<number, Block>()
  private readonly stopped = new Set<Block>()
  private announced = 0
  private text = ""
  private answerId = ""
  private readonly details: Fields = {}
  finishReason: FinishReason | null = null
  usage: Usage.Usage | null = null
  private servedModel: string | null = null
  /** `message_stop` was read. */
  done = false

  constructor(context: ReadContext, headers: HeaderMap) {
    this.context = context
    this.events = new EventDataReader(context, headers)
  }

  private get reading(): CallReading {
    return { context: this.context, deviations: this.deviations, answerId: this.answerId }
  }

  reply(finishReason: FinishReason): ModelReply | Flaw {
    const reply = toReply(this.reading, {
      blocks: this.blocks,
      text: this.text,
      finishReason,
      usage: this.usage,
      servedModel: this.servedModel,
      details: this.details
    })
    if (!isFlaw(reply) && finishReason !== "length") this.announce(true)
    return reply
  }

  /** Calls in the order of the reply, as far as they are whole. */
  private announce(isOver: boolean): void {
    const used = this.blocks.filter((block) => block.type === "tool_use")
    const whole = used.findIndex((block) => !isOver && !(this.stopped.has(block) && isJson(argumentsOf(block))))
    const end = whole === -1 ? used.length : whole
    for (const call of callsOf(this.reading, used.slice(0, end)).slice(this.announced))
      this.parts.push({ _tag: "ToolCall", call })
    this.announced = Math.max(this.announced, end)
  }

  onEvent(name: string | undefined, data: string): Flaw | Verdict | null {
    const same = this.form.textIn(name, data)
    if (same !== null) return this.onDelta(this.textIndex, { type: "text_delta", text: same })
    if (data.trim() === "[DONE]") return null
    const read = this.events.read(name, data, this.usage)
    if (read._tag === "Problem") return read.problem
    if (read._tag === "Nothing") return null
    const event = read.value
    if (!isObject(event)) return flaw("event_not_an_object", this.usage)
    const problem = this.read(event)
    if (problem === null) this.rememberText(name, data, event)
    return problem
  }

  /** A piece of a block's text brings nothing else. */
  private rememberText(name: string | undefined, data: string, event: Json): void {
    const { type, index, delta } = event
    if (type !== "content_block_delta" || typeof index !== "number" || !isObject(delta)) return
    if (delta["type"] !== "text_delta" || textAt(delta, "text") === "") return
    this.form.remember(name, data, textAt(delta, "text"))
    this.textIndex = index
  }

  private read(event: Json): Flaw | null {
    const index = typeof event["index"] === "number" ? event["index"] : -1
    switch (event["type"]) {
      case "message_start":
        return this.onStart(isObject(event["message"]) ? event["message"] : {})
      case "content_block_start":
        return this.onBlock(index, event["content_block"])
      case "content_block_delta":
        return this.onDelta(index, isObject(event["delta"]) ? event["delta"] : {})
      case "content_block_stop": {
        const block = this.byIndex.get(index)
        // A call that the budget cut is closed like any other: only whole JSON is announced.
        if (block !== undefined) this.stopped.add(block)
        this.announce(false)
        return null
      }
      case "message_delta":
        return this.onEnd(isObject(event["delta"]) ? event["delta"] : {}, event["usage"])
      case "message_stop":
        this.done = true
        return null
      default:
        return null
    }
  }

  private onStart(message: Json): Flaw | null {
    if (textAt(message, "model") !== "") this.servedModel = textAt(message, "model")
    this.answerId = textAt(message, "id")
    Object.assign(this.details, furtherOfBody(message))
    return this.onUsage(message["usage"])
  }

  private onEnd(delta: Json, usage: unknown): Flaw | null {
    const reason = delta["stop_reason"]
    if (isText(reason)) {
      this.finishReason = finishReasonOf(this.context.profile, reason)
      if (this.finishReason === null) return unknownFinish(reason, this.usage)
    }
    Object.assign(this.details, furtherOfBody(delta))
    return this.onUsage(usage)
  }

  private onBlock(index: number, raw: unknown): Flaw | null {
    const block = blockOf(raw)
    if (block === null) return flaw("content_block_unknown", this.usage)
    this.begin(index, block)
    if (block.type === "text") this.say(block.text)
    if (block.type === "thinking" && block.text !== "") this.parts.push({ _tag: "Reasoning", text: block.text })
    if (block.type === "tool_use") this.parts.push({ _tag: "ToolCallDelta" })
    return null
  }

  private begin(index: number, block: Block): void {
    this.blocks.push(block)
    this.byIndex.set(index, block)
  }

  private say(text: string): void {
    if (text === "") return
    this.text += text
    this.parts.push({ _tag: "Text", text })
  }

  private onUsage(raw: unknown): Flaw | null {
    const usage = readUsage(this.context, this.deviations, raw)
    if (isFlaw(usage)) return usage
    if (usage === null) return null
    this.usage = this.usage === null ? usage : Usage.update(this.usage, usage)
    this.parts.push({ _tag: "Usage", usage: this.usage })
    return null
  }

  private onDelta(index: number, delta: Json): Flaw | null {
    const block = this.byIndex.get(index)
    if (block === undefined) return flaw("delta_without_block", this.usage)
    switch (delta["type"]) {
      case "text_delta":
        block.text += textAt(delta, "text")
        this.say(textAt(delta, "text"))
        return null
      case "thinking_delta":
        block.text += textAt(delta, "thinking")
        this.parts.push({ _tag: "Reasoning", text: textAt(delta, "thinking") })
        return null
      case "signature_delta":
        block.signature = (block.signature ?? "") + textAt(delta, "signature")
        return null
      case "citations_delta":
        if (delta["citation"] !== undefined) block.citations.push(delta["citation"])
        return null
      case "input_json_delta":
        block.args += textAt(delta, "partial_json")
        this.parts.push({ _tag: "ToolCallDelta" })
        return null
      default:
        return null
    }
  }
}

/** Assembles the events of one stream. */
export const eventReaderOf = (context: ReadContext, headers: HeaderMap): EventReader =>
  new MessageReader(context, headers)
