/**
 * The one interpreter loop. It alone sleeps, counts, reads Clock and Random, emits events and bounds; what happens next
 * is always the machine's decision. `complete`, `stream` and every other caller are drivers of it.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import { planOf, type AttemptPlan } from "../../domain/recovery/AttemptPlan.ts"
import { worstOf } from "../../domain/budget/Budget.ts"
import { costOf } from "../../domain/budget/Cost.ts"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { Role, WireRequest } from "../../domain/chat/ModelRequest.ts"
import { stepsBackoff, type Outcome } from "../../domain/recovery/Outcome.ts"
import { delayOf, type RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"
import type { RecoveryEvent } from "../../domain/recovery/RecoveryEvent.ts"
import { transition } from "../../domain/recovery/RecoveryMachine.ts"
import {
  isSameRoute,
  routeAt,
  type RecoveryPolicy,
  type Route,
  type RouteName
} from "../../domain/recovery/RecoveryPolicy.ts"
import { endOf, initial } from "../../domain/recovery/RecoveryState.ts"
import { skippedHint } from "../../domain/recovery/roads/Transient.ts"
import type { Tick } from "../../domain/recovery/Tick.ts"
import { local } from "../../domain/chat/TokenEstimate.ts"
import { attemptsIn, type TrailEntry } from "../../domain/failure/Trail.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { Booking } from "../../services/Booking.ts"
import { TurnTrail } from "../../services/TurnTrail.ts"
import type { Reservation, Worst } from "../../services/BudgetLedger.ts"
import { BackoffSchedule } from "../../services/Overrides.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import { RequestStanding } from "../../services/RequestStanding.ts"
import { enter, leave, usedBy, type TurnCell } from "../../services/Turn.ts"
import {
  clockGrainMillis,
  makeProgress,
  movedBy,
  TimeUp,
  underTimers,
  type Limits,
  type Progress,
  type Pulse
} from "./attemptWatch.ts"
import { scheduleOf } from "./backoff.ts"
import { failureOf, standingOf } from "./failure.ts"
import type { RouteDoor } from "./routeDoor.ts"

/** What one HTTP request has used, filled in while it runs: also what a cut attempt cost is booked. */
export interface Meter {
  usage: Usage.Usage
  /** A 200 began: tokens are being spent. */
  began: boolean
  /** The final usage has been seen. */
  final: boolean
}

export const makeMeter = (): Meter => ({ usage: Usage.unknown, began: false, final: false })

/** Puts a caller's kind of reply under the loop. Only drivers see bodies; the loop sees counts. */
export interface AttemptDriver {
  readonly streaming: boolean
  /** Estimated tokens of what would be sent now. */
  readonly promptTokens: (route: Route) => number
  /** Why the window must not be sent (a tool call without its result); null = fine. */
  readonly fault: () => string | null
  /** `accepted` is run as soon as the provider has taken the call, before its reply is whole. */
  readonly attempt: (
    plan: AttemptPlan,
    meter: Meter,
    progress: Progress,
    accepted: Effect.Effect<void>
  ) => Effect.Effect<ModelReply, ModelError>
  /** Total. `durationMillis` is the attempt's. */
  readonly classify: (
    result: Result.Result<ModelReply, ModelError>,
    plan: AttemptPlan,
    durationMillis: number
  ) => Outcome
  /** Makes window and view ready for the next request, as the action says. True = a partial was dropped or set aside. */
  readonly prepare: (action: RecoveryAction) => Effect.Effect<boolean>
  readonly compact: (
    plan: AttemptPlan
  ) => Effect.Effect<Extract<Outcome, { readonly _tag: "Compacted" | "NothingToCompact" }>, ModelError | BudgetExceeded>
  /** Fragments and last reply, verbatim, in one. */
  readonly merge: (last: ModelReply) => ModelReply
  /** Text of the reply so far; null = none. */
  readonly partial: () => string | null
}

