/** A wait that a server asked for, as it was read from an answer. */
import * as Schema from "effect/Schema"

/** One hint as read from an answer. Dates stay instants: the machine subtracts the clock. */
export const HintReading = Schema.TaggedUnion({
  /** A span, milliseconds >= 0. `source` names the header or the place in the body. */
  Delay: { source: Schema.String, millis: Schema.Finite },
  /** An instant; measured against the answer's Date header when it has one. */
  At: { source: Schema.String, epochMillis: Schema.Finite, serverEpochMillis: Schema.NullOr(Schema.Finite) },
  /** The server said something that cannot be read. */
  Invalid: { source: Schema.String }
})
export type HintReading = typeof HintReading.Type

/** Milliseconds to wait from now, never negative; null when the hint cannot be read. */
export const waitOf = (hint: HintReading, wallMillis: number): number | null => {
  switch (hint._tag) {
    case "Delay":
      return hint.millis
    case "At":
      return Math.max(0, hint.epochMillis - (hint.serverEpochMillis ?? wallMillis))
    case "Invalid":
      return null
  }
}

/** By how much `waitOf` may be more than what was meant: the answer's date, from which it counts, is cut to the second. */
export const grainOf = (hint: HintReading): number =>
  hint._tag === "At" && hint.serverEpochMillis !== null ? 1_000 : 0

/**
 * A hint up to this long is taken for what it says of the one call: its place in a bucket that refills. A longer one is a
 * window that is used up, in front of which a crowd gathers while it lasts.
 */
export const shortHintMillis = 5_000
