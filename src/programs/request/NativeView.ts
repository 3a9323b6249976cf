/**
 * What a native client sees of a stream, and what is held back from it. Start events wait for the first output, calls and
 * the end for the whole answer: until something was shown, every fault is repaired as if nothing had happened. As long as
 * one attempt is all there is, its bytes are passed on as they came.
 */
import type { AnswerLimits } from "../../domain/chat/AnswerLimits.ts"
import { isJson, isObject, parsedObject, type Json } from "../../domain/chat/json.ts"
import type { FinishReason, ModelPart, ModelReply } from "../../domain/chat/ModelReply.ts"
import type { Usage } from "../../domain/chat/Usage.ts"
import type { Verdict } from "../../domain/provider/classify.ts"
import type { EventReader } from "../../domain/wires/EventReader.ts"
import type { NativeWire, Stitcher, UsageRepair } from "../../domain/wires/native/NativeWire.ts"
import { SseBlocks, type SseBlock } from "../../domain/wires/native/SseBlocks.ts"
import { longestWords, wordsIn } from "../../domain/wires/wordsIn.ts"
import { flaw, isFlaw, type Flaw } from "../../domain/wires/wireReply.ts"

type Problem = Flaw | Verdict

interface Held {
  readonly block: SseBlock
  /** What of its text is new to the client; null = the block has none. */
  readonly text: string | null
  readonly isReasoning: boolean
  readonly isComment: boolean
}

export interface Shown {
  /** Text behind the last fragment. */
  text: string
  reasoning: boolean
  /** Something is on screen that no later attempt can go on from. */
  other: boolean
}

