/** `recoverTransient` for promises: a call that is no chat, recovered. */
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import { notBegun, type Standing } from "../domain/failure/RecoveryError.ts"
import { refuseUnknown } from "../domain/failure/unknownOptions.ts"
import type { RecoveryEvent } from "../domain/recovery/RecoveryEvent.ts"
import { abortable } from "../layers/provider/abortable.ts"
import { recoverCall, type CallAttempt, type RecoverCallOptions } from "../programs/request/recoverCall.ts"
import { RecoveryEvents } from "../services/RecoveryEvents.ts"
import { RequestWatch } from "../services/RequestWatch.ts"
import { tell } from "./createRecovery.ts"
import { cancelledBy } from "./edge.ts"

export interface PromiseCallAttempt extends CallAttempt {
  /** Hand it to the call: it is aborted by your own signal, by the deadline and by the time-out of an attempt. */
  readonly signal: AbortSignal
}

export type PromiseCall<A> = (attempt: PromiseCallAttempt) => PromiseLike<A>

export interface PromiseCallOptions extends RecoverCallOptions {
  /** Aborting it ends the call: no further attempt, no open connection. Its reason becomes the error's `cause`. */
  readonly signal?: AbortSignal
  /** Deadline of this call, instead of the policy's: "30 seconds", or milliseconds. */
  readonly deadline?: Duration.Input
  readonly onEvent?: (event: RecoveryEvent) => void
}

const optionNames: ReadonlyArray<string> = [
  "policy",
  "profile",
  "errorOf",
  "signal",
  "deadline",
  "onEvent"
] satisfies ReadonlyArray<keyof PromiseCallOptions>

const checked = <A>(call: PromiseCall<A>, options: PromiseCallOptions): void => {
  refuseUnknown(options, optionNames)
  if (typeof call !== "function") throw new ConfigurationError({ field: "call", reason: "is not a function" })
  if (options.signal !== undefined && !(options.signal instanceof AbortSignal))
    throw new ConfigurationError({ field: "signal", reason: "is not an AbortSignal" })
}

/**
 * Recovers any call of a provider: `recoverTransient(({ signal }) => client.embeddings.create(body, { signal, maxRetries: 0 }),
 * { policy })`. Rejects with the call's own error when recovery does not mend it, with a RecoveryError when it gave up.
 */
export const recoverTransient = async <A>(call: PromiseCall<A>, options: PromiseCallOptions): Promise<A> => {
  checked(call, options)
  const { signal, deadline, onEvent, policy, ...rest } = options
  if (signal?.aborted === true) throw cancelledBy(signal.reason, notBegun)
  let standing: () => Standing = () => notBegun
  const asked = recoverCall(
    (attempt) =>
      abortable(
        (ended) => call({ ...attempt, signal: ended }),
        (cause) => cause
      ),
    { ...rest, policy: deadline === undefined ? policy : { ...policy, deadline } }
  ).pipe(Effect.provideService(RequestWatch, { began: (told) => (standing = told) }))
  const told =
    onEvent === undefined
      ? asked
      : Effect.provideService(asked, RecoveryEvents, { emit: tell(onEvent), events: Stream.empty })
  const exit = await Effect.runPromiseExit(told, signal === undefined ? {} : { signal })
  if (Exit.isSuccess(exit)) return exit.value
  throw Cause.hasInterruptsOnly(exit.cause) ? cancelledBy(signal?.reason, standing()) : Cause.squash(exit.cause)
}
