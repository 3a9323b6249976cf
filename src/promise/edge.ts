/**
 * What stands between a promise and the fiber that serves it: the call, its cancellation, and where its request stands
 * when it ends.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as ManagedRuntime from "effect/ManagedRuntime"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import { type Standing, notBegun, RecoveryCancelledError } from "../domain/failure/RecoveryError.ts"
import { refuseUnknown } from "../domain/failure/unknownOptions.ts"
import type { RecoveryPolicyInput } from "../domain/recovery/RecoveryPolicy.ts"
import { DeadlineOverride, PolicyOverride } from "../services/Overrides.ts"
import { Recovery } from "../services/Recovery.ts"
import { RequestWatch, type RequestWatcher } from "../services/RequestWatch.ts"
import { CurrentTurn, type TurnState } from "../services/Turn.ts"

export type Asked = (typeof Recovery)["Service"]

export interface CallOptions {
  /** Aborting it cancels the request: no further attempt, no open connection. Its reason becomes the error's `cause`. */
  readonly signal?: AbortSignal
  /** Fields of the policy to replace for this call. */
  readonly policy?: Partial<RecoveryPolicyInput>
  /** Deadline of this call, instead of the policy's: "30 seconds", or milliseconds. */
  readonly deadline?: Duration.Input
}

const ofCaller = "The request was cancelled by its caller; nothing is left running."
const ofClose = "The recovery was closed. Make a new one for further requests."

/** Why a request ended with its recovery. */
class Closed extends Error {
  override readonly name = "Closed"
  constructor() {
    super("the recovery was closed")
  }
}

/** One call from its beginning to its end: where its request stands, and why it was cancelled. */
class Call implements RequestWatcher {
  /** null = its request has not begun. */
  private standing: (() => Standing) | null = null
  private fiber: Fiber.Fiber<unknown, unknown> | null = null
  private reason: unknown = undefined
  isCancelled = false

  began(standing: () => Standing): void {
    this.standing = standing
  }

  /** The fiber that serves it; what has cancelled the call meanwhile ends it. */
  runs(fiber: Fiber.Fiber<unknown, unknown>): void {
    this.fiber = fiber
    if (this.isCancelled) fiber.interruptUnsafe()
  }

  /** The first reason counts. */
  cancel(reason: unknown): void {
    if (this.isCancelled) return
    this.isCancelled = true
    this.reason = reason
    this.fiber?.interruptUnsafe()
  }

  /** Waits until nothing of it runs. */
  ended(): Effect.Effect<void> {
    return this.fiber === null ? Effect.void : Effect.asVoid(Fiber.await(this.fiber))
  }

  /** The reason it was cancelled with is the cause; what went wrong before is in the trail and in `firstCause`. */
  error(): RecoveryCancelledError {
    return cancelledBy(this.reason, this.standing === null ? notBegun : this.standing())
  }
}

/** A request that was taken back where it stood. */
export const cancelledBy = (
  reason: unknown,
  { cause, firstCause = cause, ...standing }: Standing
): RecoveryCancelledError =>
  new RecoveryCancelledError({
    ...standing,
    guidance: reason instanceof Closed ? ofClose : ofCaller,
    cause: reason,
    ...(firstCause === undefined ? {} : { firstCause })
  })

/** A recovery as its calls see it. */
export interface Edge {
  readonly runtime: ManagedRuntime.ManagedRuntime<Recovery, ConfigurationError>
  /** The calls that run, so that closing ends them; streams also while nobody reads on. */
  readonly calls: Set<Call>
  isClosed: boolean
}

/** A call that is over before anything is sent when its signal has fired or the recovery is closed. */
const begin = (edge: Edge, signal: AbortSignal | undefined): Call => {
  const call = new Call()
  if (edge.isClosed) call.cancel(new Closed())
  else if (signal?.aborted === true) call.cancel(signal.reason)
  if (call.isCancelled) throw call.error()
  edge.calls.add(call)
  return call
}

/** What a call has beside its request, for the fibers that serve it. */
const contextOf = <R>(base: Context.Context<R>, call: Call, turn: TurnState | null, options: CallOptions) => {
  let context: Context.Context<R> = Context.add(base, RequestWatch, call)
  if (turn !== null) context = Context.add(context, CurrentTurn, turn)
  if (options.policy !== undefined) context = Context.add(context, PolicyOverride, options.policy)
  if (options.deadline !== undefined) context = Context.add(context, DeadlineOverride, options.deadline)
  return context
}

const callKeys: ReadonlyArray<string> = ["signal", "policy", "deadline"]

