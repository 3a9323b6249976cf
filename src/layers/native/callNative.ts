/**
 * One native request, from a body to a Response: the one seam under `recoveredFetch` and the gateway. What differs between
 * them comes in as data and hooks.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { WireRequest } from "../../domain/chat/ModelRequest.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { Trail } from "../../domain/failure/Trail.ts"
import type { RecoveryEvent } from "../../domain/recovery/RecoveryEvent.ts"
import type { RecoveryPolicy, Route } from "../../domain/recovery/RecoveryPolicy.ts"
import { toldOf } from "../../domain/wires/native/failureAnswer.ts"
import type { NativeWire, RequestView } from "../../domain/wires/native/NativeWire.ts"
import { nativeRequest, type NativeReply } from "../../programs/request/nativeRequest.ts"
import type { NativeHead, NativeSender } from "../../programs/request/NativeSender.ts"
import { makeRouteAdmission } from "../../programs/request/routeAdmission.ts"
import { BudgetLedger, type LedgerShape } from "../../services/BudgetLedger.ts"
import { HealthStore } from "../../services/HealthStore.ts"
import { ModelClient } from "../../services/ModelClient.ts"
import { TokenEstimate } from "../../services/Overrides.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import { RequestWatch } from "../../services/RequestWatch.ts"
import { makeTurn } from "../../services/Turn.ts"
import * as ModelSummarizer from "../ModelSummarizer.ts"
import * as HealthMemory from "../stores/HealthMemory.ts"
import { identityFor } from "../provider/clientIdentity.ts"
import { makeSender, type FailedAnswer, type Target } from "../provider/nativeSender.ts"
import { failureResponse, passedHeaders, withTrail } from "./answerFor.ts"
import { remember } from "./failureStore.ts"
import { Outlet } from "./Outlet.ts"

export interface NativeCall {
  readonly wire: NativeWire
  readonly view: RequestView
  /** The body as the caller sent it. */
  readonly text: string
  /** Routes, roads and times for this request: see `policyFor`. */
  readonly policy: RecoveryPolicy
  /** A length stop is a value. */
  readonly passTruncated: boolean
  /** Nothing of a stream is shown before it is whole. */
  readonly isVerified: boolean
  readonly targetOf: (route: Route) => Target
  readonly isHome: (route: Route) => boolean
  /** Further fields of the caller's fetch. */
  readonly init: RequestInit
  readonly signal: AbortSignal | null
  /** What cannot be done for this request and why, for a header; null = nothing. */
  readonly off: string | null
  /** The request's name in events. */
  readonly requestId: string
}

/** What a native request needs of the process it runs in. */
export interface NativeServices {
  /** Clock, chance, health, estimate ... of the caller's own. */
  readonly context: Context.Context<never>
  /** Never fails; null = nobody listens. */
  readonly emit: ((event: RecoveryEvent) => Effect.Effect<void>) | null
  /** null = the ledger of the context. */
  readonly ledger: LedgerShape | null
}

/** What became of a request, once it has ended in some way. */
export interface NativeReceipt {
  readonly requestId: string
  readonly trail: Trail
  readonly elapsedMs: number
  /** null = it failed, or its caller left. */
  readonly reply: ModelReply | null
  readonly failure: RequestFailure | null
  /** Tokens of every request that was sent, the failed ones too. */
  readonly billed: Usage.Usage
}

export interface NativeHooks {
  /** Told once, when the request has ended. */
  readonly onEnd?: (receipt: NativeReceipt) => void
  /** Sends signs of life to a client that waits, from the first silence of that length on; null = the client waits. */
  readonly keepAlive?: { readonly afterMillis: number } | null
  /** A comment before the last event of a stream; null = none. */
  readonly closing?: (trail: Trail) => string | null
}

const eventStream: NativeHead = {
  status: 200,
  headers: new Headers({ "content-type": "text/event-stream", "cache-control": "no-cache" })
}

const encoder = new TextEncoder()

export const billedOf = (trail: Trail): Usage.Usage =>
  trail.reduce((sum, entry) => Usage.sum(sum, entry.usage), Usage.unknown)

