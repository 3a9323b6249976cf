/**
 * A clock of its own for drills: time stands still while anything happens and jumps to the next sleeper when nothing
 * does. Promises of an SDK never race it: it advances only when no exchange is pending and the event loop has been
 * quiet for some turns.
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
  /** Holds time while a promise of the outside world is pending. */
  readonly hold: <A>(work: () => Promise<A>) => Promise<A>
  /** Runs until the given work has settled, moving time on whenever nothing else moves. */
  readonly run: <A>(work: Promise<A>) => Promise<A>
}

export const make = (startEpochMillis: number): VirtualClock => {
  let now = 0
  let activity = 0
  let pending = 0
  let order = 0
  let sleepers: Array<Sleeper> = []

  const add = (millis: number, wake: () => void): (() => void) => {
    activity += 1
    order += 1
    const sleeper: Sleeper = { at: now + Math.max(0, millis), order, wake }
    sleepers.push(sleeper)
    return () => {
      activity += 1
      sleepers = sleepers.filter((other) => other !== sleeper)
    }
  }

  const earliest = (): Sleeper | null =>
    sleepers.reduce<Sleeper | null>(
      (first, next) =>
        first === null || next.at < first.at || (next.at === first.at && next.order < first.order) ? next : first,
      null
    )

  const settle = async (isOver: () => boolean): Promise<void> => {
    let quiet = 0
    let seen = activity
    while (!isOver() && (quiet < quietTurns || pending > 0)) {
      await nextTurn()
      quiet = seen === activity ? quiet + 1 : 0
      seen = activity
    }
  }

  const sleepEffect = (millis: number): Effect.Effect<void> =>
    !Number.isFinite(millis)
      ? Effect.never
      : Effect.callback<void>((resume) => {
          const drop = add(millis, () => resume(Effect.void))
          return Effect.sync(drop)
        })

  const nanos = (millis: number): bigint => BigInt(Math.round(millis * 1e6))
  const wall = (): number => startEpochMillis + now
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: wall,
    currentTimeMillis: Effect.sync(wall),
    currentTimeNanosUnsafe: () => nanos(startEpochMillis) + nanos(now),
    currentTimeNanos: Effect.sync(() => nanos(startEpochMillis) + nanos(now)),
    monotonicTimeNanosUnsafe: () => nanos(now),
    monotonicTimeNanos: Effect.sync(() => nanos(now)),
    sleep: (duration) => sleepEffect(Duration.toMillis(duration))
  }

  return {
    clock,
    now: () => now,
    touch: () => {
      activity += 1
    },
    sleep: (millis, signal) =>
      new Promise((resolve, reject) => {
        const drop = add(millis, () => {
          signal?.removeEventListener("abort", onAbort)
          resolve()
        })
        const onAbort = (): void => {
          drop()
          reject(signal?.reason)
        }
        if (signal?.aborted === true) onAbort()
        else signal?.addEventListener("abort", onAbort, { once: true })
      }),
    hold: async (work) => {
      pending += 1
      activity += 1
      try {
        return await work()
      } finally {
        pending -= 1
        activity += 1
      }
    },
    run: async (work) => {
      let over = false
      const done = (): void => {
        over = true
      }
      work.then(done, done)
      while (!over) {
        await settle(() => over)
        if (over) break
        const next = earliest()
        if (next === null) {
          // Nobody sleeps and nothing moves: only the outside world could go on.
          await nextTurn()
          continue
        }
        sleepers = sleepers.filter((other) => other !== next)
        now = Math.max(now, next.at)
        activity += 1
        next.wake()
      }
      return work
    }
  }
}
