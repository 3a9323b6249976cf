/**
 * The timers of one attempt. A stream notes its progress in plain fields, once per network read; one alarm rings at the
 * earliest instant at which a timer could end and looks again. Milliseconds, monotonic.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { Timer } from "../../domain/failure/ModelError.ts"
import type { RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"
import { Alarm } from "./Alarm.ts"

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

/** What the timers of an attempt stand on. */
export interface Watching {
  readonly limits: Limits
  readonly progress: Progress
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly pulse: Pulse
  /** Run every `policy.heartbeat`; null = nobody listens. */
  readonly beat: Effect.Effect<void> | null
}

/** Heartbeats nobody listens to are none. */
const heartbeatOf = ({ limits, beat }: Watching): number | null => (beat === null ? null : limits.policy.heartbeat)

type Ending<E> = Effect.Effect<ModelReply, E | TimeUp>

/**
 * One attempt under its timers. It has a fiber of its own, so that it alone can be ended; its timers need none, until a
 * heartbeat is told.
 */
class Watch<E> {
  private readonly watching: Watching
  private readonly context: Context.Context<never>
  private readonly alarm: Alarm
  /** The attempt, and a heartbeat that its listener has not taken yet. */
  private attempt: Fiber.Fiber<ModelReply, E> | null = null
  private beating: Fiber.Fiber<void> | null = null
  private resume: (ending: Ending<E>) => void = () => undefined
  private isOver = false
  private until = 0

  constructor(watching: Watching, context: Context.Context<never>) {
    this.watching = watching
    this.context = context
    this.alarm = new Alarm(context, () => this.ring())
  }

  /** Starts the attempt; `resume` is told once how it ends, or that its time is up. */
  begin(attempt: Effect.Effect<ModelReply, E>, resume: (ending: Ending<E>) => void): void {
    this.resume = resume
    this.attempt = Effect.runForkWith(this.context)(attempt)
    this.attempt.addObserver((exit) => this.settle(exit))
    if (!this.isOver) this.look()
  }

  /** Nothing of it is left running. */
  end(): Effect.Effect<void> {
    this.isOver = true
    this.alarm.silence()
    const { attempt, beating } = this
    if (isRunning(beating))
      return Effect.asVoid(Fiber.interruptAll([beating, ...(isRunning(attempt) ? [attempt] : [])]))
    return isRunning(attempt) ? Effect.asVoid(Fiber.interrupt(attempt)) : Effect.void
  }

  private settle(ending: Ending<E>): void {
    if (this.isOver) return
    this.isOver = true
    this.resume(ending)
  }

  /** Ends what is due, or sets the alarm to the earliest instant at which something could be. */
  private look(): void {
    const { limits, progress, now, pulse } = this.watching
    const every = heartbeatOf(this.watching)
    const { due, unborn } = look(limits, progress, every === null ? null : pulse.lastAt + every)
    const left = due === null ? Infinity : due.at - now()
    if (due === null || left >= clockGrainMillis) {
      const millis = Math.min(left, unborn)
      this.until = now() + millis
      this.alarm.set(millis)
    } else if (due.what === "heartbeat") this.beat(due.at)
    else this.settle(progress.whole ?? Effect.fail(new TimeUp(due.what)))
  }

  private ring(): void {
    if (this.isOver) return
    const { progress, now } = this.watching
    const at = now()
    if (at - this.until >= overslept) forgive(progress, at)
    this.look()
  }

  /** While a heartbeat is told, no timer ends. */
  private beat(at: number): void {
    const { beat, pulse } = this.watching
    pulse.lastAt = at
    if (beat === null) return this.look()
    this.beating = Effect.runForkWith(this.context)(beat)
    this.beating.addObserver((exit) => {
      if (Exit.isFailure(exit)) this.settle(Effect.failCause(exit.cause))
      else if (!this.isOver) this.look()
    })
  }
}

const isRunning = <A, E>(fiber: Fiber.Fiber<A, E> | null): fiber is Fiber.Fiber<A, E> =>
  fiber !== null && fiber.pollUnsafe() === undefined

/**
 * Runs an attempt under its timers. The loser is interrupted and awaited. When time is up behind a whole reply, that
 * reply is the end.
 */
export const underTimers = <E>(attempt: Effect.Effect<ModelReply, E>, watching: Watching): Ending<E> =>
  Effect.withFiber((fiber) => {
    const { due, unborn } = look(watching.limits, watching.progress, heartbeatOf(watching))
    if (due === null && unborn === Infinity) return attempt
    const watch = new Watch<E>(watching, fiber.context)
    return Effect.onExit(
      Effect.callback<ModelReply, E | TimeUp>((resume) => watch.begin(attempt, resume)),
      () => watch.end()
    )
  })
