/** What a run is judged by. Times in the results are seconds; shares and success are 0..1. */
import { numberAt } from "../numberAt.ts"
import type { Scenario } from "./World.ts"

/** Counts per second of a run. */
export interface Timeline {
  readonly sent: Int32Array
  readonly rejected: Int32Array
  readonly completed: Int32Array
  /** Logical requests that ended without a reply. */
  readonly failed: Int32Array
  /** Share of processes with an open breaker on the primary. */
  readonly openShare: Float64Array
}

export const makeTimeline = (seconds: number): Timeline => ({
  sent: new Int32Array(seconds),
  rejected: new Int32Array(seconds),
  completed: new Int32Array(seconds),
  failed: new Int32Array(seconds),
  openShare: new Float64Array(seconds)
})

/** How every logical request of a run ended. */
export interface Endings {
  readonly count: number
  readonly arrivedAt: Float64Array
  /** -1 while it is under way. */
  readonly endedAt: Float64Array
  readonly succeeded: Uint8Array
  readonly attempts: Uint16Array
  readonly route: Uint8Array
  readonly background: Uint8Array
}

export interface FleetMetrics {
  /** Logical requests that arrived from the start of the event to a minute after its end: the set that is judged. */
  readonly judged: number
  readonly success: number
  readonly foregroundSuccess: number
  /** Requests sent per logical request. */
  readonly amp: number
  readonly p50: number
  readonly p95: number
  readonly p99: number
  /** Mean time to completion; a failure counts as 300 s. */
  readonly meanCost: number
  /** Highest rate over five seconds against the rate before the event. */
  readonly peak5s: number
  /** Highest rate of one second in the minute after the event, against the same. */
  readonly herd1s: number
  readonly fallbackShare: number
  /** Share of the fallback one to three minutes after the event. */
  readonly fallbackAfter: number
  /** Seconds after the event until ten seconds in a row have at most 2 % rejections; null = not within 300 s. */
  readonly recoverySeconds: number | null
}

/** What a failure costs, and the world's limit for a logical request. */
export const limitMillis = 300_000

const minute = 60_000
const watchedSeconds = 300
const quietSeconds = 10
const quietShare = 0.02

const sum = (counts: Int32Array, from: number, length: number): number => {
  let total = 0
  for (let i = from; i < from + length; i++) total += numberAt(counts, i)
  return total
}

/** NaN when nothing is there. */
const percentile = (sorted: Float64Array, share: number): number =>
  numberAt(sorted, Math.min(sorted.length - 1, Math.floor(share * sorted.length)))

const share = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole)

const recovery = (timeline: Timeline, endSecond: number): number | null => {
  const first = Math.ceil(endSecond)
  for (let at = first; at + quietSeconds < endSecond + watchedSeconds; at++) {
    const sent = sum(timeline.sent, at, quietSeconds)
    if (sent > 0 && sum(timeline.rejected, at, quietSeconds) <= Math.max(1, quietShare * sent)) return at - endSecond
  }
  return null
}

export const measure = (
  scenario: Pick<Scenario, "eventFrom" | "eventTo">,
  timeline: Timeline,
  endings: Endings
): FleetMetrics => {
  const { eventFrom, eventTo } = scenario
  let judged = 0
  let good = 0
  let attempts = 0
  let onFallback = 0
  let foreground = 0
  let goodForeground = 0
  let after = 0
  let afterOnFallback = 0
  let completion = 0
  const latencies: Array<number> = []
  for (let i = 0; i < endings.count; i++) {
    const arrived = numberAt(endings.arrivedAt, i)
    const succeeded = endings.succeeded[i] === 1
    const isFallback = numberAt(endings.route, i) > 0
    if (succeeded && arrived >= eventTo + minute && arrived < eventTo + 3 * minute) {
      after++
      if (isFallback) afterOnFallback++
    }
    if (arrived < eventFrom || arrived >= eventTo + minute) continue
    judged++
    attempts += numberAt(endings.attempts, i)
    const isForeground = endings.background[i] === 0
    if (isForeground) foreground++
    if (!succeeded) continue
    good++
    if (isForeground) goodForeground++
    if (isFallback) onFallback++
    const took = numberAt(endings.endedAt, i) - arrived
    completion += took
    latencies.push(took / 1000)
  }
  const sorted = Float64Array.from(latencies).sort()
  const fromSecond = Math.floor(eventFrom / 1000)
  const calmFrom = Math.max(5, fromSecond - 50)
  const calm = sum(timeline.sent, calmFrom, fromSecond - calmFrom) / Math.max(1, fromSecond - calmFrom)
  let peak = 0
  for (let at = fromSecond; at + 5 < timeline.sent.length; at++) peak = Math.max(peak, sum(timeline.sent, at, 5) / 5)
  const endSecond = eventTo / 1000
  let herd = 0
  for (let at = Math.ceil(endSecond); at < endSecond + 60; at++) herd = Math.max(herd, numberAt(timeline.sent, at))
  return {
    judged,
    success: share(good, judged),
    foregroundSuccess: share(goodForeground, foreground),
    amp: share(attempts, judged),
    p50: percentile(sorted, 0.5),
    p95: percentile(sorted, 0.95),
    p99: percentile(sorted, 0.99),
    meanCost: judged === 0 ? 0 : (completion + limitMillis * (judged - good)) / judged / 1000,
    peak5s: share(peak, calm),
    herd1s: share(herd, calm),
    fallbackShare: share(onFallback, good),
    fallbackAfter: share(afterOnFallback, after),
    recoverySeconds: recovery(timeline, endSecond)
  }
}
