/**
 * The timers of one attempt. A stream notes its progress in plain fields, once per network read; one fiber sleeps until
 * the earliest instant at which a timer could end and looks again. Milliseconds, monotonic.
 */
import * as Effect from "effect/Effect"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { Timer } from "../../domain/failure/ModelError.ts"
import type { RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"

/** What a driver reports while an attempt runs. */
export interface Progress {
  readonly sentAt: number
  headersAt: number | null
  lastByteAt: number
  firstDeltaAt: number | null
  lastDeltaAt: number
  /** The consumer has not taken what is there: silence is not the provider's. */
  blocked: boolean
  /** Since when the first token is waited for. */
  firstTokenFrom: number
  /** Ends the attempt with the reply it has: nothing but the end of the line is waited for. null = it is not whole yet. */
  whole: Effect.Effect<ModelReply> | null
}

export const makeProgress = (sentAt: number): Progress => ({
  sentAt,
  headersAt: null,
  lastByteAt: sentAt,
  firstDeltaAt: null,
  lastDeltaAt: sentAt,
  blocked: false,
  firstTokenFrom: sentAt,
  whole: null
})

/** A wake-up so late that the process itself must have been busy, or asleep. */
const overslept = 100

/**
 * While this process did not run, nothing was read: whether the provider was silent is not known, so the timers of its
 * silence begin again, and what has come meanwhile is read first.
 */
const forgive = (progress: Progress, at: number): void => {
  progress.firstTokenFrom = at
  progress.lastByteAt = at
  if (progress.firstDeltaAt !== null) progress.lastDeltaAt = at
}

/** Clocks are read in nanoseconds and counted in floats: less than a microsecond left is none, and is never slept on. */
export const clockGrainMillis = 0.001

/** Why an attempt was ended from outside. Internal to the interpreter. */
export class TimeUp {
  readonly _tag = "TimeUp"
  readonly what: Timer | "deadline"
  constructor(what: Timer | "deadline") {
    this.what = what
  }
}

export interface Limits {
  readonly policy: RecoveryPolicy
  readonly streaming: boolean
  /** Monotonic instants; null = none. Progress moves the deadline on when the policy counts per request. */
  readonly deadline: number | null
  readonly hardCap: number | null
}

/** How far the progress of a stream has moved the deadline on. */
export const movedBy = (limits: Limits, progress: Progress): number =>
  limits.streaming && limits.policy.deadlinePer === "request" && progress.firstDeltaAt !== null
    ? progress.lastDeltaAt - progress.sentAt
    : 0

interface Due {
  readonly at: number
  readonly what: Timer | "deadline" | "heartbeat"
}

const earlier = (left: Due | null, at: number, what: Due["what"]): Due =>
  left === null || at < left.at ? { at, what } : left

/** The nearest end of a running timer, and the shortest timer that has not begun (it could end no sooner than that). */
const look = (limits: Limits, progress: Progress, beatAt: number | null) => {
  const { policy } = limits
  let due: Due | null = null
  let unborn = Infinity
  if (limits.hardCap !== null) due = earlier(due, limits.hardCap, "deadline")
  if (limits.deadline !== null && !(progress.blocked && policy.deadlinePer === "request"))
    due = earlier(due, limits.deadline + movedBy(limits, progress), "deadline")
  if (policy.attemptTimeout !== null) due = earlier(due, progress.sentAt + policy.attemptTimeout, "attempt")
  // Behind a whole reply silence is nothing to wait for; how long the line may stay open is the client's to say.
  if (limits.streaming && progress.whole === null) {
    if (policy.firstTokenTimeout !== null && progress.firstDeltaAt === null)
      due = earlier(due, progress.firstTokenFrom + policy.firstTokenTimeout, "firstToken")
    if (policy.idleTimeout !== null) {
      if (progress.headersAt === null || progress.blocked) unborn = Math.min(unborn, policy.idleTimeout)
      else due = earlier(due, progress.lastByteAt + policy.idleTimeout, "idle")
    }
    if (policy.contentTimeout !== null) {
      if (progress.firstDeltaAt === null || progress.blocked) unborn = Math.min(unborn, policy.contentTimeout)
      else due = earlier(due, progress.lastDeltaAt + policy.contentTimeout, "content")
    }
  }
  if (limits.streaming && progress.blocked && limits.deadline !== null && policy.deadlinePer === "request")
    unborn = Math.min(unborn, 1_000)
  // At the same instant the heartbeat comes first: silence is never longer than it.
  if (beatAt !== null && (due === null || beatAt <= due.at)) due = { at: beatAt, what: "heartbeat" }
  return { due, unborn }
}

/** When the last sign of life was given; shared by the attempts and waits of a request. */
export interface Pulse {
  lastAt: number
}

/**
 * Runs an attempt under its timers; `beat` is called every `policy.heartbeat`. The loser is interrupted and awaited. When
 * time is up behind a whole reply, that reply is the end.
 */
export const underTimers = <E>(
  attempt: Effect.Effect<ModelReply, E>,
  limits: Limits,
  progress: Progress,
  now: () => number,
  pulse: Pulse,
  beat: Effect.Effect<void>
): Effect.Effect<ModelReply, E | TimeUp> => {
  const every = limits.policy.heartbeat
  const first = look(limits, progress, every)
  if (first.due === null && first.unborn === Infinity) return attempt
  // Without a stream and without heartbeats nothing can move the nearest end: one timer does it.
  if (first.due !== null && !limits.streaming && every === null) {
    const { at, what } = first.due
    if (what !== "heartbeat")
      return Effect.timeoutOrElse(attempt, {
        duration: Math.max(0, at - now()),
        orElse: () => Effect.fail(new TimeUp(what))
      })
  }
  const watch: Effect.Effect<ModelReply, TimeUp> = Effect.gen(function* () {
    while (true) {
      const { due, unborn } = look(limits, progress, every === null ? null : pulse.lastAt + every)
      const left = due === null ? Infinity : due.at - now()
      if (due !== null && left < clockGrainMillis) {
        if (due.what !== "heartbeat") return yield* progress.whole ?? Effect.fail(new TimeUp(due.what))
        pulse.lastAt = due.at
        yield* beat
        continue
      }
      const until = now() + Math.min(left, unborn)
      yield* Effect.sleep(Math.min(left, unborn))
      const at = now()
      if (at - until >= overslept) forgive(progress, at)
    }
  })
  return Effect.raceFirst(attempt, watch)
}
