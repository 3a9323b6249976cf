/** When the logical requests of a run arrive and how long each keeps a provider busy. */
import { serviceMillis, type LoadTrace } from "./LoadTrace.ts"
import { numberAt } from "../numberAt.ts"
import { makeRandom } from "./Random.ts"

export interface Arrivals {
  readonly count: number
  /** Ascending, milliseconds from the start of the run. */
  readonly atMillis: Float64Array
  readonly serviceMillis: Float64Array
}

/** More load for a while: the rate is multiplied by `factor`. */
export interface Boost {
  readonly factor: number
  readonly fromMillis: number
  readonly toMillis: number
}

/** One call of each of `count` clients within `widthMillis`. */
export interface Burst {
  readonly count: number
  readonly atMillis: number
  readonly widthMillis: number
}

export interface ArrivalOptions {
  readonly trace: LoadTrace
  /** Mean logical requests per second. */
  readonly perSecond: number
  readonly horizonMillis: number
  readonly seed: number
  readonly boost: Boost | null
  readonly burst: Burst | null
}

/** Time steps per millisecond of the packed sort keys. */
const stepsPerMilli = 10
const rowsPerKey = 1 << 20

/**
 * Lays time-shifted copies of the trace over each other until the wanted rate is reached. The trace repeats when the
 * run is longer.
 */
export const makeArrivals = (options: ArrivalOptions): Arrivals => {
  const { trace, horizonMillis } = options
  const random = makeRandom(options.seed)
  const rows = trace.atMillis.length
  const span = trace.spanMillis
  const perCopy = rows / (span / 1000)
  // A key holds time and row in one float, so that sorting numbers sorts arrivals.
  const keys: Array<number> = []
  const push = (at: number, row: number): void => {
    keys.push(Math.floor(at * stepsPerMilli) * rowsPerKey + row)
  }
  const add = (copies: number, from: number, to: number): void => {
    for (let left = copies; left > 1e-9; left -= 1) {
      const share = Math.min(1, left)
      const shift = random() * span
      for (let row = 0; row < rows; row++) {
        if (share < 1 && random() > share) continue
        const dithered = numberAt(trace.atMillis, row) + random() * trace.quantumMillis - shift
        const first = ((dithered % span) + span) % span
        for (let at = first; at < to; at += span) if (at >= from) push(at, row)
      }
    }
  }
  add(options.perSecond / perCopy, 0, horizonMillis)
  const { boost, burst } = options
  if (boost !== null) add(((boost.factor - 1) * options.perSecond) / perCopy, boost.fromMillis, boost.toMillis)
  if (burst !== null)
    for (let i = 0; i < burst.count; i++)
      push(burst.atMillis + random() * burst.widthMillis, Math.floor(random() * rows))
  const sorted = Float64Array.from(keys).sort()
  const atMillis = new Float64Array(sorted.length)
  const service = new Float64Array(sorted.length)
  for (let i = 0; i < sorted.length; i++) {
    const key = numberAt(sorted, i)
    const row = key % rowsPerKey
    atMillis[i] = Math.floor(key / rowsPerKey) / stepsPerMilli
    service[i] = serviceMillis(numberAt(trace.inputTokens, row), numberAt(trace.outputTokens, row))
  }
  return { count: sorted.length, atMillis, serviceMillis: service }
}
