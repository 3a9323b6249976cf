/**
 * Recovery for plain TypeScript: promises, async iterators and AbortSignals at the edge, the same loop inside. Failures
 * are the same typed errors; an aborted call rejects with RecoveryCancelledError after the model call has ended.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import type { ModelReply } from "../domain/chat/ModelReply.ts"
import type { RequestInput } from "../domain/chat/ModelRequest.ts"
import type { RecoveryEvent } from "../domain/recovery/RecoveryEvent.ts"
import { refuseUnknown } from "../domain/failure/unknownOptions.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../domain/recovery/RecoveryPolicy.ts"
import type { ReplyPart } from "../domain/chat/ReplyPart.ts"
import * as EventsMemory from "../layers/stores/EventsMemory.ts"
import * as HealthMemory from "../layers/stores/HealthMemory.ts"
import * as ModelSummarizer from "../layers/ModelSummarizer.ts"
import * as RecoveryLive from "../layers/RecoveryLive.ts"
import { ModelClient } from "../services/ModelClient.ts"
import type { RequestFailure } from "../services/Recovery.ts"
import type { Summarizer } from "../services/Summarizer.ts"
import { makeTurn, type TurnState } from "../services/Turn.ts"
import { close, iterate, once, settle, type Asked, type CallOptions, type Edge, type Ended } from "./edge.ts"

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
  /** Traces, metrics and logs to a collector: `telemetry({ url })` of `holdfast/telemetry`. Default: none. */
  readonly telemetry?: {
    readonly layer: Layer.Layer<never>
    readonly onEvent: (event: RecoveryEvent) => Effect.Effect<void>
  }
}

/** Calls of one recovery, or of one turn of it. */
export interface PromiseCalls {
  readonly complete: (request: RequestInput, options?: CallOptions) => Promise<ModelReply>
  /** Parts as they come, to be read once; leaving the loop early closes the connection. */
  readonly stream: (request: RequestInput, options?: CallOptions) => AsyncIterable<ReplyPart>
}

export interface TurnOptions {
  /** Time in all calls of the turn together: "5 minutes", or milliseconds. Default: as the policy says. */
  readonly deadline?: Duration.Input
}

export interface PromiseRecovery extends PromiseCalls {
  /**
   * Gives the calls of `body` one choice of model, and one deadline for the time in all of them: the one given here, or the
   * policy's where `deadlinePer` is `turn`. A call outside a turn is a turn of its own.
   */
  readonly turn: <A>(body: (calls: PromiseCalls) => Promise<A>, options?: TurnOptions) => Promise<A>
  /** Cancels what still runs and frees what the clients hold. A later call rejects with RecoveryCancelledError. */
  readonly close: () => Promise<void>
}

/** Tells an event; also a promise that comes back may break without harm. */
export const tell = (onEvent: (event: RecoveryEvent) => unknown) => (event: RecoveryEvent) =>
  Effect.sync(() => {
    const told = onEvent(event)
    if (told instanceof Promise) told.catch(() => undefined)
  })

/** The listeners of a recovery: the caller's, and the one that counts. */
const eventsTo = ({ onEvent, telemetry }: CreateOptions): Layer.Layer<never> => {
  const listeners = [
    ...(telemetry === undefined ? [] : [telemetry.onEvent]),
    ...(onEvent === undefined ? [] : [tell(onEvent)])
  ]
  return listeners.length === 0
    ? Layer.empty
    : EventsMemory.layerTo((event) => Effect.forEach(listeners, (listen) => listen(event), { discard: true }))
}

const layerOf = (client: CreateOptions["client"]): Layer.Layer<ModelClient, ConfigurationError> => {
  if (RecoveryLive.isClient(client)) return Layer.succeed(ModelClient, client)
  const isLayer: boolean = Layer.isLayer(client)
  if (isLayer) return client
  throw new ConfigurationError({ field: "client", reason: "is missing: give layer() or make() of an adapter" })
}

const createKeys: ReadonlyArray<string> = [
  "policy",
  "client",
  "clients",
  "summarizer",
  "health",
  "onEvent",
  "telemetry"
]
const turnKeys: ReadonlyArray<string> = ["deadline"]

/** In a fiber of its own the request can be ended also while nobody asks for its next part. */
const streamInto =
  (request: RequestInput) =>
  (recovery: Asked, queue: Queue.Queue<ReplyPart, Ended<RequestFailure>>): Effect.Effect<void, RequestFailure> =>
    Stream.runForEachArray(recovery.stream(request), (some) => Queue.offerAll(queue, some))

/** What a call is given in a turn: a deadline of the turn counts the time of the calls before it. */
const inTurn = (call: CallOptions, { deadline }: TurnOptions): CallOptions =>
  deadline === undefined ? call : { ...call, policy: { deadline, deadlinePer: "turn", ...call.policy } }

const callsOf = (edge: Edge, turn: TurnState | null, of: TurnOptions = {}): PromiseCalls => {
  refuseUnknown(of, turnKeys)
  return {
    complete: (request, options = {}) =>
      settle(edge, turn, inTurn(options, of), (recovery) => recovery.complete(request)),
    stream: (request, options = {}) => {
      const into = streamInto(request)
      return once("stream", () => iterate(edge, turn, inTurn(options, of), into))
    }
  }
}

/** The edges of the recoveries made here: an agent runs in the one of its recovery. */
const edges = new WeakMap<object, Edge>()

/** Something else in the place of a recovery is a ConfigurationError. */
export const edgeOf = (recovery: PromiseRecovery): Edge => {
  const edge = typeof recovery === "object" && recovery !== null ? edges.get(recovery) : undefined
  if (edge === undefined)
    throw new ConfigurationError({ field: "recovery", reason: "is missing: give what createRecovery has made" })
  return edge
}

/** The calls of one turn of a recovery; null = each call is a turn of its own. */
export const callsIn = (recovery: PromiseRecovery, turn: TurnState | null, of: TurnOptions = {}): PromiseCalls =>
  callsOf(edgeOf(recovery), turn, of)

/** A bad option or policy, or a route or client that has no other, throws a ConfigurationError here, before the first request. */
export const createRecovery = (options: CreateOptions): PromiseRecovery => {
  refuseUnknown(options, createKeys)
  if (options.health !== undefined && options.health !== "shared" && options.health !== "own")
    throw new ConfigurationError({ field: "health", reason: 'is neither "shared" nor "own"' })
  const policy = new RecoveryPolicy(options.policy)
  const wrong = RecoveryLive.mismatchOf(policy, options.clients ?? {})
  if (wrong !== null) throw wrong
  const runtime = ManagedRuntime.make(
    RecoveryLive.layer(policy, options.clients === undefined ? {} : { clients: options.clients }).pipe(
      Layer.provide(options.summarizer ?? ModelSummarizer.layer({ model: policy.routes[0].model })),
      Layer.provide(layerOf(options.client)),
      Layer.provide(eventsTo(options)),
      Layer.merge(options.telemetry?.layer ?? Layer.empty),
      Layer.merge(options.health === "own" ? HealthMemory.layer() : Layer.empty)
    )
  )
  const edge: Edge = { runtime, calls: new Set(), isClosed: false }
  const recovery: PromiseRecovery = {
    ...callsOf(edge, null),
    turn: (body, of = {}) => body(callsOf(edge, makeTurn(), of)),
    close: () => close(edge)
  }
  edges.set(recovery, edge)
  return recovery
}
