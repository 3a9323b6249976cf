/**
 * Recovery for plain TypeScript: promises, async iterators and AbortSignals at the edge, the same loop inside. Failures
 * are the same typed errors; an aborted call rejects with RecoveryCancelledError after the model call has ended.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { ConfigurationError } from "./domain/failure/ConfigurationError.ts"
import type { ModelReply } from "./domain/chat/ModelReply.ts"
import type { RequestInput } from "./domain/chat/ModelRequest.ts"
import type { RecoveryEvent } from "./domain/recovery/RecoveryEvent.ts"
import { type Standing, notBegun, RecoveryCancelledError } from "./domain/failure/RecoveryError.ts"
import { refuseUnknown } from "./domain/failure/unknownOptions.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "./domain/recovery/RecoveryPolicy.ts"
import type { ReplyPart } from "./domain/chat/ReplyPart.ts"
import * as EventsMemory from "./layers/stores/EventsMemory.ts"
import * as HealthMemory from "./layers/stores/HealthMemory.ts"
import * as ModelSummarizer from "./layers/ModelSummarizer.ts"
import * as RecoveryLive from "./layers/RecoveryLive.ts"
import { ModelClient } from "./services/ModelClient.ts"
import { DeadlineOverride, PolicyOverride } from "./services/Overrides.ts"
import { Recovery, type RequestFailure } from "./services/Recovery.ts"
import { RequestWatch, type RequestWatcher } from "./services/RequestWatch.ts"
import type { Summarizer } from "./services/Summarizer.ts"
import { makeTurn, Turn, type TurnCell } from "./services/Turn.ts"

type Client = (typeof ModelClient)["Service"]
type Asked = (typeof Recovery)["Service"]

export interface CreateOptions {
  /** A policy, or its fields: `{ ...RecoveryPolicy.broad, routes: [{ model: "large" }] }`. */
  readonly policy: RecoveryPolicyInput
  /** The adapter: `layer()` or `make()` of `holdfast/openai` or `holdfast/anthropic`. */
  readonly client: Layer.Layer<ModelClient, ConfigurationError> | Client
  /** Clients of further routes, by name. */
  readonly clients?: RecoveryLive.RecoveryOptions["clients"]
  /** Writes the summaries of a compaction. Default: `ModelSummarizer.layer` with the first route's model. */
  readonly summarizer?: Layer.Layer<Summarizer, ConfigurationError, ModelClient>
  /** Route health: `shared` by the process (default), or this recovery's `own`. */
  readonly health?: "shared" | "own"
  /** Told about everything recovery does. What it throws is reported in the log and fails no request. */
  readonly onEvent?: (event: RecoveryEvent) => void
}

export interface CallOptions {
  /** Aborting it cancels the request: no further attempt, no open connection. Its reason becomes the error's `cause`. */
  readonly signal?: AbortSignal
  /** Fields of the policy to replace for this call. */
  readonly policy?: Partial<RecoveryPolicyInput>
  /** Deadline of this call, instead of the policy's: "30 seconds", or milliseconds. */
  readonly deadline?: Duration.Input
}

/** Calls of one recovery, or of one turn of it. */
export interface PromiseCalls {
  readonly complete: (request: RequestInput, options?: CallOptions) => Promise<ModelReply>
  /** Parts as they come, to be read once; leaving the loop early closes the connection. */
  readonly stream: (request: RequestInput, options?: CallOptions) => AsyncIterable<ReplyPart>
}

export interface PromiseRecovery extends PromiseCalls {
  /** Gives the calls of `body` one deadline and one choice of model; a call outside a turn is a turn of its own. */
  readonly turn: <A>(body: (calls: PromiseCalls) => Promise<A>) => Promise<A>
  /** Cancels what still runs and frees what the clients hold. A later call rejects with RecoveryCancelledError. */
  readonly close: () => Promise<void>
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
    const { cause, firstCause = cause, ...standing } = this.standing === null ? notBegun : this.standing()
    return new RecoveryCancelledError({
      ...standing,
      guidance: this.reason instanceof Closed ? ofClose : ofCaller,
      cause: this.reason,
      ...(firstCause === undefined ? {} : { firstCause })
    })
  }
}

