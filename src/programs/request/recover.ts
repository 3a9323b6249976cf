/**
 * The one interpreter loop. It alone sleeps, counts, reads Clock and Random, emits events and bounds; what happens next
 * is always the machine's decision. `complete`, `stream` and every other caller are drivers of it.
 *
 * attempt -> decide -> prepare -> wait -> attempt or compact -> decide ... -> finish or fail
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import { makeModelError } from "../../domain/failure/ModelError.ts"
import { attemptsIn, costOfTrail } from "../../domain/failure/Trail.ts"
import type { Outcome } from "../../domain/recovery/Outcome.ts"
import { stepsBackoff } from "../../domain/recovery/Outcome.ts"
import type { RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"
import { transition } from "../../domain/recovery/RecoveryMachine.ts"
import { routeAt } from "../../domain/recovery/RecoveryPolicy.ts"
import type { Tick } from "../../domain/recovery/Tick.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import { RequestWatch } from "../../services/RequestWatch.ts"
import { enter, leave } from "../../services/Turn.ts"
import { attempt } from "./attempt.ts"
import type { AttemptDriver } from "./AttemptDriver.ts"
import { resume, save } from "./checkpoint.ts"
import { compact } from "./compact.ts"
import { failureOf, standingOf } from "./failure.ts"
import { finish } from "./finish.ts"
import { meet, noteOf, providerIdOf } from "./meet.ts"
import { requestSpan } from "./requestSpan.ts"
import { makeRun, readTick, type Position, type RecoverOptions, type Run, type Seen } from "./Run.ts"
import { errorTypeOf } from "./spans.ts"
import { wait } from "./wait.ts"

type Ending = Effect.Effect<ModelReply, RequestFailure>

/** What the machine may decide that is not the end. */
type Onward = Exclude<RecoveryAction, { readonly _tag: "Done" | "Fail" }>

// Plain functions on the healthy path: a generator per call costs microseconds, and garbage of the slow kind.
export const recover = (options: RecoverOptions, driver: AttemptDriver): Ending =>
  Effect.withFiber((fiber) => {
    const run = makeRun(options, driver, fiber.getRef(Clock.Clock), fiber.getRef(Random.Random))
    const watcher = fiber.getRef(RequestWatch)
    watcher?.began?.(() => standingOf(run, run.here.at, run.now()))
    enter(options.turn, run.startedAt)
    return Effect.onExit(requestSpan(run, start(run)), (exit) => {
      leave(options.turn, run.now())
      watcher?.ended?.(run.trail, run.startedAt)
      return end(run, exit)
    })
  })

/** What must not be sent is refused before the first request. */
const start = (run: Run): Ending => {
  const { policy, emit, requestId } = run.options
  const first = run.here.at
  const loop = Effect.suspend((): Ending => {
    const unsendable = run.driver.fault()
    if (unsendable === null) return goOn(run, first)
    const code = "unpaired_tool_calls"
    return Effect.fail(makeModelError({ kind: "invalid_request", status: null, code, providerMessage: unsendable }))
  })
  return emit === null ? loop : Effect.andThen(emit({ _tag: "Started", requestId, policy, state: first.state }), loop)
}

/** A request that another process has begun goes on behind what was decided there. */
const goOn = (run: Run, first: Position): Ending => {
  const begin = Effect.suspend(() => Effect.flatMap(attempt(run, first), (seen) => decide(run, first, seen)))
  const keep = run.options.keep ?? null
  if (keep === null || keep.before === null) return begin
  return Effect.flatMap(resume(run, keep), (resumed) => {
    if (resumed === null) return begin
    const { position, outcome, action } = resumed
    if (action._tag === "Done" || action._tag === "Fail") return begin
    run.here.at = position
    return Effect.flatMap(takeUp(run, position, outcome, action), (next) => decide(run, position, next))
  })
}

/** The loop: the machine decides about what was seen, and what comes of that is seen next. */
const decide = (run: Run, before: Position, seen: Seen): Ending => {
  const { outcome, movedMillis } = seen
  // Steps the backoff, once, after a failure that may be repeated.
  return stepsBackoff(outcome)
    ? Effect.flatMap(run.backoff(run.clock.currentTimeMillisUnsafe(), outcome), (backoffMillis) =>
        observe(run, before, seen, readTick(run, backoffMillis, movedMillis))
      )
    : observe(run, before, seen, readTick(run, null, movedMillis))
}