/** The session's budget as the loop needs it; null = there is none. */
export interface Ledger {
  readonly admit: (worst: Worst) => Effect.Effect<Reservation, BudgetExceeded>
  readonly settle: (reservation: Reservation, spent: Worst) => Effect.Effect<void>
}

export interface RecoverOptions {
  readonly policy: RecoveryPolicy
  readonly requestId: string
  readonly role: Role
  /** Never fails; null = nobody listens and no event is built. */
  readonly emit: ((event: RecoveryEvent) => Effect.Effect<void>) | null
  readonly ledger: Ledger | null
  /** null = route health is off. */
  readonly health: RouteDoor | null
  readonly turn: TurnCell
  readonly callerCap: number | null
}

/** Under this share of the estimate a reported prompt size means that a server cut the prompt silently. */
const shrunkShare = 0.6
/** Below this many tokens an estimate is too coarse for such a verdict. */
const comparableTokens = 100

type Step = (now: number, outcome: Outcome) => Effect.Effect<number | null>

const makeStep = (policy: RecoveryPolicy): Effect.Effect<Step> =>
  Effect.gen(function* () {
    const own = yield* BackoffSchedule
    const step = yield* Schedule.toStep(own ?? scheduleOf(policy.backoff))
    return (now, outcome) =>
      step(now, outcome).pipe(
        Effect.map(([, delay]): number | null => Duration.toMillis(delay)),
        Effect.catchIf(Cause.isDone, () => Effect.succeed(null))
      )
  })

/** What the loop remembers of the failures on the way, for the error at the end. */
export interface Record {
  readonly startedAt: number
  readonly trail: Array<TrailEntry>
  first: ModelError | null
  last: ModelError | null
  budget: BudgetExceeded | null
  lastOutcome: string
}

const nameOf = (outcome: Outcome): string =>
  outcome._tag === "Faulted" || outcome._tag === "SummaryFaulted" ? outcome.kind : outcome._tag

/** How an attempt or a compaction ended, with its reply when there is one. */
interface Seen {
  readonly outcome: Outcome
  readonly reply: ModelReply | null
}

const indexOf = (policy: RecoveryPolicy, name: RouteName | null): number =>
  name === null
    ? 0
    : Math.max(
        0,
        policy.routes.findIndex((route) => isSameRoute(route, name))
      )

/** What the machine may decide that is not the end. */
type Onward = Exclude<RecoveryAction, { readonly _tag: "Done" | "Fail" }>

