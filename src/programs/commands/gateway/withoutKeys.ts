/**
 * A provider that refuses a request may repeat its key, in its words or in a header. The key is the gateway's, and its callers
 * have their own: they are not shown it.
 */
import * as Redacted from "effect/Redacted"
import type { ByteSource } from "../../request/ByteSource.ts"
import { isSource, type Answer } from "./Answer.ts"
import type { GatewayConfig } from "./GatewayConfig.ts"

type Clean = (text: string) => string

const shown = "<redacted>"

/** Bytes are letters of latin1 here: a key has no others, and every other byte comes out as it went in. */
const cleanSource = (source: ByteSource, clean: Clean, longest: number): ByteSource => {
  // A key may stand in two chunks: as much as could be its beginning waits for the next one.
  let held = ""
  let isOver = false
  const passed = (text: string): Uint8Array => Buffer.from(clean(text), "latin1")
  return {
    take: () => {
      if (isOver) return null
      const bytes = source.take()
      if (bytes === undefined) return undefined
      if (bytes === null) {
        isOver = true
        return held === "" ? null : passed(held)
      }
      const text = clean(held + Buffer.from(bytes).toString("latin1"))
      const kept = Math.min(text.length, longest - 1)
      held = text.slice(text.length - kept)
      return passed(text.slice(0, text.length - kept))
    },
    whenReady: source.whenReady.bind(source),
    cancel: source.cancel.bind(source)
  }
}

/** Refusals without the keys of this configuration's upstreams. */
export const makeWithoutKeys = (config: GatewayConfig): ((answer: Answer) => Answer) => {
  const keys = config.upstreams.flatMap(({ apiKey }) => (apiKey === null ? [] : [Redacted.value(apiKey)]))
  if (keys.length === 0) return (answer) => answer
  const longest = Math.max(...keys.map((key) => key.length))
  const clean: Clean = (text) => keys.reduce((cleaned, key) => cleaned.replaceAll(key, shown), text)
  return (answer) => {
    if (answer.status < 400) return answer
    const { body } = answer
    return {
      ...answer,
      // A body of another length than it was told.
      lines: answer.lines
        .filter(([name]) => name !== "content-length")
        .map(([name, value]) => [name, clean(value)] as const),
      body: isSource(body)
        ? cleanSource(body, clean, longest)
        : typeof body === "string"
          ? clean(body)
          : Buffer.from(clean(Buffer.from(body).toString("latin1")), "latin1")
    }
  }
}
