/**
 * Recovery over the registered clients. Layers are taken when this one is built; policy, deadline and priority
 * overrides are read at call time.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import { unpriced } from "../domain/budget/Budget.ts"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import { snapshot } from "../domain/chat/snapshot.ts"
import type { ModelReply } from "../domain/chat/ModelReply.ts"
import type { ModelRequest, RequestInput } from "../domain/chat/ModelRequest.ts"
import { isStructured } from "../domain/chat/structured.ts"
import type { RecoveryEvent } from "../domain/recovery/RecoveryEvent.ts"
import {
  forBackground,
  forTools,
  RecoveryPolicy,
  type RecoveryPolicyInput,
  type Route
} from "../domain/recovery/RecoveryPolicy.ts"
import { checkedRequest } from "../domain/failure/requestFault.ts"
import { complete, type CompleteOptions } from "../programs/request/complete.ts"
import type { RecoverOptions } from "../programs/request/Run.ts"
import { quiet } from "../programs/request/listener.ts"
import { makeRouteAdmission } from "../programs/request/routeAdmission.ts"
import { stream, type Listen } from "../programs/request/stream.ts"
import { BudgetLedger, type LedgerShape } from "../services/BudgetLedger.ts"
import { HealthStore, type RouteKey } from "../services/HealthStore.ts"
import { ModelClient } from "../services/ModelClient.ts"
import { DeadlineOverride, PolicyOverride, PriorityOverride, TokenEstimate } from "../services/Overrides.ts"
import { Recovery, type RequestFailure } from "../services/Recovery.ts"
import { RecoveryEvents } from "../services/RecoveryEvents.ts"
import { RequestKeep } from "../services/RequestKeep.ts"
import { Summarizer } from "../services/Summarizer.ts"
import { Transcript } from "../services/Transcript.ts"
import { makeTurn, CurrentTurn } from "../services/Turn.ts"
import { identityOf } from "./provider/clientIdentity.ts"
import * as HealthMemory from "./stores/HealthMemory.ts"
import { refuseUnknown } from "../domain/failure/unknownOptions.ts"

type Client = (typeof ModelClient)["Service"]

/** Where a call stands: what is set around it, fiber-locally. */
type Around = Fiber.Fiber<unknown, unknown>

export interface RecoveryOptions {
  /** Clients beside the default one, by the name a route gives (`{ model: "small", client: "backup" }`). */
  readonly clients?: Readonly<Record<string, Client>>
}

/** A request goes to no other provider than its route names: a name that is not registered is never replaced. */
const unknownClientOf = (
  policy: RecoveryPolicy,
  clients: Readonly<Record<string, Client>>
): ConfigurationError | null => {
  for (const [index, { client }] of policy.routes.entries())
    if (client !== null && !Object.hasOwn(clients, client))
      return new ConfigurationError({
        field: `routes[${index}].client`,
        reason: `names "${client}", which is not a registered client`
      })
  return null
}

/** A limit in USD and a route without a price; null = they go together. */
const unpricedBy = (ledger: LedgerShape | null, policy: RecoveryPolicy): ConfigurationError | null =>
  ledger === null || ledger.limits.maxCostUsd === null ? null : (unpriced(policy.routes)?.error ?? null)

/** Whether a value is a client: JavaScript may bring a layer, or nothing, in its place. */
export const isClient = (value: unknown): value is Client =>
  typeof value === "object" &&
  value !== null &&
  "generate" in value &&
  typeof value.generate === "function" &&
  "stream" in value &&
  typeof value.stream === "function"

/** What does not fit between the routes of a policy and the clients beside the default one; null = all fits. */
export const mismatchOf = (
  policy: RecoveryPolicy,
  clients: Readonly<Record<string, Client>>
): ConfigurationError | null => {
  for (const [name, client] of Object.entries(clients)) {
    if (!isClient(client))
      return new ConfigurationError({ field: `clients.${name}`, reason: "is not a client: give make() of an adapter" })
    if (!policy.routes.some((route) => route.client === name))
      return new ConfigurationError({ field: `clients.${name}`, reason: "is named by no route" })
  }
  return unknownClientOf(policy, clients)
}

/** What every call of one Recovery shares; taken when the layer is built. */
interface Wiring {
  readonly policy: RecoveryPolicy
  readonly backgroundPolicy: RecoveryPolicy
  readonly clients: Readonly<Record<string, Client>>
  readonly clientOf: (name: string | null) => Client
  readonly keyOf: (route: Route) => RouteKey
  readonly providerOf: (route: Route) => string | null
  readonly summarizer: (typeof Summarizer)["Service"]
  readonly transcript: (typeof Transcript)["Service"] | null
  /** Tells the service of events; null = there is none. */
  readonly emit: RecoverOptions["emit"]
  readonly nextId: () => string
}

/** Ids are unique in the process and tell processes apart; they carry no meaning. */
const idsFrom = (epochMillis: number): (() => string) => {
  const prefix = epochMillis.toString(36)
  let count = 0
  return () => {
    count += 1
    return `${prefix}-${count}`
  }
}

