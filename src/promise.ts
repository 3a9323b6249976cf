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
import { RequestWatch } from "./services/RequestWatch.ts"
import type { Summarizer } from "./services/Summarizer.ts"
import { makeTurn, Turn, type TurnCell } from "./services/Turn.ts"

type Client = (typeof ModelClient)["Service"]

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

/** The reason it was cancelled with is the cause; what went wrong before is in the trail and in `firstCause`. */
const cancelled = (standing: StandingCell, reason: unknown): RecoveryCancelledError => {
  const { cause, firstCause = cause, ...standings } = standing.read === null ? notBegun : standing.read()
  return new RecoveryCancelledError({
    ...standings,
    guidance: reason instanceof Closed ? ofClose : ofCaller,
    cause: reason,
    ...(firstCause === undefined ? {} : { firstCause })
  })
}

/** Why a request ended with its recovery. */
class Closed extends Error {
  override readonly name = "Closed"
  constructor() {
    super("the recovery was closed")
  }
}

/** The calls that run, so that closing ends them. */
interface Running {
  closed: boolean
  readonly calls: Set<AbortController>
  /** Streams, also those that nobody reads on. */
  readonly fibers: Set<Fiber.Fiber<void, unknown>>
}

/** Parts of a stream that may wait for their reader before the reads stop. */
const bufferSize = 16

interface Call {
  readonly signal: AbortSignal
  readonly end: () => void
}

/** A signal of the call's own: aborted by the caller's, and when the recovery is closed. */
const begin = (running: Running, outer: AbortSignal | undefined): Call => {
  const controller = new AbortController()
  const onAbort = (): void => controller.abort(outer?.reason)
  if (running.closed) controller.abort(new Closed())
  else if (outer?.aborted === true) onAbort()
  else {
    running.calls.add(controller)
    outer?.addEventListener("abort", onAbort, { once: true })
  }
  return {
    signal: controller.signal,
    end: () => {
      running.calls.delete(controller)
      outer?.removeEventListener("abort", onAbort)
    }
  }
}

/** Where the request of a call stands; null = it has not begun. */
interface StandingCell {
  read: (() => Standing) | null
}

const makeStanding = (): StandingCell => ({ read: null })

/** What a call has beside its request, for the fibers that serve it. */
const contextOf = (options: CallOptions, turn: TurnCell | null, standing: StandingCell): Context.Context<never> => {
  let context: Context.Context<never> = Context.make(RequestWatch, {
    began: (read) => {
      standing.read = read
    }
  })
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
  const running: Running = { closed: false, calls: new Set(), fibers: new Set() }

  const complete = async (turn: TurnCell | null, request: RequestInput, call: CallOptions): Promise<ModelReply> => {
    checkCall(call)
    const standing = makeStanding()
    const { signal, end } = begin(running, call.signal)
    try {
      // A fiber runs up to its first wait before it looks at the signal: far enough to send a request.
      if (signal.aborted) throw cancelled(standing, signal.reason)
      const exit = await runtime.runPromiseExit(
        Effect.provideContext(
          Effect.flatMap(Recovery, (recovery) => recovery.complete(request)),
          contextOf(call, turn, standing)
        ),
        { signal }
      )
      if (Exit.isSuccess(exit)) return exit.value
      if (Cause.hasInterruptsOnly(exit.cause)) throw cancelled(standing, signal.reason)
      throw Cause.squash(exit.cause)
    } finally {
      end()
    }
  }

  const stream = async function* (
    turn: TurnCell | null,
    request: RequestInput,
    call: CallOptions
  ): AsyncGenerator<ReplyPart> {
    checkCall(call)
    const standing = makeStanding()
    const { signal, end } = begin(running, call.signal)
    try {
      if (signal.aborted) throw cancelled(standing, signal.reason)
      const context = await runtime.context()
      // It may have been aborted while the layers were built.
      if (signal.aborted) throw cancelled(standing, signal.reason)
      const queue = Effect.runSync(
        Queue.bounded<ReplyPart, RequestFailure | RecoveryCancelledError | Cause.Done>(bufferSize)
      )
      const parts = Stream.unwrap(Effect.map(Recovery, (recovery) => recovery.stream(request))).pipe(
        Stream.provideContext(contextOf(call, turn, standing))
      )
      // In a fiber of its own the request can be ended also while nobody asks for its next part.
      const fiber = Stream.runForEachArray(parts, (some) => Queue.offerAll(queue, some)).pipe(
        Effect.onExit((exit) => {
          if (Exit.isSuccess(exit)) return Queue.end(queue)
          const isCancelled = Cause.hasInterruptsOnly(exit.cause)
          return Queue.failCause(queue, isCancelled ? Cause.fail(cancelled(standing, signal.reason)) : exit.cause)
        }),
        Effect.runForkWith(context)
      )
      running.fibers.add(fiber)
      const onAbort = (): void => fiber.interruptUnsafe()
      signal.addEventListener("abort", onAbort, { once: true })
      try {
        yield* Stream.toAsyncIterableWith(Stream.fromQueue(queue), context)
      } finally {
        signal.removeEventListener("abort", onAbort)
        await Effect.runPromise(Fiber.interrupt(fiber))
        running.fibers.delete(fiber)
      }
    } finally {
      end()
    }
  }

  const callsOf = (turn: TurnCell | null): PromiseCalls => ({
    complete: (request, call = {}) => complete(turn, request, call),
    stream: (request, call = {}) => once(() => stream(turn, request, call))
  })

  return {
    ...callsOf(null),
    turn: (body) => body(callsOf(makeTurn())),
    close: async () => {
      running.closed = true
      for (const call of running.calls) call.abort(new Closed())
      await Effect.runPromise(Fiber.interruptAll(running.fibers))
      await runtime.dispose()
    }
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