// A generator function made per call costs microseconds and garbage of the slow kind (V8 gives each its own map): on the
// healthy path there is only this one, made once; the others are made after a failure.
export const recover = Effect.fnUntraced(function* (
  options: RecoverOptions,
  driver: AttemptDriver
): Effect.fn.Return<ModelReply, RequestFailure> {
  const { policy, requestId, emit, turn } = options
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  const takeTrail = yield* TurnTrail
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const startedAt = now()
  const record: Record = { startedAt, trail: [], first: null, last: null, budget: null, lastOutcome: "none" }
  let step: Step | null = null
  let progress: Progress = makeProgress(startedAt)
  let plan: AttemptPlan | null = null
  const pulse: Pulse = { lastAt: startedAt }
  const warnings: Array<string> = []

  const spent = policy.deadlinePer === "turn" ? usedBy(turn, startedAt) : 0
  let state = initial(policy, {
    now: startedAt,
    deadline: policy.deadline === null ? null : startedAt + policy.deadline - spent,
    route: indexOf(policy, turn.route),
    callerCap: options.callerCap,
    streaming: driver.streaming,
    background: options.role === "background" || policy.shedOnOverload
  })

  const limits = (): Limits => ({
    policy,
    streaming: driver.streaming,
    deadline: state.deadline,
    hardCap: state.hardCap
  })

  const readTick = (outcome: Outcome | null, backoffMillis: number | null): Tick => ({
    now: now(),
    wall: clock.currentTimeMillisUnsafe(),
    backoffMillis,
    spread: random.nextDoubleUnsafe(),
    progressMillis: outcome === null ? 0 : movedBy(limits(), progress)
  })

  const tickOf = (outcome: Outcome | null): Effect.Effect<Tick> =>
    outcome === null || !stepsBackoff(outcome)
      ? Effect.sync(() => readTick(outcome, null))
      : Effect.map(stepBackoff(outcome), (backoffMillis) => readTick(outcome, backoffMillis))

  const stepBackoff = (outcome: Outcome): Effect.Effect<number | null> =>
    Effect.gen(function* () {
      if (step === null) step = yield* makeStep(policy)
      return yield* step(clock.currentTimeMillisUnsafe(), outcome)
    })

  /** Admits, runs and settles one HTTP request of any role, and writes it into the trail. */
  const booked = <A extends ModelReply>(
    request: {
      readonly role: Role
      readonly attempt: number | null
      readonly route: Route
      readonly model: string
      readonly maxOutputTokens: number
      readonly promptTokens: number
    },
    meter: Meter,
    call: Effect.Effect<A, ModelError | TimeUp>
  ): Effect.Effect<A, ModelError | TimeUp | BudgetExceeded> => {
    const sentAt = now()
    const priceOf = (usage: Usage.Usage): number | null =>
      request.route.prices === null ? null : costOf(request.route.prices, usage)
    const write = (exit: Exit.Exit<A, ModelError | TimeUp>): Effect.Effect<void> =>
      Effect.suspend(() => {
        const error = Exit.isFailure(exit) ? failedWith(exit.cause) : null
        if (Exit.isSuccess(exit)) {
          meter.usage = Usage.update(meter.usage, exit.value.usage)
          meter.began = true
          meter.final = Usage.isKnown(meter.usage)
        } else if (error !== null && error._tag !== "TimeUp") {
          if (error.usage !== null) {
            meter.usage = Usage.update(meter.usage, error.usage)
            meter.final = Usage.isKnown(meter.usage)
          }
          // Only an answer that has begun can be interrupted.
          meter.began = meter.began || error.status === 200 || error.kind === "interrupted"
        }
        const costUsd = !meter.began ? 0 : meter.final ? priceOf(meter.usage) : null
        record.trail.push({
          role: request.role,
          attempt: request.attempt,
          model: request.model,
          maxOutputTokens: request.maxOutputTokens,
          startedMs: sentAt - startedAt,
          durationMs: now() - sentAt,
          status:
            Exit.isSuccess(exit) || meter.began ? 200 : error !== null && error._tag !== "TimeUp" ? error.status : null,
          outcome: Exit.isSuccess(exit)
            ? "ok"
            : error === null
              ? "interrupted"
              : error._tag === "TimeUp"
                ? error.what
                : error.kind,
          code: error !== null && error._tag !== "TimeUp" ? error.code : null,
          requestId: Exit.isSuccess(exit)
            ? exit.value.requestId
            : error !== null && error._tag !== "TimeUp"
              ? error.requestId
              : null,
          waitMs: null,
          waitOrigin: null,
          usage: meter.usage,
          usageFinal: !meter.began || meter.final,
          costUsd
        })
        return emit === null || !meter.began
          ? Effect.void
          : emit({
              _tag: "UsageSeen",
              requestId,
              role: request.role,
              attempt: request.attempt,
              usage: meter.usage,
              final: meter.final,
              costUsd
            })
      })
    const { ledger } = options
    if (ledger === null) return Effect.onExit(call, write)
    const worst = worstOf(request.route.prices, request.promptTokens, request.maxOutputTokens)
    const actual = (): Worst => {
      // What began and never told its usage may have cost the worst; what never began cost nothing.
      if (meter.began && !meter.final) return worst
      return {
        tokens: (meter.usage.promptTokens ?? 0) + (meter.usage.completionTokens ?? 0),
        costUsd: meter.began ? priceOf(meter.usage) : 0
      }
    }
    return Effect.acquireUseRelease(
      ledger.admit(worst),
      () => Effect.onExit(call, write),
      (reservation) => ledger.settle(reservation, actual())
    )
  }

  const isOver = (): boolean => {
    const end = endOf(state)
    return end !== null && now() >= end
  }

  const note = (error: ModelError): void => {
    record.first ??= error
    record.last = error
  }

  /** Sends one request, unless the time is over, the budget refuses or the route is closed; what came of it. */
  const attemptOnce = (): Effect.Effect<Seen> =>
    Effect.suspend(() => {
      if (isOver()) return Effect.succeed<Seen>({ outcome: { _tag: "DeadlineHit" }, reply: null })
      const { health } = options
      if (health === null) return sendOnce()
      return Effect.flatMap(health.admit(state, readTick(null, null)), (held) =>
        held === null ? sendOnce() : Effect.succeed<Seen>({ outcome: held, reply: null })
      )
    })

  const sendOnce = (): Effect.Effect<Seen> => {
    const route = routeAt(policy, state.route)
    const next = planOf(policy, state, driver.promptTokens(route))
    plan = next
    const send = Effect.suspend(() => {
      progress = makeProgress(now())
      pulse.lastAt = progress.sentAt
      const meter = makeMeter()
      const { health } = options
      const accepted =
        health === null ? Effect.void : Effect.flatMap(tickOf(null), (tick) => health.accepted(state, tick))
      const beat = emit === null ? Effect.void : emit({ _tag: "Heartbeat", requestId, attempt: next.attempt })
      const running = booked(
        {
          role: options.role,
          attempt: next.attempt,
          route,
          model: route.model,
          maxOutputTokens: next.maxOutputTokens,
          promptTokens: next.promptTokens
        },
        meter,
        underTimers(driver.attempt(next, meter, progress, accepted), limits(), progress, now, pulse, beat)
      )
      return Effect.map(Effect.result(running), (result) => seenOf(result, next))
    })
    if (emit === null) return send
    const { attempt, maxOutputTokens } = next
    return Effect.andThen(
      emit({ _tag: "AttemptStarted", requestId, attempt, model: route.model, maxOutputTokens }),
      send
    )
  }

  const seenOf = (result: Result.Result<ModelReply, ModelError | TimeUp | BudgetExceeded>, sent: AttemptPlan): Seen => {
    const classified = (known: Result.Result<ModelReply, ModelError>): Outcome =>
      driver.classify(known, sent, now() - progress.sentAt)
    if (Result.isSuccess(result)) return { outcome: classified(Result.succeed(result.success)), reply: result.success }
    const failed = result.failure
    if (failed instanceof BudgetExceeded) {
      record.budget = failed
      return { outcome: { _tag: "BudgetRefused" }, reply: null }
    }
    const faulted = (error: ModelError): Seen => {
      note(error)
      return { outcome: classified(Result.fail(error)), reply: null }
    }
    if (!(failed instanceof TimeUp)) return faulted(failed)
    if (failed.what === "deadline") return { outcome: { _tag: "DeadlineHit" }, reply: null }
    return faulted(makeModelError({ kind: "timeout", status: null, model: sent.route.model, timer: failed.what }))
  }

  /** Bounds work that is no attempt of the main conversation. */
  const inTime = <A, E>(work: Effect.Effect<A, E>): Effect.Effect<A, E | TimeUp> => {
    const end = endOf(state)
    return end === null
      ? work
      : Effect.timeoutOrElse(work, {
          duration: Math.max(0, end - now()),
          orElse: () => Effect.fail(new TimeUp("deadline"))
        })
  }

  const bookSummary = (request: WireRequest, call: Effect.Effect<ModelReply, ModelError>) => {
    const route = policy.routes.find((other) => other.model === request.model) ?? routeAt(policy, state.route)
    return booked(
      {
        role: request.role,
        attempt: null,
        route,
        model: request.model,
        maxOutputTokens: request.maxOutputTokens,
        promptTokens: local(request.messages, [])
      },
      makeMeter(),
      call
    ).pipe(
      Effect.catchIf(
        (error): error is TimeUp => error instanceof TimeUp,
        () => Effect.never
      )
    )
  }

  const compactOnce = (): Effect.Effect<Outcome> =>
    Effect.gen(function* () {
      if (isOver() || plan === null) return { _tag: "DeadlineHit" }
      const result = yield* Effect.result(inTime(Effect.provideService(driver.compact(plan), Booking, bookSummary)))
      if (Result.isSuccess(result)) {
        if (emit !== null && result.success._tag === "Compacted")
          yield* emit({ _tag: "Compacted", requestId, before: result.success.before, after: result.success.after })
        return result.success
      }
      const failed = result.failure
      if (failed instanceof TimeUp) return { _tag: "DeadlineHit" }
      if (failed instanceof BudgetExceeded) {
        record.budget = failed
        return { _tag: "BudgetRefused" }
      }
      note(failed)
      return {
        _tag: "SummaryFaulted",
        kind: failed.kind,
        status: failed.status,
        code: failed.code,
        hints: failed.hints,
        shouldRetry: failed.shouldRetry
      }
    })

  /** Sleeps, with heartbeats; at each beat the wall clock is read again, since a laptop may have slept. */
  const wait = (delayMillis: number, tick: Tick): Effect.Effect<void> =>
    Effect.gen(function* () {
      const until = tick.now + delayMillis
      const untilWall = tick.wall + delayMillis
      const status = record.last?.status ?? null
      const left = (): number => {
        const monotonic = until - now()
        return policy.heartbeat === null ? monotonic : Math.min(monotonic, untilWall - clock.currentTimeMillisUnsafe())
      }
      if (emit !== null)
        yield* emit({ _tag: "Waiting", requestId, remainingMs: delayMillis, attempt: state.attempts, status })
      let remaining = delayMillis
      while (remaining >= clockGrainMillis) {
        const untilBeat = policy.heartbeat === null ? Infinity : Math.max(0, pulse.lastAt + policy.heartbeat - now())
        yield* Effect.sleep(Math.min(remaining, untilBeat))
        remaining = left()
        if (policy.heartbeat === null || pulse.lastAt + policy.heartbeat - now() >= clockGrainMillis) continue
        pulse.lastAt = now()
        if (emit !== null) {
          const remainingMs = Math.max(0, remaining)
          yield* emit({ _tag: "Heartbeat", requestId, remainingMs, attempt: state.attempts })
          if (remainingMs > 0) yield* emit({ _tag: "Waiting", requestId, remainingMs, attempt: state.attempts, status })
        }
      }
    })

  const noteWait = (action: RecoveryAction, delayMillis: number): void => {
    const entry = record.trail.at(-1)
    if (entry !== undefined && delayMillis > 0 && "origin" in action)
      record.trail[record.trail.length - 1] = { ...entry, waitMs: delayMillis, waitOrigin: action.origin }
  }

  const finish = (reply: ModelReply): Effect.Effect<ModelReply> => {
    const reported = reply.usage.promptTokens
    const estimated = plan?.promptTokens ?? 0
    const isShrunk = reported !== null && estimated >= comparableTokens && reported < estimated * shrunkShare
    if (isShrunk)
      warnings.push(
        `The provider read only ${reported} of about ${estimated} prompt tokens: a server may have cut the prompt silently.`
      )
    const merged = driver.merge(reply)
    const whole = warnings.length === 0 ? merged : { ...merged, warnings: [...merged.warnings, ...warnings] }
    return isShrunk && emit !== null
      ? Effect.as(emit({ _tag: "PromptShrunk", requestId, estimated, reported }), whole)
      : Effect.succeed(whole)
  }

  /** Tells, in the log and in the reply, of a wait hint that counts as absent because it cannot be read. */
  const noteHint = (action: RecoveryAction, outcome: Outcome, tick: Tick): Effect.Effect<void> => {
    const isRead = action._tag === "Retry" || action._tag === "Compact"
    const source = isRead && stepsBackoff(outcome) ? skippedHint(policy, outcome, tick.wall) : null
    if (source === null) return Effect.void
    const text = `A wait hint could not be read and was passed over (${source}).`
    if (!warnings.includes(text)) warnings.push(text)
    return emit === null ? Effect.void : emit({ _tag: "Noted", requestId, note: text })
  }

  /** Does what the machine decided, unless it is the end; what came of it. */
  const follow = (action: Onward, outcome: Outcome, tick: Tick): Effect.Effect<Seen> =>
    Effect.gen(function* () {
      const dropped = yield* driver.prepare(action)
      if (dropped && emit !== null) yield* emit({ _tag: "AttemptReset", requestId, attempt: state.attempts })
      if (action._tag === "Retry" && options.health !== null) {
        const away = yield* options.health.leave(state, tick)
        if (away !== null) return { outcome: away, reply: null }
      }
      if (action._tag === "Fallback" && emit !== null)
        yield* emit({ _tag: "ModelSwitched", requestId, from: action.from, to: action.to })
      // Only a switch moves the turn: another request of it may have switched while this one waited.
      if (action._tag === "Fallback") turn.route = routeAt(policy, state.route)
      yield* noteHint(action, outcome, tick)
      const delayMillis = delayOf(action)
      noteWait(action, delayMillis)
      if (delayMillis > 0) yield* wait(delayMillis, tick)
      return action._tag === "Compact" ? { outcome: yield* compactOnce(), reply: null } : yield* attemptOnce()
    })

  /** The loop: the machine decides about what was seen, and what comes of that is seen next. */
  const decide = ({ outcome, reply }: Seen): Effect.Effect<ModelReply, RequestFailure> =>
    Effect.flatMap(tickOf(outcome), (tick) => {
      const before = state
      const next = transition(policy, before, outcome, tick)
      state = next.state
      const { action } = next
      record.lastOutcome = nameOf(outcome)
      const observed = options.health === null ? Effect.void : options.health.observe(before, outcome, tick)
      const told =
        emit === null
          ? observed
          : Effect.andThen(observed, emit({ _tag: "Transitioned", requestId, outcome, tick, action, state }))
      return Effect.flatMap(told, (): Effect.Effect<ModelReply, RequestFailure> => {
        switch (action._tag) {
          case "Done":
            return reply === null ? Effect.die(new Error("a completed attempt has no reply")) : finish(reply)
          case "Fail":
            return Effect.fail(failureOf({ action, policy, state, tick, record, partial: driver.partial(), plan }))
          default:
            return Effect.flatMap(follow(action, outcome, tick), decide)
        }
      })
    })

  const loop = Effect.suspend((): Effect.Effect<ModelReply, RequestFailure> => {
    const unsendable = driver.fault()
    if (unsendable === null) return Effect.flatMap(attemptOnce(), decide)
    const code = "unpaired_tool_calls"
    return Effect.fail(makeModelError({ kind: "invalid_request", status: null, code, providerMessage: unsendable }))
  })
  const started = emit === null ? loop : Effect.andThen(emit({ _tag: "Started", requestId, policy, state }), loop)

  const standing = yield* RequestStanding
  if (standing !== null) standing.read = () => standingOf(record, plan, now())
  enter(turn, startedAt)
  return yield* Effect.onExit(started, (exit) =>
    Effect.suspend(() => {
      leave(turn, now())
      takeTrail?.(record.trail, startedAt)
      const told =
        emit === null
          ? Effect.void
          : emit({ _tag: "Finished", requestId, attempts: attemptsIn(record.trail), ok: Exit.isSuccess(exit) })
      const { health } = options
      return health === null ? told : Effect.andThen(Effect.flatMap(tickOf(null), health.release), told)
    })
  )
})

const failedWith = <E>(cause: Cause.Cause<E>): E | null => {
  const found = Cause.findErrorOption(cause)
  return found._tag === "Some" ? found.value : null
}
