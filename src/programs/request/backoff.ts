/** The policy's backoff as a Schedule: exponential, capped, then jittered upwards only. */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type { Outcome } from "../../domain/recovery/Outcome.ts"
import type { RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"
import { BackoffSchedule } from "../../services/Overrides.ts"

/** Never ends by itself: the policy's attempts and deadline do that. */
const scheduleOf = (backoff: RecoveryPolicy["backoff"]): Schedule.Schedule<unknown, Outcome> =>
  Schedule.min([Schedule.exponential(backoff.base, backoff.factor), Schedule.spaced(backoff.cap)]).pipe(
    Schedule.setInputType<Outcome>(),
    Schedule.modifyDelay(({ duration }) =>
      Effect.map(Random.next, (random) => Duration.times(duration, 1 + backoff.jitter * random))
    )
  )

/** The next wait after a failure, in milliseconds, at an instant of the wall clock; null = the schedule has ended. */
export type Backoff = (wallMillis: number, outcome: Outcome) => Effect.Effect<number | null>

const startSchedule = Effect.fnUntraced(function* (policy: RecoveryPolicy) {
  const own = yield* BackoffSchedule
  const step = yield* Schedule.toStep(own ?? scheduleOf(policy.backoff))
  return (wallMillis: number, outcome: Outcome) =>
    step(wallMillis, outcome).pipe(
      Effect.map(([, delay]): number | null => Duration.toMillis(delay)),
      Effect.catchIf(Cause.isDone, () => Effect.succeed(null))
    )
})

/** One per logical request: a schedule counts its own steps. It is made at the first failure, which most requests never see. */
export const makeBackoff = (policy: RecoveryPolicy): Backoff => {
  let made: Backoff | null = null
  return (wallMillis, outcome) =>
    made === null
      ? Effect.flatMap(startSchedule(policy), (next) => {
          made = next
          return next(wallMillis, outcome)
        })
      : made(wallMillis, outcome)
}
