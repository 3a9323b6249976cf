/**
 * What the refusals of a route tell of a limiter behind it: that there is one, and how many calls a second it takes. Pure;
 * monotonic milliseconds.
 */
import * as Schema from "effect/Schema"

const Amount = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))
const MoreThanNone = Schema.Finite.check(Schema.isGreaterThan(0))

/** A rate limit that named a wait. */
export const Refusal = Schema.Struct({
  hintMillis: MoreThanNone,
  /** The attempt's place in the order of the calls, and how long ago it left. */
  place: Schema.Finite,
  tookMillis: Schema.Finite,
  /** Its call had waited before as it was told. */
  isAgain: Schema.Boolean
})
export type Refusal = typeof Refusal.Type

/** Refusals one behind the other. */
export const Run = Schema.Struct({
  /** Place and instant of the first one, and the last place that was refused. */
  place: Schema.Finite,
  at: Schema.Finite,
  last: Schema.Finite,
  refused: Amount,
  /** Calls before it, back to the run before, that were not refused. */
  clean: Schema.Finite,
  /** The longest wait that was named: about the time in which a token comes. */
  hintMillis: MoreThanNone
})
export type Run = typeof Run.Type

export const Limiter = Schema.Struct({
  hintMillis: MoreThanNone,
  /** When it last refused. */
  at: Schema.Finite,
  /** Whether its rate has been measured. */
  isMeasured: Schema.Boolean,
  /** Measurements in a row that found as many refusals as before although calls left more slowly. */
  vain: Amount
})
export type Limiter = typeof Limiter.Type

/** So many refusals, so nearly in a row, behind so many calls that were not refused: that is how a bucket runs empty. */
const minRefused = 8
const minShare = 0.7
const minClean = 4
/** Answers that may come out of order. */
const disorder = 16

/** Shortest time of a measurement, and what a shorter hint counts as: else single calls decide. */
const shortestSpan = 1_000
/** Doublings of the rate in the time of a hint, until the limiter is measured. */
const doublingsPerHint = 4
/** Doubling of a rate that was measured: it is looked for more about once in two seconds. */
const slowDoubling = 10_000
/** The same when no refusal has come for so many hints: there is much more. */
const quickDoubling = 1_000
const quickAfter = 3

/** Share of the measured rate to go on with, and the least rate, in calls per hint. */
const measuredShare = 0.95
const leastPerHint = 1 / 2

/**
 * Calls, share of refusals among them, and times in a row, from which pacing is in vain: it is chance that refuses. After
 * twice the hint's time two calls will do, of which half were refused.
 */
const minSample = 6
const vainShare = 0.2
const fewSample = 2
const fewShare = 0.5
const mostVain = 2

const spanOf = (hintMillis: number): number => Math.max(shortestSpan, hintMillis)

const firstDoubling = (hintMillis: number): number => spanOf(hintMillis) / doublingsPerHint

/**
 * In which time the rate doubles from now on; null = it stays. Near its end a queue gains nothing by more: who is refused
 * there would be the last of all.
 */
export const doublingOf = (limiter: Limiter, waiting: number, perSecond: number, now: number): number | null => {
  if (!limiter.isMeasured) return firstDoubling(limiter.hintMillis)
  if (waiting * 1_000 < perSecond * limiter.hintMillis) return null
  return now - limiter.at < quickAfter * spanOf(limiter.hintMillis) ? slowDoubling : quickDoubling
}

/** The run with one more refusal; a new one where too many calls in between were not refused. */
export const nextRun = (run: Run | null, { hintMillis, place, tookMillis }: Refusal, now: number): Run => {
  const sentAt = now - tookMillis
  const fresh = { place, at: sentAt, last: place, refused: 1, hintMillis }
  if (run === null) return { ...fresh, clean: place - 1 }
  const last = Math.max(run.last, place)
  const refused = run.refused + 1
  const isOver = sentAt - run.at > spanOf(hintMillis) || last - run.place >= refused / minShare + disorder
  return isOver
    ? { ...fresh, clean: place - run.place - run.refused }
    : { ...run, last, refused, hintMillis: Math.max(run.hintMillis, hintMillis) }
}

/** Whether a run is that of a limiter. */
export const isLimiters = (run: Run): boolean =>
  run.refused >= minRefused && run.clean >= minClean && run.refused >= minShare * (run.last - run.place + 1)

/**
 * A limiter of which only the hint is known: a token comes in that time at the latest. It is measured from now on, when it
 * is empty, and by the calls that have not left yet.
 */
export const found = (run: Run, left: number, now: number) => ({
  run: { place: left, at: now, last: left, refused: 1, clean: 0, hintMillis: run.hintMillis },
  limiter: { hintMillis: run.hintMillis, at: now, isMeasured: false, vain: 0 },
  rate: 1_000 / run.hintMillis
})

export interface Measured {
  readonly limiter: Limiter
  readonly run: Run
  /** Calls per second that may leave from now on; null = nothing was measured. */
  readonly rate: number | null
}

/**
 * What the limiter let through between two refusals is its rate: each of them found it empty. null = pacing is in vain.
 */
export const measure = (known: Limiter, run: Run, refusal: Refusal, now: number): Measured | null => {
  const { hintMillis, place, tookMillis } = refusal
  const sentAt = now - tookMillis
  const limiter = { ...known, at: now }
  if (place <= run.place) return { limiter, run, rate: null }
  const longer = { ...run, last: Math.max(run.last, place), refused: run.refused + 1 }
  const span = sentAt - run.at
  if (span < firstDoubling(limiter.hintMillis)) return { limiter, run: longer, rate: null }
  const sent = place - run.place
  const passed = Math.max(0, sent - run.refused)
  const isMeasured = limiter.isMeasured || passed > 0
  // Where none has passed yet the rate goes on as it did: it began with the least that there can be.
  const rate = isMeasured ? 1_000 * Math.max(leastPerHint / limiter.hintMillis, (measuredShare * passed) / span) : null
  const isFew = sent < minSample
  if (isFew && (sent < fewSample || span < 2 * spanOf(limiter.hintMillis)))
    return { limiter: { ...limiter, isMeasured }, run: longer, rate }
  const vain = run.refused >= (isFew ? fewShare : vainShare) * sent ? limiter.vain + 1 : 0
  if (vain > mostVain) return null
  const next = { place, at: sentAt, last: place, refused: 1, clean: passed, hintMillis }
  return { limiter: { ...limiter, vain, isMeasured }, run: next, rate }
}