export interface ViewOptions {
  readonly wire: NativeWire
  /** Nothing is shown before the answer is whole. */
  readonly isVerified: boolean
  /** The answer cannot be gone on from, whatever is shown of it. */
  readonly isRough: boolean
  readonly limits: AnswerLimits
  readonly write: (bytes: Uint8Array) => void
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Whether these are pieces of one read, each right behind the other. */
const areNeighbours = (blocks: ReadonlyArray<Uint8Array>): boolean =>
  blocks.every((block, at) => {
    const before = blocks[at - 1]
    return (
      before === undefined ||
      (before.buffer === block.buffer && before.byteOffset + before.byteLength === block.byteOffset)
    )
  })

const joined = (blocks: ReadonlyArray<Uint8Array>): Uint8Array => {
  const [first] = blocks
  if (blocks.length === 1 && first !== undefined) return first
  const size = blocks.reduce((sum, block) => sum + block.length, 0)
  if (first !== undefined && areNeighbours(blocks)) return new Uint8Array(first.buffer, first.byteOffset, size)
  const all = new Uint8Array(size)
  let at = 0
  for (const block of blocks) {
    all.set(block, at)
    at += block.length
  }
  return all
}

/** What one event has brought. */
export interface Brought {
  readonly text: string | null
  readonly reasoning: boolean
  readonly call: boolean
  readonly usage: Usage | null
}

const broughtBy = (parts: ReadonlyArray<ModelPart>): Brought => {
  let text: string | null = null
  let reasoning = false
  let call = false
  let usage: Usage | null = null
  for (const part of parts) {
    if (part._tag === "Text") text = (text ?? "") + part.text
    else if (part._tag === "Reasoning") reasoning = true
    else if (part._tag === "ToolCall" || part._tag === "ToolCallDelta") call = true
    else if (part._tag === "Usage") usage = part.usage
  }
  return { text, reasoning, call, usage }
}

/** A chunk of chat that brings text and the end together, without the end. */
const withoutEnd = (block: SseBlock): SseBlock => {
  if (block.data === null || !/"finish_reason":\s*"/.test(block.data)) return block
  const event = parsedObject(block.data)
  if (event === null || !Array.isArray(event["choices"])) return block
  const { usage: _, ...rest } = event
  const choices = event["choices"].map((choice: unknown) =>
    isObject(choice) ? { ...choice, finish_reason: null } : choice
  )
  const data = JSON.stringify({ ...rest, choices })
  return { ...block, data, bytes: encoder.encode(`data: ${data}\n\n`) }
}

/** Shorter texts are repeated for good reasons. */
const leastEcho = 24

const interrupted = (code: string): Flaw => ({ kind: "interrupted", code, usage: null })

export class NativeView {
  private readonly options: ViewOptions
  private reader: EventReader | null = null
  private splitter = new SseBlocks()
  private held: Array<Held> = []
  /** Of the answer that is read now. */
  private bytes = 0
  /** A call has begun, or the answer has said why it stops: nothing more is shown before it is whole. */
  private isHolding = false
  /** What the client has of the first attempt, for a repair: as it was written, so that no event of it is kept on its own. */
  private released: Array<Uint8Array> = []
  /** An event is among it. */
  private hasReleased = false
  private textBlocks = 0
  private stitcher: Stitcher | null = null
  private replay: { readonly expected: string; matched: number } | null = null
  /** Text of the fragments so far; what a continuation says at its start while it may be their repetition. */
  private told = ""
  private echo: { readonly expected: string; said: string } | null = null
  readonly shown: Shown = { text: "", reasoning: false, other: false }
  replayDiffers = false
  private events = 0
  /** Text before the first event. */
  private lead = ""
  /** The response that the provider may have kept, and the last of its events. */
  id: string | null = null
  sequence = -1
  /** The id under which the client knows an answer that went on over several attempts. */
  shownId: string | null = null
  private isTakenUp = false
  /** What one read lets through goes on in one piece; null = no read is looked at. */
  private batch: Array<Uint8Array> | null = null

  constructor(options: ViewOptions) {
    this.options = options
  }

  /** A new attempt, read by this reader. */
  begin(reader: EventReader): void {
    this.reader = reader
    this.splitter = new SseBlocks()
    this.held = []
    this.bytes = 0
    this.isHolding = false
    this.replayDiffers = false
    this.events = 0
    this.lead = ""
    this.id = null
    this.sequence = -1
    this.isTakenUp = false
    // What the attempt before had said by its end was not shown: this one says it anew.
    const mayRepeat = this.told.length >= leastEcho && this.shown.text === ""
    this.echo = mayRepeat ? { expected: this.told, said: "" } : null
  }

  /** The same answer goes on over another connection. */
  takeUp(): void {
    this.splitter = new SseBlocks()
    this.isTakenUp = true
  }

  get done(): boolean {
    return this.reader?.done ?? false
  }

  get finished(): boolean {
    return this.reader !== null && this.reader.finishReason !== null
  }

  get isStitched(): boolean {
    return this.stitcher !== null
  }

  get deadItems(): ReadonlyArray<string> {
    return this.stitcher?.dead ?? []
  }

  /** One network read. What ends the stream early; null = nothing. `onBrought` is told of every event. */
  feed(bytes: Uint8Array, usage: UsageRepair | null, onBrought: (brought: Brought) => void): Problem | null {
    const batch: Array<Uint8Array> = []
    this.batch = batch
    try {
      return this.read(bytes, usage, onBrought)
    } finally {
      this.batch = null
      if (batch.length > 0) this.write(joined(batch))
    }
  }

  private write(bytes: Uint8Array): void {
    if (this.batch !== null) {
      this.batch.push(bytes)
      return
    }
    if (this.stitcher === null) this.released.push(bytes)
    this.options.write(bytes)
  }

  private read(bytes: Uint8Array, usage: UsageRepair | null, onBrought: (brought: Brought) => void): Problem | null {
    for (const block of this.splitter.feed(bytes)) {
      const problem = this.onBlock(block, usage, onBrought)
      // Behind the word that ends an answer nothing can be wrong with it any more.
      if (problem !== null && !this.finished) return problem
    }
    const { eventBytes, replyBytes } = this.options.limits
    this.bytes += bytes.length
    if (this.splitter.pending > eventBytes) return flaw("event_too_large")
    return this.bytes > replyBytes ? flaw("answer_too_large") : null
  }

  /** The body has ended. */
  end(usage: UsageRepair | null, onBrought: (brought: Brought) => void): ModelReply | Problem {
    const rest = this.splitter.end()
    const problem = rest === null || !this.isTold(rest) ? null : this.onBlock(this.ended(rest), usage, onBrought)
    const words = this.saidInWords(rest)
    if (words !== null) return words
    // An event that has no end was cut: what it seems to say is not what it says.
    if (problem !== null && !this.finished) return isFlaw(problem) ? interrupted("event_cut") : problem
    return this.reply()
  }

  /** A stream of plain words, without a single event: what the server says instead; null = it is none. */
  private saidInWords(rest: SseBlock | null): Problem | null {
    if (this.events > 0 || this.reader === null) return null
    const words = wordsIn(this.lead + (rest === null || rest.data !== null ? "" : decoder.decode(rest.bytes)))
    return words === "" ? null : this.reader.onEvent(undefined, words)
  }

  /** Whether what is left at the end of a body says anything: a line that was cut must not run into the next one. */
  private isTold({ data, bytes }: SseBlock): boolean {
    if (data !== null) return data.trim() !== ""
    return this.finished && /^[:\s]/.test(decoder.decode(bytes))
  }

  /**
   * The last event of a body, which lacks its blank line: another attempt's events may follow it, and clients of messages
   * pass over an event without one.
   */
  private ended(block: SseBlock): SseBlock {
    const isEnd = this.finished && this.options.wire.name !== "messages"
    if (isEnd || block.data === null) return block
    return { ...block, bytes: joined([block.bytes, encoder.encode("\n\n")]) }
  }

  private reply(): ModelReply | Problem {
    const { reader } = this
    const finishReason: FinishReason | null = reader?.finishReason ?? null
    if (reader === null || finishReason === null)
      return interrupted(this.events === 0 ? "empty_stream" : "no_finish_reason")
    if (this.replay !== null) return this.differs()
    const reply = reader.reply(finishReason)
    reader.parts.length = 0
    return reply
  }

  private differs(): Flaw {
    this.replayDiffers = true
    return interrupted("replay_differs")
  }

  private onBlock(block: SseBlock, usage: UsageRepair | null, onBrought: (brought: Brought) => void): Problem | null {
    const { data } = block
    const { reader } = this
    if (data === null || data.trim() === "" || reader === null || reader.done) return this.onComment(block)
    if (this.wasSeen(data)) return null
    const problem = reader.onEvent(block.event, data)
    if (problem !== null) return problem
    if (!reader.done) this.events += 1
    const brought = broughtBy(reader.parts)
    reader.parts.length = 0
    onBrought(brought)
    const isOutput = brought.text !== null || brought.reasoning
    if (!isOutput && !brought.call && data.trim() !== "[DONE]" && !isJson(data))
      // A piece of an event may have held text; a line of something else has not.
      return /^\s*[[{"]/.test(data) ? interrupted("chunk_not_json") : null
    const text = brought.text === null ? null : this.fresh(brought.text)
    if (brought.text !== null && text === null) return this.differs()
    this.hold({ block, text, isReasoning: brought.reasoning, isComment: false })
    if (brought.call || this.finished) {
      this.isHolding = true
      this.endEcho()
    }
    if (this.echo !== null) return null
    if (isOutput && !this.isHolding && !this.options.isVerified) this.flush(usage)
    return null
  }

  /** Comments pass at once when nothing waits before them. */
  private onComment(block: SseBlock): null {
    if (this.events === 0 && this.lead.length < longestWords)
      this.lead += decoder.decode(block.bytes.subarray(0, longestWords))
    const isQuiet = this.held.length === 0 && !this.options.isVerified && this.hasShown
    if (isQuiet) this.write(block.bytes)
    else this.hold({ block, text: null, isReasoning: false, isComment: true })
    return null
  }

  private noteMessageId(data: string): void {
    if (this.id !== null || !data.includes('"message_start"')) return
    const message = parsedObject(data)?.["message"]
    if (isObject(message) && typeof message["id"] === "string") this.id = message["id"]
  }

  /** Notes id and number of an event; true = a stream that was taken up has begun too early. */
  private wasSeen(data: string): boolean {
    if (this.options.wire.name === "messages") this.noteMessageId(data)
    if (this.options.wire.name !== "responses") return false
    if (this.id === null && data.includes('"response.created"')) {
      const response = parsedObject(data)?.["response"]
      if (typeof response === "object" && response !== null && "id" in response && typeof response.id === "string")
        this.id = response.id
    }
    // An answer that has failed is kept as a failed one: its stream has nothing more to give.
    if (data.includes('"response.failed"')) this.id = null
    const number = Number(/"sequence_number":\s*(\d+)/.exec(data)?.[1] ?? -1)
    if (number < 0) return false
    if (this.isTakenUp && number <= this.sequence) return true
    this.sequence = Math.max(this.sequence, number)
    return false
  }

  private hold(held: Held): void {
    this.held.push(held)
  }

  private get hasShown(): boolean {
    return this.shown.text !== "" || this.shown.reasoning || this.shown.other || this.hasReleased
  }

  /** The part of a text that is new to the client; null = the replay says something else. */
  private fresh(text: string): string | null {
    if (this.echo !== null) return this.beyondEcho(this.echo, text)
    if (this.replay === null) return text
    const want = this.replay.expected.slice(this.replay.matched, this.replay.matched + text.length)
    if (!text.startsWith(want)) return null
    this.replay.matched += want.length
    if (this.replay.matched === this.replay.expected.length) this.replay = null
    return text.slice(want.length)
  }

  /** A model that was asked to go on may begin anew: what it repeats word for word is not shown twice. */
  private beyondEcho(echo: { readonly expected: string; said: string }, text: string): string {
    const said = echo.said + text
    if (said.length < echo.expected.length && echo.expected.startsWith(said)) {
      echo.said = said
      return ""
    }
    this.echo = null
    return said.startsWith(echo.expected) ? said.slice(echo.expected.length) : said
  }

  /** The continuation ended within what it might have repeated: it was new. */
  private endEcho(): void {
    const said = this.echo?.said ?? ""
    this.echo = null
    const last = this.held.findLastIndex(({ text }) => text !== null)
    const one = this.held[last]
    if (one !== undefined) this.held[last] = { ...one, text: `${said}${one.text ?? ""}` }
  }

  /** Shows what is held. */
  private flush(usage: UsageRepair | null): void {
    const { held } = this
    this.held = []
    if (held.length === 0) return
    for (const one of held) this.note(one)
    if (this.stitcher === null) {
      this.write(joined(held.map(({ block }) => block.bytes)))
      return
    }
    const out = held.map((one) => this.rendered(one, usage)).join("")
    if (out !== "") this.write(encoder.encode(out))
  }

  /** What the client has now. */
  private note(held: Held): void {
    if (this.stitcher === null && !held.isComment) this.hasReleased = true
    if (held.text !== null) {
      this.shown.text += held.text
      if (this.options.isRough) this.shown.other = true
    } else if (held.isReasoning) this.shown.reasoning = true
    else if (!held.isComment) this.noteOpening(held.block)
  }

  /** A second text, or anything that is neither text nor thinking, cannot be gone on from. */
  private noteOpening({ data }: SseBlock): void {
    if (data === null || this.options.wire.name === "chat") return
    if (!data.includes("content_block_start") && !data.includes("response.output_item.added")) return
    const event = parsedObject(data)
    const opened: unknown = event === null ? undefined : (event["content_block"] ?? event["item"])
    const type: unknown = typeof opened === "object" && opened !== null ? Reflect.get(opened, "type") : undefined
    if (type === "thinking" || type === "redacted_thinking" || type === "reasoning") return
    if (type !== "text" && type !== "message") this.shown.other = true
    else if (this.stitcher === null) {
      this.textBlocks += 1
      if (this.textBlocks > 1) this.shown.other = true
    }
  }

  private rendered({ block, text, isComment }: Held, usage: UsageRepair | null): string {
    const { data } = block
    if (isComment || data === null) return decoder.decode(block.bytes)
    if (data.trim() === "[DONE]") return this.options.wire.closing
    const event = parsedObject(data)
    if (event === null || this.stitcher === null) return ""
    return this.textOf(this.stitcher.render(event, text, usage))
  }

  private textOf(events: ReadonlyArray<Json>): string {
    return events.map(this.options.wire.eventText).join("")
  }

  /** From here on the client's stream goes on over several attempts. */
  stitch(): void {
    if (this.stitcher === null) {
      this.stitcher = this.options.wire.stitcher()
      if (this.hasReleased) this.shownId = this.id
      const splitter = new SseBlocks()
      for (const { data } of this.released.flatMap((bytes) => splitter.feed(bytes))) {
        const event = data === null ? null : parsedObject(data)
        if (event !== null) this.stitcher.saw(event)
      }
      this.released = []
      this.hasReleased = false
    }
    const closed = this.textOf(this.stitcher.begin())
    if (closed !== "") this.options.write(encoder.encode(closed))
    this.shown.reasoning = false
  }

  /** The next attempt begins again: what it repeats of the shown text is not shown again. */
  splice(): void {
    this.stitch()
    this.replay = this.shown.text === "" ? null : { expected: this.shown.text, matched: 0 }
  }

  /** The shown text is a fragment now. */
  goOn(): void {
    this.stitch()
    this.replay = null
    this.told += this.shown.text
    this.shown.text = ""
  }

  /** Text that is still held in an answer that will be continued belongs to the client; the answer's end does not. */
  commitText(usage: UsageRepair | null): void {
    const last = this.held.findLastIndex(({ text }) => text !== null)
    this.held = this.held.slice(0, last + 1).map((one) => ({ ...one, block: withoutEnd(one.block) }))
    this.flush(usage)
  }

  /** The answer is whole. A comment of ours comes before the last event: behind it nobody reads. */
  complete(usage: UsageRepair | null, comment: string | null): void {
    const last = this.held.findLastIndex(({ isComment }) => !isComment)
    if (comment !== null && last !== -1) {
      const block = { bytes: encoder.encode(`: ${comment}\n\n`), event: undefined, data: null }
      this.held.splice(last, 0, { block, text: null, isReasoning: false, isComment: true })
    }
    this.flush(usage)
    if (!this.done && this.options.wire.lastWord !== "") this.options.write(encoder.encode(this.options.wire.lastWord))
  }

  /** A body that came in place of a stream, as events. */
  asEvents(body: Json): void {
    const { wire } = this.options
    const bytes = encoder.encode(wire.eventsOf(body).map(wire.eventText).join("") + wire.closing)
    for (const block of new SseBlocks().feed(bytes)) this.onBlock(block, null, () => undefined)
  }

  isUnfinishable(): boolean {
    return this.shown.other || (this.shown.text === "" && this.shown.reasoning)
  }
}

export const isProblem = (value: ModelReply | Problem): value is Problem => isFlaw(value) || "inBand" in value
