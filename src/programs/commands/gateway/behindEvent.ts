/** A stream of the Responses API from behind one of its events on: what a client has seen already is passed over. */
import { parsedObject } from "../../../domain/chat/json.ts"
import type { ByteSource } from "../../request/ByteSource.ts"

/** Where the first event ends, with the empty line behind it; null = it is not whole yet. */
const endOf = (text: Buffer): number | null => {
  const ends = ["\n\n", "\r\n\r\n"].flatMap((gap) => {
    const at = text.indexOf(gap)
    return at === -1 ? [] : [at + gap.length]
  })
  return ends.length === 0 ? null : Math.min(...ends)
}

/** The number of an event; null = it has none, as comments have. */
const numberOf = (event: string): number | null => {
  const data = event
    .split(/\r?\n/)
    .flatMap((line) => (line.startsWith("data:") ? [line.slice("data:".length)] : []))
    .join("\n")
  const number = parsedObject(data)?.["sequence_number"]
  return typeof number === "number" ? number : null
}

/** The bytes behind the event of this number, as they came. */
export const behindEvent = (source: ByteSource, after: number): ByteSource => {
  // What was read of an event that is not whole; null = everything is passed on.
  let held: Buffer | null = Buffer.alloc(0)
  const behind = (bytes: Uint8Array, before: Buffer): Uint8Array | null => {
    let text = Buffer.concat([before, bytes])
    for (let end = endOf(text); end !== null; end = endOf(text)) {
      const number = numberOf(text.toString("utf8", 0, end))
      if (number !== null && number > after) {
        held = null
        return text
      }
      text = text.subarray(end)
    }
    held = text
    return null
  }
  return {
    take: () => {
      for (let bytes = source.take(); ; bytes = source.take()) {
        if (bytes === null || bytes === undefined || held === null) return bytes
        const rest = behind(bytes, held)
        if (rest !== null) return rest
      }
    },
    whenReady: source.whenReady.bind(source),
    cancel: source.cancel.bind(source)
  }
}
