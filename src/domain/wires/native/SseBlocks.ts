/**
 * A stream of events cut into its blocks, each with the very bytes that brought it: what is passed on is what came. Pure;
 * takes reads of any size.
 */

export interface SseBlock {
  /** With the blank line that ends it. */
  readonly bytes: Uint8Array
  readonly event: string | undefined
  /** null = a comment or nothing: no event. */
  readonly data: string | null
}

const lineFeed = 10
const carriageReturn = 13

const decoder = new TextDecoder("utf-8", { ignoreBOM: false })

interface Fields {
  readonly event: string | undefined
  readonly data: string | null
}

const dataField = "data: "

/** Fields of a block, by the rules of event streams. */
const fieldsOf = (text: string): Fields => {
  // Nearly every event: one line of data, line feeds alone.
  const isPlain = text.startsWith(dataField) && text.indexOf("\n") === text.length - 2 && !text.includes("\r")
  return isPlain ? { event: undefined, data: text.slice(dataField.length, -2) } : allFieldsOf(text)
}

const allFieldsOf = (text: string): Fields => {
  let event: string | undefined
  let data: string | null = null
  for (const line of text.split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(":")
    if (line === "" || colon === 0) continue
    const name = colon === -1 ? line : line.slice(0, colon)
    const rest = colon === -1 ? "" : line.slice(colon + 1)
    const value = rest.startsWith(" ") ? rest.slice(1) : rest
    if (name === "data") data = data === null ? value : `${data}\n${value}`
    else if (name === "event") event = value
  }
  return { event, data }
}

/** Behind the blank line that ends the block which begins here; null = it is not there yet. Line feeds only. */
const endOfBlock = (text: string, from: number): number | null => {
  if (text.charCodeAt(from) === lineFeed) return from + 1
  const blank = text.indexOf("\n\n", from)
  return blank === -1 ? null : blank + 2
}

const joined = (left: Uint8Array, right: Uint8Array): Uint8Array => {
  if (left.length === 0) return right
  const all = new Uint8Array(left.length + right.length)
  all.set(left)
  all.set(right, left.length)
  return all
}

export class SseBlocks {
  /** Parts of the block that is not whole yet; joined only when it is, so that a long one is not copied with every read. */
  private parts: Array<Uint8Array> = []
  private size = 0
  /** The last character ended a line and the line before it is over: one more line end ends the block. */
  private isLineStart = true
  /** A line feed right behind this carriage return belongs to it. */
  private afterReturn = false

  /** Bytes of the block that is not whole yet. */
  get pending(): number {
    return this.size
  }

  feed(read: Uint8Array): ReadonlyArray<SseBlock> {
    const isPlain = this.size === 0 && this.isLineStart && !this.afterReturn && !read.includes(carriageReturn)
    const text = isPlain ? decoder.decode(read) : ""
    // A character for each byte: places in the text are places in the read.
    return isPlain && text.length === read.length ? this.feedPlain(read, text) : this.feedBytes(read)
  }

  /** A read that begins with a block and has line feeds only, the blocks of which need not be looked for byte by byte. */
  private feedPlain(read: Uint8Array, text: string): ReadonlyArray<SseBlock> {
    const blocks: Array<SseBlock> = []
    let from = 0
    while (from < text.length) {
      const end = endOfBlock(text, from)
      if (end === null) break
      blocks.push({ bytes: read.subarray(from, end), ...fieldsOf(text.slice(from, end)) })
      from = end
    }
    if (from < read.length) {
      this.parts.push(read.subarray(from))
      this.size = read.length - from
      this.isLineStart = read[read.length - 1] === lineFeed
    }
    return blocks
  }

  private feedBytes(read: Uint8Array): ReadonlyArray<SseBlock> {
    const blocks: Array<SseBlock> = []
    let from = 0
    for (let at = 0; at < read.length; at += 1) {
      const byte = read[at]
      if (byte === lineFeed && this.afterReturn) {
        this.afterReturn = false
        // The feed of a block's last line end: it belongs to the block that has just ended.
        if (at === from && this.size === 0 && blocks.length > 0) {
          const last = blocks.pop()
          if (last !== undefined) blocks.push({ ...last, bytes: joined(last.bytes, read.subarray(at, at + 1)) })
          from = at + 1
        }
        continue
      }
      this.afterReturn = byte === carriageReturn
      if (byte !== lineFeed && byte !== carriageReturn) {
        this.isLineStart = false
        continue
      }
      if (!this.isLineStart) {
        this.isLineStart = true
        continue
      }
      blocks.push(this.close(read.subarray(from, at + 1)))
      from = at + 1
    }
    if (from < read.length) {
      this.parts.push(read.subarray(from))
      this.size += read.length - from
    }
    return blocks
  }

  /** What is left when the body ends; null = nothing. */
  end(): SseBlock | null {
    return this.size === 0 ? null : this.close(new Uint8Array())
  }

  private close(rest: Uint8Array): SseBlock {
    const bytes = this.parts.reduceRight((right, left) => joined(left, right), rest)
    this.parts = []
    this.size = 0
    this.isLineStart = true
    return { bytes, ...fieldsOf(decoder.decode(bytes)) }
  }
}
