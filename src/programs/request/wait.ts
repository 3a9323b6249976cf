/** The step between two requests: sleeps, with heartbeats, and writes the wait into the trail. */
import * as Effect from "effect/Effect"
import { delayOf, type RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"
import { readableMillis } from "../../domain/failure/Trail.ts"
import type { Tick } from "../../domain/recovery/Tick.ts"
import { clockGrainMillis } from "./attemptWatch.ts"
import type { Position, Run } from "./Run.ts"
import { inSpan, known } from "./spans.ts"

/** The entry of the request that is waited after tells how long, and what set the length. */
const noteWait = (run: Run, action: RecoveryAction, delayMillis: number): void => {
  const entry = run.trail.at(-1)
  if (entry !== undefined && "origin" in action)
    run.trail[run.trail.length - 1] = {
      ...entry,
      waitMs: readableMillis(delayMillis),
      waitOrigin: action.origin
    }
}

/** Waits as long as the action says, if it says so. */
export const wait = (run: Run, position: Position, action: RecoveryAction, tick: Tick): Effect.Effect<void> => {
  const delayMillis = delayOf(action)
  if (delayMillis <= 0) return Effect.void
  noteWait(run, action, delayMillis)
  return inSpan(sleep(run, position, delayMillis, tick), () => ({
    name: "holdfast.wait",
    begin: () =>
      known({
        "holdfast.request_id": run.options.requestId,
        "holdfast.attempt": position.state.attempts,
        "holdfast.wait.ms": delayMillis,
        "holdfast.wait.origin": "origin" in action ? action.origin : null
      })
  }))
}

/** At each heartbeat the wall clock is read again, since a laptop may have slept. */
const sleep = Effect.fnUntraced(function* (run: Run, position: Position, delayMillis: number, tick: Tick) {
  const { policy, emit, requestId } = run.options
  const { heartbeat } = policy
  const attempt = position.state.attempts
  const status = position.met.last?.status ?? null
  const until = tick.now + delayMillis
  const untilWall = tick.wall + delayMillis
  const left = (): number => {
    const monotonic = until - run.now()
    return heartbeat === null ? monotonic : Math.min(monotonic, untilWall - run.clock.currentTimeMillisUnsafe())
  }
  const untilBeat = (): number => (heartbeat === null ? Infinity : run.pulse.lastAt + heartbeat - run.now())
  if (emit !== null) yield* emit({ _tag: "Waiting", requestId, remainingMs: delayMillis, attempt, status })
  let remaining = delayMillis
  while (remaining >= clockGrainMillis) {
    yield* Effect.sleep(Math.min(remaining, Math.max(0, untilBeat())))
    remaining = left()
    if (untilBeat() >= clockGrainMillis) continue
    run.pulse.lastAt = run.now()
    if (emit === null) continue
    const remainingMs = Math.max(0, remaining)
    yield* emit({ _tag: "Heartbeat", requestId, remainingMs, attempt })
    if (remainingMs > 0) yield* emit({ _tag: "Waiting", requestId, remainingMs, attempt, status })
  }
})
