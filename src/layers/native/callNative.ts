/**
 * One native request, from a body to an answer: the one seam under `recoveredFetch` and the gateway. What differs between
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
import type { HeadLines } from "../../programs/request/ByteSource.ts"
import type { NativeHead, NativeSender } from "../../programs/request/NativeSender.ts"
import { Alarm } from "../../programs/request/Alarm.ts"
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
import { makeSender, type FailedAnswer, type Target } from "../provider/nativeSender.ts"
import { failureAnswer, passedLines, withRefused, withTrail, type RefusedAnswer } from "./answerFor.ts"
import type { NativeResponse } from "./NativeResponse.ts"
import { Outlet } from "./Outlet.ts"
import { noteRealId } from "./realIds.ts"

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
  /** Told of a failure before its client is, and of the answer that tells it, or would have, had a stream not begun. */
  readonly onFailed?: (failure: RequestFailure, answer: NativeResponse) => void
  /** A comment before the last event of a stream; null = none. */
  readonly closing?: (trail: Trail) => string | null
}

const eventStream: NativeHead = {
  status: 200,
  client: null,
  lines: [
    ["content-type", "text/event-stream"],
    ["cache-control", "no-cache"]
  ]
}

const encoder = new TextEncoder()

const billedOf = (trail: Trail): Usage.Usage => trail.reduce((sum, entry) => Usage.sum(sum, entry.usage), Usage.unknown)

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
  const none = Stream.suspend(() =>
    Stream.fail(makeModelError({ kind: "invalid_request", status: null, code: "summaries_are_no_streams" }))
  )
  return ModelClient.of({ identity: "summaries", generate, stream: () => none })
}

/** Address of a kept response: below the address it was asked at. */
const below = (url: string, path: string): URL => {
  const address = new URL(url)
  address.pathname = `${address.pathname.replace(/\/$/, "")}/${path}`
  return address
}

const cancelAt = (url: string, id: string): string => String(below(url, `${encodeURIComponent(id)}/cancel`))

const keptAt = (url: string, id: string, after: number): string => {
  const address = below(url, encodeURIComponent(id))
  address.searchParams.set("stream", "true")
  address.searchParams.set("starting_after", String(after))
  return String(address)
}

const keyOf =
  (call: NativeCall) =>
  (route: Route): string =>
    `${call.targetOf(route).identity()}\u0000${route.model}`

/** Shows a waiting client that its stream lives, whenever nothing was written for a while; what it gives ends that. */
const keepAlive = (
  outlet: Outlet,
  call: NativeCall,
  afterMillis: number,
  context: Context.Context<never>
): (() => void) => {
  let before = outlet.writes
  const alarm = new Alarm(context, () => {
    if (outlet.writes === before) {
      outlet.open(eventStream)
      outlet.write(encoder.encode(call.wire.keepAlive))
    }
    before = outlet.writes
    alarm.set(afterMillis)
  })
  alarm.set(afterMillis)
  return () => alarm.silence()
}

const reasonOf = (signal: AbortSignal | null): unknown =>
  signal?.reason ?? new DOMException("The request was aborted.", "AbortError")

type Ended = Exit.Exit<NativeReply, RequestFailure>

const failureIn = (exit: Ended): RequestFailure | null => {
  const found = Exit.isFailure(exit) ? Cause.findErrorOption(exit.cause) : null
  return found !== null && found._tag === "Some" ? found.value : null
}

/** One request under way: what its fiber and its client's end share. */
class Underway {
  private readonly call: NativeCall
  readonly hooks: NativeHooks
  private readonly answer: (response: NativeResponse) => void
  private readonly reject: (reason: unknown) => void
  readonly outlet: Outlet
  private fiber: Fiber.Fiber<unknown> | null = null
  private known: Trail = []
  private standing: (() => { readonly trail: Trail }) | null = null
  private refused: ReadonlyArray<RefusedAnswer> = []
  startedAt = 0

  constructor(
    call: NativeCall,
    hooks: NativeHooks,
    answer: (response: NativeResponse) => void,
    reject: (reason: unknown) => void
  ) {
    this.call = call
    this.hooks = hooks
    this.answer = answer
    this.reject = reject
    this.outlet = new Outlet({
      onOpen: ({ status, lines, client }) => answer({ status, client, lines: this.passed(lines), body: this.outlet }),
      onCancel: () => this.stop()
    })
  }

  get trail(): Trail {
    return this.standing === null ? this.known : this.standing().trail
  }

  readonly watch: (typeof RequestWatch)["Service"] = {
    began: (standing) => {
      this.standing = standing
    },
    ended: (whole) => {
      this.known = whole
      this.standing = null
    }
  }

  readonly onRefused = (raw: FailedAnswer, error: ModelError): void => {
    this.refused = withRefused(this.refused, { raw, error })
  }

  readonly onAbort = (): void => {
    const reason = reasonOf(this.call.signal)
    this.reject(reason)
    this.outlet.abort(reason)
    this.stop()
  }

