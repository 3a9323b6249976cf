/**
 * Recovery for plain TypeScript: promises, async iterators and AbortSignals at the edge, the same loop inside. Failures
 * are the same typed errors; an aborted call rejects with RecoveryCancelledError after the model call has ended.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Stream from "effect/Stream"
import type { ConfigurationError } from "./domain/ConfigurationError.ts"
import type { ModelReply } from "./domain/ModelReply.ts"
import type { ModelRequest } from "./domain/ModelRequest.ts"
import type { RecoveryEvent } from "./domain/RecoveryEvent.ts"
import { notBegun, RecoveryCancelledError } from "./domain/RecoveryError.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "./domain/RecoveryPolicy.ts"
import type { ReplyPart } from "./domain/ReplyPart.ts"
import * as EventsMemory from "./layers/EventsMemory.ts"
import * as ModelSummarizer from "./layers/ModelSummarizer.ts"
import * as RecoveryLive from "./layers/RecoveryLive.ts"
import type { ModelClient } from "./services/ModelClient.ts"
import { Recovery } from "./services/Recovery.ts"
import { makeStanding, RequestStanding, type StandingCell } from "./services/RequestStanding.ts"

export interface CreateOptions {
  /** A policy, or its fields: `{ ...RecoveryPolicy.broad, routes: [{ model: "large" }] }`. */
  readonly policy: RecoveryPolicyInput
  /** The adapter: `layer()` of `holdfast/openai` or `holdfast/anthropic`. */
  readonly client: Layer.Layer<ModelClient, ConfigurationError>
  /** Clients of further routes, by name. */
  readonly clients?: RecoveryLive.RecoveryOptions["clients"]
  /** Told about everything recovery does. Must not throw. */
  readonly onEvent?: (event: RecoveryEvent) => void
}

export interface CallOptions {
  /** Aborting it cancels the request: no further attempt, no open connection. */
  readonly signal?: AbortSignal
}

export interface PromiseRecovery {
  readonly complete: (request: ModelRequest, options?: CallOptions) => Promise<ModelReply>
  /** Parts as they come; leaving the loop early closes the connection. */
  readonly stream: (request: ModelRequest, options?: CallOptions) => AsyncIterable<ReplyPart>
  /** Frees what the clients hold. */
  readonly close: () => Promise<void>
}

const cancelled = (standing: StandingCell): RecoveryCancelledError =>
  new RecoveryCancelledError({
    ...(standing.read === null ? notBegun : standing.read()),
    guidance: "The request was cancelled by its caller; nothing is left running."
  })

/** A bad policy throws a ConfigurationError here, before the first request. */
export const createRecovery = (options: CreateOptions): PromiseRecovery => {
  const policy = new RecoveryPolicy(options.policy)
  const { onEvent } = options
  const events =
    onEvent === undefined ? Layer.empty : EventsMemory.layerTo((event) => Effect.sync(() => onEvent(event)))
  const runtime = ManagedRuntime.make(
    RecoveryLive.layer(policy, options.clients === undefined ? {} : { clients: options.clients }).pipe(
      Layer.provide(ModelSummarizer.layer({ model: policy.routes[0].model })),
      Layer.provide(options.client),
      Layer.provide(events)
    )
  )
  const run = async <A, E>(effect: Effect.Effect<A, E, Recovery>, signal: AbortSignal | undefined): Promise<A> => {
    const standing = makeStanding()
    // A fiber runs up to its first wait before it looks at the signal: far enough to send a request.
    if (signal?.aborted === true) throw cancelled(standing)
    const exit = await runtime.runPromiseExit(
      Effect.provideService(effect, RequestStanding, standing),
      signal === undefined ? {} : { signal }
    )
    if (Exit.isSuccess(exit)) return exit.value
    if (Cause.hasInterruptsOnly(exit.cause)) throw cancelled(standing)
    throw Cause.squash(exit.cause)
  }
  return {
    complete: (request, call) =>
      run(
        Effect.flatMap(Recovery, (recovery) => recovery.complete(request)),
        call?.signal
      ),
    stream: (request, call) => iterate(runtime, request, call?.signal),
    close: () => runtime.dispose()
  }
}

/** The signal has fired; private to this file. */
class Aborted {
  readonly _tag = "Aborted"
}

async function* iterate(
  runtime: ManagedRuntime.ManagedRuntime<Recovery, ConfigurationError>,
  request: ModelRequest,
  signal: AbortSignal | undefined
): AsyncGenerator<ReplyPart> {
  const standing = makeStanding()
  if (signal?.aborted === true) throw cancelled(standing)
  const context = await runtime.context()
  const aborted =
    signal === undefined
      ? Effect.never
      : Effect.callback<never, Aborted>((resume) => {
          const onAbort = (): void => resume(Effect.fail(new Aborted()))
          // It may have been aborted while the layers were built.
          if (signal.aborted) return onAbort()
          signal.addEventListener("abort", onAbort, { once: true })
          return Effect.sync(() => signal.removeEventListener("abort", onAbort))
        })
  const parts = Stream.unwrap(Effect.map(Recovery, (recovery) => recovery.stream(request))).pipe(
    Stream.provideService(RequestStanding, standing),
    Stream.interruptWhen(aborted),
    Stream.mapError((failure) => (failure instanceof Aborted ? cancelled(standing) : failure))
  )
  yield* Stream.toAsyncIterableWith(parts, context)
}
