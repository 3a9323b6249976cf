/**
 * How fast the calls of a process leave for a route: a clock counts places, each call takes the next one and leaves when
 * the clock has come to it. As long as nothing stands against more, only a large burst is stretched, by a moment; once a
 * limiter has refused a part of it, the clock runs at the rate that the refusals show. Pure; monotonic milliseconds.
 */
import * as Schema from "effect/Schema"
import { doublingOf, found, isLimiters, Limiter, measure, nextRun, Run, type Refusal } from "./Limiter.ts"

const MoreThanNone = Schema.Finite.check(Schema.isGreaterThan(0))

export const Pace = Schema.Struct({
  /** Places that have come up, as of `at`. */
  clock: Schema.Finite,
  at: Schema.Finite,
  /** The last place that was given to a call; beyond the clock: calls are waiting. */
  last: Schema.Finite,
  /** Places per second as of `at`. While calls wait it doubles in so many milliseconds; null = it stays. */
  rate: MoreThanNone,
  doubling: Schema.NullOr(MoreThanNone),
  /** The latest refusals; null = there was none. */
  run: Schema.NullOr(Run),
  /** What refuses; null = nothing is known to stand against more. */
  limiter: Schema.NullOr(Limiter),
  /** Refusals before this instant show no limiter: to go more slowly had not helped. */
  deafUntil: Schema.Finite
})
export type Pace = typeof Pace.Type

/** Calls that leave at once where nothing is known, and the time in which as many again may leave. */
const firstBurst = 24
const burstDoubling = 100
const burstRate = (firstBurst * Math.LN2 * 1_000) / burstDoubling

/** Fewer calls that wait are no crowd that a pace is needed for. */
const minWaiting = 8

/** A limiter that has not refused for so long is forgotten once nobody waits. */
const remembered = 10_000

const unhindered = { rate: burstRate, doubling: burstDoubling, limiter: null }

export const initialPace = (now: number): Pace => ({
  clock: firstBurst,
  at: now,
  last: 0,
  ...unhindered,
  run: null,
  deafUntil: now
})

export const isWaiting = (pace: Pace): boolean => pace.last > pace.clock

/** Places that come up in a time. */
const placesIn = ({ rate, doubling }: Pace, millis: number): number =>
  doubling === null
    ? (rate * millis) / 1_000
    : ((rate * doubling) / (1_000 * Math.LN2)) * (2 ** (millis / doubling) - 1)

/** The time in which so many places come up. */
const millisFor = ({ rate, doubling }: Pace, places: number): number =>
  doubling === null
    ? (places * 1_000) / rate
    : doubling * Math.log2(1 + (places * 1_000 * Math.LN2) / (rate * doubling))

/** The pace at a later instant. `taken` is the number of calls that the route takes in a second: as many are no burst. */
export const paceAt = (pace: Pace, now: number, taken: number): Pace => {
  const { limiter, doubling } = pace
  const millis = Math.max(0, now - pace.at)
  const clock = isWaiting(pace) ? pace.clock + placesIn(pace, millis) : Infinity
  if (clock < pace.last) {
    const rate = doubling === null ? pace.rate : pace.rate * 2 ** (millis / doubling)
    const grows = limiter === null ? doubling : doublingOf(limiter, pace.last - clock, rate, now)
    return { ...pace, clock, rate, doubling: grows, at: now }
  }
  // Nobody waits: what comes up is kept for those who come next, up to a burst.
  const isFree = limiter === null || now - limiter.at > remembered
  const rate = isFree ? Math.max(burstRate, 2 * taken) : pace.rate
  const kept = isFree ? Math.max(firstBurst, taken) : 1
  const reached = Math.max(pace.clock, pace.last) + (rate * millis) / 1_000
  const at = { ...pace, clock: Math.min(reached, pace.last + kept), at: now }
  return isFree ? { ...at, ...unhindered, rate } : at
}

/** The place that a call was given, or the next one: a place beyond the last was given by a memory that is gone. */
export const placeIn = (pace: Pace, given: number | null): number =>
  given === null || given > pace.last ? pace.last + 1 : given

/** How long the call of a place has to wait; 0 = it may leave. */
export const waitFor = (pace: Pace, place: number): number =>
  place <= pace.clock ? 0 : millisFor(pace, place - pace.clock)

/** A limiter shows in a burst that it lets through in part, and in calls that are refused although they waited as told. */
const onFirst = (pace: Pace, refusal: Refusal, now: number): Pace => {
  const run = nextRun(pace.run, refusal, now)
  const isOne = isLimiters(run) && now >= pace.deafUntil && (pace.last - pace.clock >= minWaiting || refusal.isAgain)
  if (!isOne) return { ...pace, run }
  const { limiter, rate, run: anew } = found(run, Math.floor(Math.min(pace.clock, pace.last)), now)
  return { ...pace, run: anew, limiter, rate, doubling: doublingOf(limiter, pace.last - pace.clock, rate, now) }
}

/** The pace after a rate limit that named a wait. */
export const onRefusal = (pace: Pace, refusal: Refusal, now: number): Pace => {
  if (pace.limiter === null || pace.run === null) return onFirst(pace, refusal, now)
  const measured = measure(pace.limiter, pace.run, refusal, now)
  if (measured === null) return { ...pace, ...unhindered, run: null, deafUntil: now + remembered }
  const { limiter, run } = measured
  const rate = measured.rate ?? pace.rate
  const doubling = measured.rate === null ? pace.doubling : doublingOf(limiter, pace.last - pace.clock, rate, now)
  return { ...pace, limiter, run, rate, doubling }
}

/**
 * The pace after a call was taken: where nothing stands against more, another one may leave for it. Calls that follow each
 * other are no burst, however fast they are: only those that leave before any is taken use one up.
 */
export const onTaken = (pace: Pace): Pace =>
  pace.limiter === null && pace.clock - pace.last < firstBurst / 2 ? { ...pace, clock: pace.clock + 1 } : pace
