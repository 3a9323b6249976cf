/** Time and chance as plain numbers, read by the interpreter once per transition. */
import * as Schema from "effect/Schema"

export const Tick = Schema.Struct({
  /** Monotonic milliseconds: deadlines. */
  now: Schema.Finite,
  /** Epoch milliseconds: only to read a date in a header. */
  wall: Schema.Finite,
  /** Next step of the backoff, already jittered; null = the schedule has ended (or was not asked). */
  backoffMillis: Schema.NullOr(Schema.Finite),
  /** 0 <= spread <= 1, for the spread on a hint. */
  spread: Schema.Finite,
  /** How far a stream that made progress has moved the deadline on, in milliseconds; 0 otherwise. */
  progressMillis: Schema.Finite
})
export type Tick = typeof Tick.Type
