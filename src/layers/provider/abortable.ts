/** Promises that can be aborted, as Effects that wait for the abort to have happened. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

/** How long an aborted call is waited for before it is abandoned and reported. */
const abandonAfter = "5 seconds"

/**
 * Interruption aborts the signal and waits until the promise has settled: the fiber ends only when the work has. A call
 * that ignores its signal is abandoned after five seconds, with a warning in the log.
 */
export const abortable = <A, E>(
  run: (signal: AbortSignal) => PromiseLike<A>,
  onError: (cause: unknown) => E
): Effect.Effect<A, E> =>
  Effect.callback<A, E>((resume, signal) => {
    const settled = Promise.resolve()
      .then(() => run(signal))
      .then(
        (value) => resume(Effect.succeed(value)),
        (cause: unknown) => resume(Effect.suspend(() => Effect.fail(onError(cause))))
      )
    return awaitAborted(settled)
  })

/** Waits for an aborted promise to settle, for a bounded time. */
export const awaitAborted = (settled: Promise<unknown>): Effect.Effect<void> =>
  Effect.promise(() =>
    settled.then(
      () => undefined,
      () => undefined
    )
  ).pipe(
    Effect.timeoutOption(abandonAfter),
    Effect.flatMap((done) =>
      Option.isSome(done)
        ? Effect.void
        : Effect.logWarning("an aborted model call did not end within 5 seconds and was abandoned")
    )
  )
