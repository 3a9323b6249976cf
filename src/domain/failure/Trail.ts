/** Every HTTP request of a logical request, or of an agent's turn, in order. Counts, codes and names; no texts, no keys. */
import * as Schema from "effect/Schema"
import { WaitOrigin } from "./FailReason.ts"
import { Count, Usage } from "../chat/Usage.ts"

export const TrailEntry = Schema.Struct({
  role: Schema.Literals(["main", "summarizer", "background"]),
  /** Number of the main request, from 1; null for other roles. */
  attempt: Schema.NullOr(Count),
  model: Schema.String,
  /** Name of the route's client; left out for the default one. */
  client: Schema.optionalKey(Schema.String),
  /** The budget that was sent; null = none was. */
  maxOutputTokens: Schema.NullOr(Count),
  /** Milliseconds since the logical request began; in the failure of an agent, since its turn began. */
  startedMs: Schema.Finite,
  durationMs: Schema.Finite,
  /** HTTP status; null when no answer came. */
  status: Schema.NullOr(Schema.Int),
  /** "ok", or the kind of the fault. */
  outcome: Schema.String,
  code: Schema.NullOr(Schema.String),
  /** Our name of the logical request. */
  requestId: Schema.String,
  /** The provider's own id of this HTTP request; null when it gave none. */
  providerRequestId: Schema.NullOr(Schema.String),
  /** Milliseconds waited after this request, and what set the length; null when nothing was waited for. */
  waitMs: Schema.NullOr(Schema.Finite),
  waitOrigin: Schema.NullOr(WaitOrigin),
  usage: Usage,
  /** False when a request that began with a 200 ended without its final usage. */
  usageFinal: Schema.Boolean,
  /** USD; null = unknown. */
  costUsd: Schema.NullOr(Schema.Finite)
})
export type TrailEntry = typeof TrailEntry.Type
export type Trail = ReadonlyArray<TrailEntry>

/** Sums of floats have up to 17 digits; nobody who reads a trail needs more than a microsecond. */
export const readableMillis = (millis: number): number => Math.round(millis * 1_000) / 1_000

/** A billionth of a dollar is less than any token costs. */
const readableUsd = (usd: number | null): number | null => (usd === null ? null : Math.round(usd * 1e9) / 1e9)

/** An entry with the digits that a reader needs. */
export const readable = (entry: TrailEntry): TrailEntry => ({
  ...entry,
  startedMs: readableMillis(entry.startedMs),
  durationMs: readableMillis(entry.durationMs),
  waitMs: entry.waitMs === null ? null : readableMillis(entry.waitMs),
  costUsd: readableUsd(entry.costUsd)
})

/** Requests of the main conversation (or of a background one) that were sent, also those that were broken off. */
export const attemptsIn = (trail: Trail): number => trail.filter((entry) => entry.attempt !== null).length

/** USD of all of them together; null = unknown for one of them. */
export const costOfTrail = (trail: Trail): number | null =>
  readableUsd(
    trail.reduce<number | null>((sum, { costUsd }) => (sum === null || costUsd === null ? null : sum + costUsd), 0)
  )