/** What is bad about policy and clients is found here, before anything is sent. */
const wiringOf = Effect.fnUntraced(function* (policy: RecoveryPolicy, options: RecoveryOptions) {
  yield* Effect.try({
    try: () => refuseUnknown(options, ["clients"] satisfies ReadonlyArray<keyof RecoveryOptions>),
    catch: (cause) => cause as ConfigurationError
  })
  const clients = options.clients ?? {}
  const mismatch = mismatchOf(policy, clients)
  if (mismatch !== null) return yield* mismatch
  const unpricedRoute = unpricedBy(yield* BudgetLedger, policy)
  if (unpricedRoute !== null) return yield* unpricedRoute
  const primary = yield* ModelClient
  const context = yield* Effect.context<never>()
  const events = Option.getOrNull(Context.getOption(context, RecoveryEvents))
  const clientOf = (name: string | null): Client => (name === null ? primary : (clients[name] ?? primary))
  const wiring: Wiring = {
    policy,
    backgroundPolicy: forBackground(policy),
    clients,
    clientOf,
    keyOf: (route) => `${identityOf(clientOf(route.client))}\u0000${route.model}`,
    providerOf: (route) => clientOf(route.client).provider ?? null,
    summarizer: yield* Summarizer,
    transcript: Option.getOrNull(Context.getOption(context, Transcript)),
    emit: events === null ? null : quiet(events.emit),
    nextId: idsFrom(yield* Clock.currentTimeMillis)
  }
  return wiring
})

/** The policy of a call, with what is replaced around it. What is bad about that is thrown: a defect. */
const resolve = (base: RecoveryPolicy, clients: Wiring["clients"], around: Around): RecoveryPolicy => {
  const override = around.getRef(PolicyOverride)
  const deadline = around.getRef(DeadlineOverride)
  if (override === null && deadline === null) return base
  const resolved = new RecoveryPolicy({ ...base, ...override, ...(deadline === null ? {} : { deadline }) })
  const unknown = unknownClientOf(resolved, clients)
  if (unknown !== null) throw unknown
  return resolved
}

/** Events go to the service and to whoever listens to this call. */
const both = (own: RecoverOptions["emit"], heard: RecoverOptions["emit"]): RecoverOptions["emit"] =>
  own === null ? heard : heard === null ? own : (event) => Effect.andThen(own(event), heard(event))

const optionsOf = (wiring: Wiring, request: ModelRequest, listen: Listen | null, around: Around): CompleteOptions => {
  const { summarizer, transcript, clientOf } = wiring
  const priority = request.priority ?? around.getRef(PriorityOverride) ?? "foreground"
  const role = priority === "background" ? "background" : "main"
  const base = priority === "background" ? wiring.backgroundPolicy : wiring.policy
  const found = resolve(base, wiring.clients, around)
  const policy = (request.tools?.length ?? 0) > 0 ? forTools(found) : found
  const ledger = around.getRef(BudgetLedger)
  // The ledger of this call: what cannot be counted is a defect of the set-up, found before anything is sent.
  const uncounted = unpricedBy(ledger, policy)
  if (uncounted !== null) throw uncounted
  const keep = around.getRef(RequestKeep)
  const requestId = wiring.nextId()
  const loop: RecoverOptions = {
    policy,
    requestId,
    role,
    emit: both(wiring.emit, listen === null ? null : (event: RecoveryEvent) => listen(event, policy)),
    ledger,
    health: makeRouteAdmission(policy, around.getRef(HealthStore) ?? HealthMemory.ofProcess, wiring.keyOf),
    turn: around.getRef(CurrentTurn) ?? makeTurn(),
    callerCap: request.maxOutputTokens ?? null,
    providerOf: wiring.providerOf,
    structured: isStructured(request),
    keep
  }
  const estimate = around.getRef(TokenEstimate)
  return { policy, request, requestId, role, estimate, summarizer, transcript, keep, loop, clientOf }
}

/** One step reads all that stands around a call: a generator per call would cost more than what it reads. */
const setUp = (
  wiring: Wiring,
  input: RequestInput,
  listen: Listen | null
): Effect.Effect<CompleteOptions, RequestFailure> =>
  Effect.withFiber((around) =>
    Effect.fromResult(Result.map(checkedRequest(input), (request) => optionsOf(wiring, request, listen, around)))
  )

/** A deadline that stands around a turn is one for all its requests, whatever the policy's `deadlinePer` says of its own. */
const inTurn = <A, E, R>(body: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((around) => {
    const turn = Effect.provideService(body, CurrentTurn, makeTurn())
    const deadline = around.getRef(DeadlineOverride)
    if (deadline === null) return turn
    const policy: Partial<RecoveryPolicyInput> = { ...around.getRef(PolicyOverride), deadline, deadlinePer: "turn" }
    return turn.pipe(Effect.provideService(PolicyOverride, policy), Effect.provideService(DeadlineOverride, null))
  })

const recoveryOver = (wiring: Wiring): (typeof Recovery)["Service"] =>
  Recovery.of({
    // The request is taken as it is now: what its owner does to it later changes nothing.
    complete: (request): Effect.Effect<ModelReply, RequestFailure> =>
      Effect.flatMap(setUp(wiring, snapshot(request), null), complete),
    stream: (request) => {
      const taken = snapshot(request)
      return stream((listen) => setUp(wiring, taken, listen))
    },
    turn: inTurn
  })

/**
 * A policy without a client for one of its routes is a ConfigurationError, as is a client that no route names.
 */
export const layer = (
  policy: RecoveryPolicy,
  options: RecoveryOptions = {}
): Layer.Layer<Recovery, ConfigurationError, ModelClient | Summarizer> =>
  Layer.effect(Recovery, Effect.map(wiringOf(policy, options), recoveryOver))
