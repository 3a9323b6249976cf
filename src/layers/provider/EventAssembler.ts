/**
 * Events of one stream, assembled: the framing and the ending, the same on every wire. What an event means is the
 * wire's EventReader. Pure; knows no SDK and no socket.
 */
import * as Result from "effect/Result"
import { createParser, type EventSourceParser } from "eventsource-parser"
import type { Verdict } from "../../domain/provider/classify.ts"
import { answerLimits } from "../../domain/chat/AnswerLimits.ts"
import type { ModelPart, ModelReply } from "../../domain/chat/ModelReply.ts"
import type { Usage } from "../../domain/chat/Usage.ts"
import type { EventReader } from "../../domain/wires/EventReader.ts"
import { longestWords, wordsIn } from "../../domain/wires/wordsIn.ts"
import { cut, flaw, isFlaw, sentenceOf, type Flaw } from "../../domain/wires/wireReply.ts"

/**
 * `feed` takes decoded text of any size (one network read) and returns its parts; `end` is called when the body has
 * ended. A fault ends the assembly.
 */
export class EventAssembler {
  private readonly reader: EventReader
  private readonly parser: EventSourceParser
  private events = 0
  private isFinished = false
  private isTold = false
  /** What ended the stream early; null = nothing. */
  fault: Flaw | Verdict | null = null

  private readonly eventBytes: number
  /** Text since the last event: what one event may hold is bounded. */
  private pending = 0
  /** What came before the first event. */
  private lead = ""

  constructor(reader: EventReader, eventBytes: number = answerLimits.eventBytes) {
    this.reader = reader
    this.eventBytes = eventBytes
    this.parser = createParser({ onEvent: (event) => this.onEvent(event.event, event.data) })
  }

  /** The wire's own end was read. */
  get done(): boolean {
    return this.reader.done
  }

  /** A finish reason is the last word of a reply: usage and the wire's own end may be missing. */
  get finished(): boolean {
    return this.fault === null && this.reader.finishReason !== null
  }

  /** The reply as it stands behind its finish reason, once; null = it is not whole, or was told. */
  whole(): ReadonlyArray<ModelPart> | null {
    const { finishReason } = this.reader
    if (this.isTold || this.fault !== null || this.done || finishReason === null) return null
    this.isTold = true
    const reply = this.reader.reply(finishReason)
    return isFlaw(reply) ? null : [...this.reader.parts.splice(0), { _tag: "Whole", reply }]
  }

  /** Parts of one network read; at least a sign of life. Look at `fault` and `done` after it. */
  feed(text: string): ReadonlyArray<ModelPart> {
    this.pending += text.length
    if (this.events === 0 && this.lead.length < longestWords) this.lead += text.slice(0, longestWords)
    this.parser.feed(text)
    if (this.pending > this.eventBytes) this.fault ??= flaw("event_too_large", this.usage)
    if (this.done) this.finish()
    const parts = this.reader.parts.splice(0)
    return parts.length === 0 ? [{ _tag: "Life" }] : parts
  }

  /** The body has ended. */
  end(): ReadonlyArray<ModelPart> {
    // A last event without its blank line is an event all the same.
    if (!this.done && this.fault === null) this.parser.feed("\n\n")
    this.finish()
    return this.reader.parts.splice(0)
  }

  get usage(): Usage | null {
    return this.reader.usage
  }

  private onEvent(name: string | undefined, data: string): void {
    this.pending = 0
    if (data.length > this.eventBytes) this.fault ??= flaw("event_too_large", this.usage)
    if (this.fault !== null || this.done || data.trim() === "") return
    this.fault = this.reader.onEvent(name, data)
    // The end alone is no content.
    if (!this.done) this.events += 1
  }

  private finish(): void {
    if (this.fault !== null || this.isFinished) return
    this.isFinished = true
    // A stream of plain words, without a single event: what the server says instead.
    const words = this.events === 0 ? wordsIn(this.lead) : ""
    if (words !== "") this.fault = this.reader.onEvent(undefined, words)
    if (this.fault !== null) return
    const { finishReason, usage } = this.reader
    if (finishReason === null) {
      const code = this.events === 0 ? "empty_stream" : "no_finish_reason"
      this.fault = { kind: "interrupted", code, usage }
      return
    }
    const reply = this.reader.reply(finishReason)
    if (isFlaw(reply)) this.fault = reply
    else this.reader.parts.push({ _tag: "End", reply })
  }
}

/** An event stream that came in answer to a plain request: the reply it would have streamed, and a warning. */
export const eventsAsReply = (assembler: EventAssembler, text: string): Result.Result<ModelReply, Flaw | Verdict> => {
  const parts = [...assembler.feed(text), ...(assembler.done || assembler.fault !== null ? [] : assembler.end())]
  if (assembler.fault !== null) return Result.fail(assembler.fault)
  const end = parts.find((part) => part._tag === "End")
  if (end === undefined) return Result.fail(cut("no_finish_reason", assembler.usage))
  const { reply } = end
  return Result.succeed({ ...reply, warnings: [...reply.warnings, sentenceOf("events_for_a_body")] })
}
