/**
 * A clock of its own for drills: time stands still while anything happens and jumps to the next sleeper when nothing
 * does. Promises of an SDK never race it: it advances only when the event loop has been quiet for some turns.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

interface Sleeper {
  readonly at: number
  readonly order: number
  readonly wake: () => void
}

/** Turns of the event loop without any activity before time may jump. */
const quietTurns = 12

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

export interface VirtualClock {
  readonly clock: Clock.Clock
  /** Virtual milliseconds since the start. */
  readonly now: () => number
  /** Sleeps in virtual time, for code outside Effect; rejects when the signal aborts. */
  readonly sleep: (millis: number, signal: AbortSignal | null | undefined) => Promise<void>
  /** Notes that something moved: time waits for it to settle. */
  readonly touch: () => void
  /** Runs until the given work has settled, moving time on whenever nothing else moves. */
  readonly run: <A>(work: Promise<A>) => Promise<A>
}

/** Where virtual time stands, who sleeps, and a count of everything that moved. */
interface Time {
  now: number
  activity: number
  order: number
  sleepers: ReadonlyArray<Sleeper>
}

/** A new sleeper; the result takes it away again. */
const add = (time: Time, millis: number, wake: () => void): (() => void) => {
  time.activity += 1
  time.order += 1
  const sleeper: Sleeper = { at: time.now + Math.max(0, millis), order: time.order, wake }
  time.sleepers = [...time.sleepers, sleeper]
  return () => {
    time.activity += 1
    time.sleepers = time.sleepers.filter((other) => other !== sleeper)
  }
}

const earliest = ({ sleepers }: Time): Sleeper | null =>
  sleepers.reduce<Sleeper | null>(
    (first, next) =>
      first === null || next.at < first.at || (next.at === first.at && next.order < first.order) ? next : first,
    null
  )

/** Waits until nothing has moved for some turns. */
const settle = async (time: Time, isOver: () => boolean): Promise<void> => {
  let quiet = 0
  let seen = time.activity
  while (!isOver() && quiet < quietTurns) {
    await nextTurn()
    quiet = seen === time.activity ? quiet + 1 : 0
    seen = time.activity
  }
}

/** Jumps to the next sleeper and wakes it; false when nobody sleeps. */
const jump = (time: Time): boolean => {
  const next = earliest(time)
  if (next === null) return false
  time.sleepers = time.sleepers.filter((other) => other !== next)
  time.now = Math.max(time.now, next.at)
  time.activity += 1
  next.wake()
  return true
}

const run = async <A>(time: Time, work: Promise<A>): Promise<A> => {
  let isOver = false
  const done = (): void => {
    isOver = true
  }
  work.then(done, done)
  while (!isOver) {
    await settle(time, () => isOver)
    // Nobody sleeps and nothing moves: only the outside world could go on.
    if (!isOver && !jump(time)) await nextTurn()
  }
  return work
}

const sleepOutside = (time: Time, millis: number, signal: AbortSignal | null | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const drop = add(time, millis, () => {
      signal?.removeEventListener("abort", onAbort)
      resolve()
    })
    const onAbort = (): void => {
      drop()
      reject(signal?.reason)
    }
    if (signal?.aborted === true) onAbort()
    else signal?.addEventListener("abort", onAbort, { once: true })
  })

const sleepEffect = (time: Time, millis: number): Effect.Effect<void> =>
  !Number.isFinite(millis)
    ? Effect.never
    : Effect.callback<void>((resume) => {
        const drop = add(time, millis, () => resume(Effect.void))
        return Effect.sync(drop)
      })

const nanos = (millis: number): bigint => BigInt(Math.round(millis * 1e6))

const clockOf = (time: Time, startEpochMillis: number): Clock.Clock => {
  const wall = (): number => startEpochMillis + time.now
  return {
    currentTimeMillisUnsafe: wall,
    currentTimeMillis: Effect.sync(wall),
    currentTimeNanosUnsafe: () => nanos(startEpochMillis) + nanos(time.now),
    currentTimeNanos: Effect.sync(() => nanos(startEpochMillis) + nanos(time.now)),
    monotonicTimeNanosUnsafe: () => nanos(time.now),
    monotonicTimeNanos: Effect.sync(() => nanos(time.now)),
    sleep: (duration) => sleepEffect(time, Duration.toMillis(duration))
  }
}

export const make = (startEpochMillis: number): VirtualClock => {
  const time: Time = { now: 0, activity: 0, order: 0, sleepers: [] }
  return {
    clock: clockOf(time, startEpochMillis),
    now: () => time.now,
    touch: () => {
      time.activity += 1
    },
    sleep: (millis, signal) => sleepOutside(time, millis, signal),
    run: (work) => run(time, work)
  }
}
