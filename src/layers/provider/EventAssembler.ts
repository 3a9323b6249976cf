/**
 * Events of one stream, assembled: the framing and the ending, the same on every wire. What an event means is the
 * wire's EventReader. Pure; knows no SDK and no socket.
 */
import { createParser, type EventSourceParser } from "eventsource-parser"
import type { Verdict } from "../../domain/provider/classify.ts"
import type { ModelPart } from "../../domain/chat/ModelReply.ts"
import type { EventReader } from "../../domain/wires/EventReader.ts"
import { isFlaw, type Flaw } from "../../domain/wires/wireReply.ts"

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

  constructor(reader: EventReader) {
    this.reader = reader
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
    this.parser.feed(text)
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

  private onEvent(name: string | undefined, data: string): void {
    if (this.fault !== null || this.done || data.trim() === "") return
    this.fault = this.reader.onEvent(name, data)
    // The end alone is no content.
    if (!this.done) this.events += 1
  }

  private finish(): void {
    if (this.fault !== null || this.isFinished) return
    this.isFinished = true
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