/** Summaries of this request are asked for where it is asked itself, in the same API. */
const summaryClient = (call: NativeCall, sender: NativeSender): (typeof ModelClient)["Service"] => {
  const generate = (request: WireRequest): Effect.Effect<ModelReply, ModelError> =>
    Effect.scoped(
      Effect.gen(function* () {
        const [home] = call.policy.routes
        const route = call.policy.routes.find(({ model }) => model === request.model) ?? home
        const { profile } = call.targetOf(route)
        const { model, messages, maxOutputTokens } = request
        const body = call.wire.summaryBody({ model, messages, maxOutputTokens, profile })
        const answer = yield* sender.send(route, JSON.stringify(body))
        const decoder = new TextDecoder()
        let text = ""
        for (let read = yield* answer.read; read !== null; read = yield* answer.read)
          text += decoder.decode(read, { stream: true })
        const reply = call.wire.readBody(answer.context, text, answer.allowed)
        return Result.isSuccess(reply) ? reply.success : yield* Effect.fail(answer.problem(reply.failure))
      })
    )
  const none = makeModelError({ kind: "invalid_request", status: null, code: "summaries_are_no_streams" })
  return ModelClient.of({ identity: "summaries", generate, stream: () => Stream.fail(none) })
}

/** Address of a kept response: below the address it was asked at. */
const keptAt = (url: string, id: string, after: number): string => {
  const address = new URL(url)
  address.pathname = `${address.pathname.replace(/\/$/, "")}/${encodeURIComponent(id)}`
  address.searchParams.set("stream", "true")
  address.searchParams.set("starting_after", String(after))
  return String(address)
}

const keyOf =
  (call: NativeCall) =>
  (route: Route): string => {
    const { url, headers, fetch } = call.targetOf(route)
    const account = headers.get("authorization") ?? headers.get("x-api-key") ?? headers.get("api-key")
    const own = fetch === globalThis.fetch ? null : fetch
    return `${identityFor({ baseUrl: new URL(url).origin, account, own })}\u0000${route.model}`
  }

/** Shows a waiting client that its stream lives, whenever nothing was written for a while. */
const keepAlive = (outlet: Outlet, call: NativeCall, afterMillis: number): Effect.Effect<never> =>
  Effect.gen(function* () {
    const bytes = encoder.encode(call.wire.keepAlive)
    while (true) {
      const before = outlet.writes
      yield* Effect.sleep(afterMillis)
      if (outlet.writes !== before) continue
      outlet.open(eventStream)
      outlet.write(bytes)
    }
  })

/** The last failed answer, as it came and as it was read. */
interface Refusal {
  readonly raw: FailedAnswer
  readonly error: ModelError
}

/** One call under way: what its fiber and its caller's promise share. */
interface Call extends NativeCall {
  readonly services: NativeServices
  readonly hooks: NativeHooks
  readonly outlet: Outlet
  readonly resolve: (response: Response) => void
  readonly reject: (reason: unknown) => void
  readonly known: Known
}

/** What has become known of a call so far. */
interface Known {
  fiber: Fiber.Fiber<void> | null
  trail: Trail
  /** Headers of the response that was opened. */
  headers: Headers | null
  refusal: Refusal | null
  standing: (() => { readonly trail: Trail }) | null
}

const trailOf = ({ standing, trail }: Known): Trail => (standing === null ? trail : standing().trail)

const succeed = (call: Call, { head, body }: NativeReply): void => {
  if (body === null) {
    call.outlet.end()
    return
  }
  const headers = withTrail(passedHeaders(head.headers), trailOf(call.known), call.off)
  // A copy: the bytes may be a view of a pool that holds other answers.
  call.resolve(new Response(new Uint8Array(body), { status: head.status, headers }))
}

const fail = (call: Call, failure: RequestFailure, wallMillis: number): void => {
  const { wire, requestId, off, outlet, known } = call
  if (outlet.isOpen) {
    // The client has a 200: the API's own error event, then a body that errors. A clean end would be a success to many.
    remember(failure, known.headers, requestId)
    outlet.write(encoder.encode(wire.errorEvent(toldOf(wire, failure))))
    outlet.fail(failure)
    return
  }
  const trail = trailOf(known)
  const response = failureResponse({ wire, failure, trail, off, id: requestId, wallMillis, answer: known.refusal })
  remember(failure, response.headers, requestId)
  call.resolve(response)
}