/** Route health is told first, and says what of it is in the outcome. */
const observe = (run: Run, before: Position, seen: Seen, tick: Tick): Ending => {
  const { health } = run.options
  return health === null
    ? decideAt(run, before, seen, tick)
    : Effect.flatMap(health.observe(before.state, seen.outcome, tick), (outcome) =>
        decideAt(run, before, outcome === seen.outcome ? seen : { ...seen, outcome }, tick)
      )
}

const decideAt = (run: Run, before: Position, seen: Seen, tick: Tick): Ending => {
  const { policy, emit, requestId } = run.options
  const { outcome } = seen
  const { state, action } = transition(policy, before.state, outcome, tick)
  const note = noteOf(run, outcome, action, tick)
  const position: Position = { state, plan: seen.plan ?? before.plan, met: meet(before.met, before.state, seen, note) }
  run.here.at = position
  const onward = (): Ending => {
    switch (action._tag) {
      case "Done":
        return seen.reply === null
          ? Effect.die(new Error("a completed attempt has no reply"))
          : finish(run, position, seen.reply)
      case "Fail":
        return Effect.fail(failureOf(run, position, action, tick))
      default:
        return Effect.flatMap(follow(run, position, outcome, action, tick, note), (next) => decide(run, position, next))
    }
  }
  return emit === null
    ? onward()
    : Effect.flatMap(
        emit({
          _tag: "Transitioned",
          requestId,
          outcome,
          tick,
          action,
          state,
          providerRequestId: providerIdOf(seen)
        }),
        onward
      )
}

/** Does what the machine decided, unless it is the end; what came of it. */
const follow = Effect.fnUntraced(function* (
  run: Run,
  position: Position,
  outcome: Outcome,
  action: Onward,
  tick: Tick,
  note: string | null
): Effect.fn.Return<Seen> {
  const { emit, policy, requestId, turn } = run.options
  const { state } = position
  const dropped = yield* run.driver.prepare(action)
  if (dropped && emit !== null) yield* emit({ _tag: "AttemptReset", requestId, attempt: state.attempts })
  if (action._tag === "Fallback") {
    if (emit !== null) yield* emit({ _tag: "ModelSwitched", requestId, from: action.from, to: action.to })
    // Only a switch moves the turn: another request of it may have switched while this one waited.
    turn.route = routeAt(policy, state.route)
    turn.gone = state.gone.map((at) => routeAt(policy, at))
  }
  if (note !== null && emit !== null) yield* emit({ _tag: "Noted", requestId, note })
  yield* save(run, position, outcome, action)
  yield* wait(run, position, action, tick)
  return yield* action._tag === "Compact" ? compact(run, position) : attempt(run, position)
})

/** What was decided by the process before: its wait goes on from its instant, and the backoff from its step. */
const takeUp = Effect.fnUntraced(function* (
  run: Run,
  position: Position,
  outcome: Outcome,
  action: Onward
): Effect.fn.Return<Seen> {
  const { policy, turn } = run.options
  const { state } = position
  turn.route = routeAt(policy, state.route)
  turn.gone = state.gone.filter((at) => at < policy.routes.length).map((at) => routeAt(policy, at))
  for (let step = 0; step < state.transients; step += 1)
    yield* run.backoff(run.clock.currentTimeMillisUnsafe(), outcome)
  yield* wait(run, position, action, readTick(run))
  return yield* action._tag === "Compact" ? compact(run, position) : attempt(run, position)
})

const isCancelled = (exit: Exit.Exit<ModelReply, RequestFailure>): boolean =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)

/** However a request ends, it is told once, and a probe's place is given back. */
const end = (run: Run, exit: Exit.Exit<ModelReply, RequestFailure>): Effect.Effect<void> => {
  const { emit, health, requestId } = run.options
  const told =
    emit === null
      ? Effect.void
      : emit({
          _tag: "Finished",
          requestId,
          attempts: attemptsIn(run.trail),
          ok: Exit.isSuccess(exit),
          tag: isCancelled(exit) ? null : errorTypeOf(exit),
          cancelled: isCancelled(exit),
          costUsd: costOfTrail(run.trail)
        })
  return health === null ? told : Effect.andThen(health.release(readTick(run)), told)
}
