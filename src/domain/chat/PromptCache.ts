/**
 * Where a request marks its prefix for the provider's prompt cache: on the tools, on the system prompt and on the last
 * messages. At most 4 markers, lifetimes never longer than those before them. Pure; a provider without markers gets none.
 */
import * as Schema from "effect/Schema"
import { isSystem, type Message, type ToolSpec } from "./Message.ts"

/** How long the provider keeps a marked prefix. */
export const CacheTtl = Schema.Literals(["5m", "1h"])
export type CacheTtl = typeof CacheTtl.Type

/** Markers a request may carry. */
export const maxMarkers = 4
/** Of them on messages: the end of this request, and the end of the one before it, which is in the cache already. */
const maxMessageMarkers = 2

export interface CacheMarkers {
  /** On the last tool; null = none. */
  readonly tools: CacheTtl | null
  /** On the end of the leading system messages; null = none. */
  readonly system: CacheTtl | null
  /** On the end of these messages, in order. */
  readonly messages: ReadonlyArray<{ readonly index: number; readonly ttl: CacheTtl }>
}

export const noMarkers: CacheMarkers = { tools: null, system: null, messages: [] }

export interface Cacheable {
  readonly messages: ReadonlyArray<Message>
  readonly tools: ReadonlyArray<ToolSpec>
}

/** Messages a marker can stand on: the last of each stretch the model did not write itself. */
const anchorsOf = (messages: ReadonlyArray<Message>): ReadonlyArray<number> =>
  messages.flatMap((message, index) => {
    if (isSystem(message) || message.role === "assistant") return []
    const next = messages[index + 1]
    return next === undefined || next.role === "assistant" ? [index] : []
  })

/**
 * `ttl` null = the session uses no cache. The stable prefix (tools, system) and the messages get the same lifetime: one
 * that rises behind a shorter one would be refused.
 */
export const place = (
  request: Cacheable,
  options: { readonly markers: boolean; readonly ttl: CacheTtl | null }
): CacheMarkers => {
  const { ttl } = options
  if (!options.markers || ttl === null) return noMarkers
  const tools = request.tools.length > 0 ? ttl : null
  const system = request.messages[0] !== undefined && isSystem(request.messages[0]) ? ttl : null
  const room = maxMarkers - (tools === null ? 0 : 1) - (system === null ? 0 : 1)
  const anchors = anchorsOf(request.messages).slice(-Math.min(room, maxMessageMarkers))
  return { tools, system, messages: anchors.map((index) => ({ index, ttl })) }
}

/** The session's lifetime: the first answer of the eligibility source holds, whatever it says later. */
export const latch = (latched: CacheTtl | null, offered: CacheTtl | null): CacheTtl | null => latched ?? offered