/** A recovery as its calls see it. */
interface Edge {
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

/** Parts of a stream that may wait for their reader before the reads stop. */
const bufferSize = 16

/** What a call has beside its request, for the fibers that serve it. */
const contextOf = <R>(base: Context.Context<R>, call: Call, turn: TurnCell | null, options: CallOptions) => {
  let context: Context.Context<R> = Context.add(base, RequestWatch, call)
  if (turn !== null) context = Context.add(context, Turn, turn)
  if (options.policy !== undefined) context = Context.add(context, PolicyOverride, options.policy)
  if (options.deadline !== undefined) context = Context.add(context, DeadlineOverride, options.deadline)
  return context
}

/** Tells an event; also a promise that comes back may break without harm. */
const tell = (onEvent: (event: RecoveryEvent) => unknown) => (event: RecoveryEvent) =>
  Effect.sync(() => {
    const told = onEvent(event)
    if (told instanceof Promise) told.catch(() => undefined)
  })

const layerOf = (client: CreateOptions["client"]): Layer.Layer<ModelClient, ConfigurationError> => {
  if (RecoveryLive.isClient(client)) return Layer.succeed(ModelClient, client)
  const isLayer: boolean = Layer.isLayer(client)
  if (isLayer) return client
  throw new ConfigurationError({ field: "client", reason: "is missing: give layer() or make() of an adapter" })
}

const createKeys: ReadonlyArray<string> = ["policy", "client", "clients", "summarizer", "health", "onEvent"]
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
  turn: TurnCell | null,
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

const complete = (
  edge: Edge,
  turn: TurnCell | null,
  request: RequestInput,
  options: CallOptions
): Promise<ModelReply> =>
  // By hand: an async function and a signal of the call's own would cost more than the rest of the edge.
  new Promise((resolve, reject) => {
    checkCall(options)
    const { signal } = options
    const call = begin(edge, signal)
    const onAbort = signal === undefined ? null : () => call.cancel(signal.reason)
    if (onAbort !== null) signal?.addEventListener("abort", onAbort, { once: true })
    fork(edge, call, turn, options, (recovery) => recovery.complete(request)).addObserver((exit) => {
      edge.calls.delete(call)
      if (onAbort !== null) signal?.removeEventListener("abort", onAbort)
      if (Exit.isSuccess(exit)) resolve(exit.value)
      else reject(Cause.hasInterruptsOnly(exit.cause) ? call.error() : Cause.squash(exit.cause))
    })
  })

type StreamEnd = RequestFailure | ConfigurationError | RecoveryCancelledError | Cause.Done

/** In a fiber of its own the request can be ended also while nobody asks for its next part. */
const streamInto =
  (queue: Queue.Queue<ReplyPart, StreamEnd>, request: RequestInput) =>
  (recovery: Asked): Effect.Effect<void, RequestFailure> =>
    Stream.runForEachArray(recovery.stream(request), (some) => Queue.offerAll(queue, some))

const stream = async function* (
  edge: Edge,
  turn: TurnCell | null,
  request: RequestInput,
  options: CallOptions
): AsyncGenerator<ReplyPart> {
  checkCall(options)
  const { signal } = options
  const call = begin(edge, signal)
  const onAbort = (): void => call.cancel(signal?.reason)
  signal?.addEventListener("abort", onAbort, { once: true })
  const queue = Effect.runSync(Queue.bounded<ReplyPart, StreamEnd>(bufferSize))
  const fiber = fork(edge, call, turn, options, streamInto(queue, request))
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

const callsOf = (edge: Edge, turn: TurnCell | null): PromiseCalls => ({
  complete: (request, options = {}) => complete(edge, turn, request, options),
  stream: (request, options = {}) => once(() => stream(edge, turn, request, options))
})

const close = async (edge: Edge): Promise<void> => {
  edge.isClosed = true
  const calls = [...edge.calls]
  for (const call of calls) call.cancel(new Closed())
  await Effect.runPromise(Effect.forEach(calls, (call) => call.ended(), { discard: true }))
  await edge.runtime.dispose()
}

/** A bad option or policy, or a route or client that has no other, throws a ConfigurationError here, before the first request. */
export const createRecovery = (options: CreateOptions): PromiseRecovery => {
  refuseUnknown(options, createKeys)
  if (options.health !== undefined && options.health !== "shared" && options.health !== "own")
    throw new ConfigurationError({ field: "health", reason: 'is neither "shared" nor "own"' })
  const policy = new RecoveryPolicy(options.policy)
  const wrong = RecoveryLive.mismatchOf(policy, options.clients ?? {})
  if (wrong !== null) throw wrong
  const { onEvent } = options
  const runtime = ManagedRuntime.make(
    RecoveryLive.layer(policy, options.clients === undefined ? {} : { clients: options.clients }).pipe(
      Layer.provide(options.summarizer ?? ModelSummarizer.layer({ model: policy.routes[0].model })),
      Layer.provide(layerOf(options.client)),
      Layer.provide(onEvent === undefined ? Layer.empty : EventsMemory.layerTo(tell(onEvent))),
      Layer.merge(options.health === "own" ? HealthMemory.layer() : Layer.empty)
    )
  )
  const edge: Edge = { runtime, calls: new Set(), isClosed: false }
  return {
    ...callsOf(edge, null),
    turn: (body) => body(callsOf(edge, makeTurn())),
    close: () => close(edge)
  }
}

/** One request is behind it: reading it again would yield nothing, or pay twice. */
const once = <A>(open: () => AsyncGenerator<A>): AsyncIterable<A> => {
  let isRead = false
  return {
    [Symbol.asyncIterator]: () => {
      if (isRead)
        throw new ConfigurationError({
          field: "stream",
          reason: "has been read: call stream() again for a new request"
        })
      isRead = true
      return open()
    }
  }
}