const checkCall = (call: CallOptions): void => {
  refuseUnknown(call, callKeys)
  if (call.signal !== undefined && !(call.signal instanceof AbortSignal))
    throw new ConfigurationError({ field: "signal", reason: "is not an AbortSignal" })
}

/** Asks the recovery in a fiber of the call's; the layers are built by the first one. */
const fork = <A, E>(
  edge: Edge,
  call: Call,
  turn: TurnState | null,
  options: CallOptions,
  ask: (recovery: Asked) => Effect.Effect<A, E>
): Fiber.Fiber<A, E | ConfigurationError> => {
  const { cachedContext, contextEffect } = edge.runtime
  const fiber: Fiber.Fiber<A, E | ConfigurationError> =
    cachedContext === undefined
      ? Effect.runFork(
          Effect.flatMap(contextEffect, (built) =>
            Effect.provideContext(ask(Context.get(built, Recovery)), contextOf(built, call, turn, options))
          )
        )
      : Effect.runForkWith(contextOf(cachedContext, call, turn, options))(ask(Context.get(cachedContext, Recovery)))
  call.runs(fiber)
  return fiber
}

/**
 * One effect as one promise. By hand: an async function and a signal of the call's own would cost more than the rest of
 * the edge.
 */
export const settle = <A, E>(
  edge: Edge,
  turn: TurnState | null,
  options: CallOptions,
  ask: (recovery: Asked) => Effect.Effect<A, E>
): Promise<A> =>
  new Promise((resolve, reject) => {
    checkCall(options)
    const { signal } = options
    const call = begin(edge, signal)
    const onAbort = signal === undefined ? null : () => call.cancel(signal.reason)
    if (onAbort !== null) signal?.addEventListener("abort", onAbort, { once: true })
    fork(edge, call, turn, options, ask).addObserver((exit) => {
      edge.calls.delete(call)
      if (onAbort !== null) signal?.removeEventListener("abort", onAbort)
      if (Exit.isSuccess(exit)) resolve(exit.value)
      else reject(Cause.hasInterruptsOnly(exit.cause) ? call.error() : Cause.squash(exit.cause))
    })
  })

/** Values of a call that may wait for their reader before the reads stop. */
const bufferSize = 16

/** How a queue of values ends. */
export type Ended<E> = E | ConfigurationError | RecoveryCancelledError | Cause.Done

/** The values an effect offers, as they come; leaving the loop early ends the call, and waits for its end. */
export const iterate = async function* <A, E>(
  edge: Edge,
  turn: TurnState | null,
  options: CallOptions,
  into: (recovery: Asked, queue: Queue.Queue<A, Ended<E>>) => Effect.Effect<void, E>
): AsyncGenerator<A> {
  checkCall(options)
  const { signal } = options
  const call = begin(edge, signal)
  const onAbort = (): void => call.cancel(signal?.reason)
  signal?.addEventListener("abort", onAbort, { once: true })
  const queue = Effect.runSync(Queue.bounded<A, Ended<E>>(bufferSize))
  const fiber = fork(edge, call, turn, options, (recovery) => into(recovery, queue))
  fiber.addObserver((exit) => {
    if (Exit.isSuccess(exit)) Effect.runFork(Queue.end(queue))
    else {
      const isCancelled = Cause.hasInterruptsOnly(exit.cause)
      Effect.runFork(Queue.failCause(queue, isCancelled ? Cause.fail(call.error()) : exit.cause))
    }
  })
  try {
    yield* Stream.toAsyncIterable(Stream.fromQueue(queue))
  } finally {
    signal?.removeEventListener("abort", onAbort)
    await Effect.runPromise(Fiber.interrupt(fiber))
    edge.calls.delete(call)
  }
}

/** Cancels what runs, waits for it, and frees what the clients hold. */
export const close = async (edge: Edge): Promise<void> => {
  edge.isClosed = true
  const calls = [...edge.calls]
  for (const call of calls) call.cancel(new Closed())
  await Effect.runPromise(Effect.forEach(calls, (call) => call.ended(), { discard: true }))
  await edge.runtime.dispose()
}

/** One request is behind it: reading it again would yield nothing, or pay twice. */
export const once = <A>(field: string, open: () => AsyncGenerator<A>): AsyncIterable<A> => {
  let isRead = false
  return {
    [Symbol.asyncIterator]: () => {
      if (isRead)
        throw new ConfigurationError({ field, reason: `has been read: call ${field}() again for a new request` })
      isRead = true
      return open()
    }
  }
}