  run(fiber: Fiber.Fiber<unknown>): void {
    this.fiber = fiber
  }

  private stop(): void {
    this.fiber?.interruptUnsafe()
  }

  private passed(lines: HeadLines): HeadLines {
    return withTrail(passedLines(lines), this.trail, this.call.off)
  }

  settle(exit: Ended, wallMillis: number): void {
    const failure = failureIn(exit)
    if (Exit.isSuccess(exit)) this.succeed(exit.value)
    else if (failure !== null) this.fail(failure, wallMillis)
    else if (!Cause.hasInterruptsOnly(exit.cause)) {
      const defect = Cause.squash(exit.cause)
      this.reject(defect)
      this.outlet.fail(defect)
    }
    const trail = this.trail
    this.hooks.onEnd?.({
      requestId: this.call.requestId,
      trail,
      elapsedMs: wallMillis - this.startedAt,
      reply: Exit.isSuccess(exit) ? exit.value.reply : null,
      failure,
      billed: billedOf(trail)
    })
  }

  private succeed({ head, body, renamed }: NativeReply): void {
    if (renamed !== null) noteRealId(renamed.shown, renamed.real)
    if (body === null) this.outlet.end()
    else this.answer({ status: head.status, client: head.client, lines: this.passed(head.lines), body })
  }

  private fail(failure: RequestFailure, wallMillis: number): void {
    const { wire, requestId: id, off } = this.call
    const { trail, refused: answers } = this
    const answer = failureAnswer({ wire, failure, trail, off, id, wallMillis, answers })
    this.hooks.onFailed?.(failure, answer)
    if (this.outlet.isOpen) {
      // The client has a 200: the API's own error event, then a body that errors. A clean end would be a success to many.
      this.outlet.write(encoder.encode(wire.errorEvent(toldOf(wire, failure))))
      this.outlet.fail(failure)
      return
    }
    this.answer(answer)
  }
}

/** One request of the fiber's services: clock, health, ledger and estimate are the caller's own. */
const requestOf = (
  services: NativeServices,
  call: NativeCall,
  underway: Underway,
  fiber: Fiber.Fiber<unknown, unknown>
): Effect.Effect<NativeReply, RequestFailure> => {
  const { closing } = underway.hooks
  const sender = makeSender({
    wire: call.wire.name,
    init: call.init,
    targetOf: call.targetOf,
    keptAt,
    cancelAt,
    onFailed: underway.onRefused
  })
  return nativeRequest({
    loop: {
      policy: call.policy,
      requestId: call.requestId,
      role: "main",
      emit: services.emit,
      ledger: services.ledger ?? fiber.getRef(BudgetLedger),
      health: makeRouteAdmission(call.policy, fiber.getRef(HealthStore) ?? HealthMemory.ofProcess, keyOf(call)),
      turn: makeTurn(),
      callerCap: null,
      providerOf: (route) => call.targetOf(route).profile.name,
      structured: call.view.isStructured
    },
    wire: call.wire,
    view: call.view,
    text: call.text,
    sender,
    out: underway.outlet,
    isVerified: call.isVerified,
    passTruncated: call.passTruncated,
    isHome: call.isHome,
    estimate: fiber.getRef(TokenEstimate),
    summarizer: () => ModelSummarizer.make(summaryClient(call, sender), { model: call.policy.routes[0].model }),
    transcript: null,
    closing: closing === undefined ? null : () => closing(underway.trail)
  })
}

/** Never rejects, but with the reason of an aborted signal: a failure is an answer. */
export const callNative = (
  services: NativeServices,
  call: NativeCall,
  hooks: NativeHooks = {}
): Promise<NativeResponse> =>
  new Promise((resolve, reject) => {
    const { signal } = call
    if (signal?.aborted === true) return reject(reasonOf(signal))
    const underway = new Underway(call, hooks, resolve, reject)
    const alive = hooks.keepAlive ?? null
    // Plain functions: a generator per call costs microseconds, and garbage of the slow kind.
    const program = Effect.withFiber((fiber) => {
      const clock = fiber.getRef(Clock.Clock)
      underway.startedAt = clock.currentTimeMillisUnsafe()
      const request = requestOf(services, call, underway, fiber)
      const quiet =
        alive === null || !call.view.streams ? null : keepAlive(underway.outlet, call, alive.afterMillis, fiber.context)
      const settle = (exit: Ended): Effect.Effect<void> => {
        signal?.removeEventListener("abort", underway.onAbort)
        quiet?.()
        underway.settle(exit, clock.currentTimeMillisUnsafe())
        return Effect.void
      }
      return Effect.exit(Effect.onExit(request, settle))
    })
    signal?.addEventListener("abort", underway.onAbort, { once: true })
    underway.run(Effect.runForkWith(Context.add(services.context, RequestWatch, underway.watch))(program))
  })
