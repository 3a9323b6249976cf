/**
 * A listener of events is a guest: it may throw, interrupt itself or hang, and the request goes on. What is wrong with it
 * is told in the log, with its cause.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { RecoveryEvent } from "../../domain/recovery/RecoveryEvent.ts"

type Emit = (event: RecoveryEvent) => Effect.Effect<void>

/** How long an event may take. A listener that hangs on one gets no further event until it has taken that one. */
const grace = "5 seconds"

export const quiet = (emit: Emit): Emit => {
  // The fiber that hangs, as long as it does. Requests share it: they share the listener.
  let stuck: Fiber.Fiber<void> | null = null
  const give = (event: RecoveryEvent): Effect.Effect<void> =>
    Effect.catchCause(
      Effect.suspend(() => emit(event)),
      (cause) => Effect.logWarning(`a listener of recovery events broke on ${event._tag}`, cause)
    )
  const giveUp = (fiber: Fiber.Fiber<void>, event: RecoveryEvent): Effect.Effect<void> =>
    Effect.suspend(() => {
      stuck = fiber
      return Effect.logWarning(
        `a listener of recovery events has not taken ${event._tag} within ${grace}: it gets no more until it has`
      )
    })
  return (event) =>
    Effect.suspend(() => {
      if (stuck !== null) {
        if (stuck.pollUnsafe() === undefined) return Effect.void
        stuck = null
      }
      // In a fiber of its own: nothing it does to itself is done to the request. Most listeners are done at once.
      return Effect.flatMap(Effect.forkDetach(give(event), { startImmediately: true }), (fiber) =>
        fiber.pollUnsafe() === undefined
          ? Effect.timeoutOrElse(Fiber.await(fiber), { duration: grace, orElse: () => giveUp(fiber, event) })
          : Effect.void
      )
    })
}