/** Answers the caller, and tells who asked for it what became of the request. */
const settle = (call: Call, exit: Exit.Exit<NativeReply, RequestFailure>, startedAt: number, wall: number): void => {
  const found = Exit.isFailure(exit) ? Cause.findErrorOption(exit.cause) : null
  const failure = found !== null && found._tag === "Some" ? found.value : null
  if (Exit.isSuccess(exit)) succeed(call, exit.value)
  else if (failure !== null) fail(call, failure, wall)
  else if (!Cause.hasInterruptsOnly(exit.cause)) {
    const defect = Cause.squash(exit.cause)
    call.reject(defect)
    call.outlet.fail(defect)
  }
  const trail = trailOf(call.known)
  call.hooks.onEnd?.({
    requestId: call.requestId,
    trail,
    elapsedMs: wall - startedAt,
    reply: Exit.isSuccess(exit) ? exit.value.reply : null,
    failure,
    billed: billedOf(trail)
  })
}

const senderOf = (call: Call): NativeSender =>
  makeSender({
    wire: call.wire.name,
    method: "POST",
    init: call.init,
    targetOf: call.targetOf,
    keptAt,
    onFailed: (raw, error) => {
      call.known.refusal = { raw, error }
    }
  })

/** The request through the loop, with its trail noted as it grows. */
const recovered = (call: Call): Effect.Effect<NativeReply, RequestFailure> =>
  Effect.gen(function* () {
    const { known, hooks, policy, services, wire, view } = call
    const sender = senderOf(call)
    const request = nativeRequest({
      loop: {
        policy,
        requestId: call.requestId,
        role: "main",
        emit: services.emit,
        ledger: services.ledger ?? (yield* BudgetLedger),
        health: makeRouteAdmission(policy, (yield* HealthStore) ?? HealthMemory.ofProcess, keyOf(call)),
        turn: makeTurn(),
        callerCap: null,
        providerOf: (route) => call.targetOf(route).profile.name,
        structured: view.isStructured
      },
      wire,
      view,
      text: call.text,
      sender,
      out: call.outlet,
      isVerified: call.isVerified,
      passTruncated: call.passTruncated,
      isHome: call.isHome,
      estimate: yield* TokenEstimate,
      summarizer: ModelSummarizer.make(summaryClient(call, sender), { model: policy.routes[0].model }),
      transcript: null,
      closing: hooks.closing === undefined ? null : () => hooks.closing?.(trailOf(known)) ?? null
    })
    return yield* Effect.provideService(request, RequestWatch, {
      began: (standing) => {
        known.standing = standing
      },
      ended: (whole) => {
        known.trail = whole
        known.standing = null
      }
    })
  })

const run = (call: Call): Effect.Effect<void> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const wall = (): number => clock.currentTimeMillisUnsafe()
    const startedAt = wall()
    const alive = call.hooks.keepAlive ?? null
    const running =
      alive === null || !call.view.streams
        ? recovered(call)
        : Effect.raceFirst(recovered(call), keepAlive(call.outlet, call, alive.afterMillis))
    yield* Effect.exit(Effect.onExit(running, (exit) => Effect.sync(() => settle(call, exit, startedAt, wall()))))
  })

const reasonOf = (signal: AbortSignal | null): unknown =>
  signal?.reason ?? new DOMException("The request was aborted.", "AbortError")

/** Where the bytes of a stream go; its first one opens the response. */
const outletOf = (call: NativeCall, known: Known, resolve: (response: Response) => void, stop: () => void): Outlet =>
  new Outlet({
    onOpen: (head, body) => {
      const headers = withTrail(passedHeaders(head.headers), trailOf(known), call.off)
      const response = new Response(body, { status: head.status, headers })
      known.headers = response.headers
      resolve(response)
    },
    onCancel: stop
  })

/** Never rejects, but with the reason of an aborted signal: a failure is a Response. */
export const callNative = (services: NativeServices, call: NativeCall, hooks: NativeHooks = {}): Promise<Response> =>
  new Promise((resolve, reject) => {
    const { signal } = call
    if (signal?.aborted === true) return reject(reasonOf(signal))
    const known: Known = { fiber: null, trail: [], headers: null, refusal: null, standing: null }
    const stop = (): void => known.fiber?.interruptUnsafe()
    const outlet = outletOf(call, known, resolve, stop)
    const onAbort = (): void => {
      const reason = reasonOf(signal)
      reject(reason)
      outlet.abort(reason)
      stop()
    }
    signal?.addEventListener("abort", onAbort, { once: true })
    const program = Effect.ensuring(
      run({ ...call, services, hooks, outlet, resolve, reject, known }),
      Effect.sync(() => signal?.removeEventListener("abort", onAbort))
    )
    known.fiber = Effect.runForkWith(services.context)(program)
  })
