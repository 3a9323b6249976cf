/** The policy's backoff as a Schedule: exponential, capped, then jittered upwards only. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type { Outcome } from "../../domain/recovery/Outcome.ts"
import type { RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"

/** Never ends by itself: the policy's attempts and deadline do that. */
export const scheduleOf = (backoff: RecoveryPolicy["backoff"]): Schedule.Schedule<unknown, Outcome> =>
  Schedule.min([Schedule.exponential(backoff.base, backoff.factor), Schedule.spaced(backoff.cap)]).pipe(
    Schedule.setInputType<Outcome>(),
    Schedule.modifyDelay(({ duration }) =>
      Effect.map(Random.next, (random) => Duration.times(duration, 1 + backoff.jitter * random))
    )
  )
