/**
 * Clients that run the library's own decisions: `transition`, `admit` and `report`. This file keeps their states and
 * plays the interpreter's part in virtual time; it decides nothing.
 */
import { nothingSeen, type Faulted, type Outcome } from "../../../domain/recovery/Outcome.ts"
import { delayOf, type RecoveryAction } from "../../../domain/recovery/RecoveryAction.ts"
import { transition } from "../../../domain/recovery/RecoveryMachine.ts"
import { forBackground, type RecoveryPolicy } from "../../../domain/recovery/RecoveryPolicy.ts"
import * as RecoveryState from "../../../domain/recovery/RecoveryState.ts"
import { type RouteHealthConfig } from "../../../domain/recovery/RouteHealthConfig.ts"
import { admit, report, type Admission } from "../../../domain/route/Admission.ts"
import { initial, type RouteHealth, type Signal } from "../../../domain/route/RouteHealth.ts"
import {
  afterOutcome,
  askerOf,
  heldBy,
  noHolds,
  signalOf,
  withWayOut,
  type Holds
} from "../../../domain/route/RouteQuestion.ts"
import type { Tick } from "../../../domain/recovery/Tick.ts"
import { giveUp, send, type Behaviour, type RejectionStatus } from "./Behaviour.ts"
import { numberAt } from "../numberAt.ts"
import type { Random } from "./Random.ts"

/** One logical request under way. */
interface Call {
  readonly process: number
  readonly policy: RecoveryPolicy
  state: RecoveryState.RecoveryState
  holds: Holds
  /** Number of the probe that is out for this request; null = none. */
  ticket: number | null
  /** Whether route health has heard of this attempt. */
  reported: boolean
  /** When the attempt left. */
  sentAt: number
}

export interface MachineOptions {
  readonly policy: RecoveryPolicy
  readonly requests: number
  readonly processes: number
  readonly random: Random
}

export const machineBehaviour = (options: MachineOptions): Behaviour => {
  const { policy, random } = options
  const background = policy.shedOnOverload ? policy : forBackground(policy)
  const calls = new Array<Call | undefined>(options.requests)
  const width = policy.routes.length
  const healths = new Array<RouteHealth | undefined>(options.processes * width)
  const open = new Int32Array(width)

  const tickAt = (now: number, backoffMillis: number | null): Tick => ({
    now,
    wall: now,
    backoffMillis,
    spread: random(),
    progressMillis: 0
  })

  /** The policy's backoff, as the layer that turns it into a schedule steps it: exponential, capped, then jittered. */
  const backoffAt = (own: RecoveryPolicy, step: number): number =>
    Math.min(own.backoff.cap, own.backoff.base * own.backoff.factor ** step) * (1 + own.backoff.jitter * random())

  const callOf = (request: number): Call => {
    const call = calls[request]
    if (call === undefined) throw new RangeError(`request ${request} is not under way`)
    return call
  }

  /** What a process knows of its routes; nothing before it has asked once. One flat table: a run touches it at random. */
  const healthsOf = (config: RouteHealthConfig, process: number, now: number): ReadonlyArray<RouteHealth> =>
    Array.from({ length: width }, (_, route) => healths[process * width + route] ?? initial(config, now))

  const remember = (process: number, before: ReadonlyArray<RouteHealth>, after: ReadonlyArray<RouteHealth>): void => {
    if (before === after) return
    for (const [route, health] of after.entries()) {
      const was = before[route]
      if (was === health) continue
      healths[process * width + route] = health
      if (was?.breaker !== health.breaker)
        open[route] = numberAt(open, route) + Number(health.breaker === "open") - Number(was?.breaker === "open")
    }
  }

  const admitted = (config: RouteHealthConfig, call: Call, tick: Tick): Admission => {
    const before = healthsOf(config, call.process, tick.now)
    const next = admit(config, before, askerOf(call.policy, call.state, call.holds), tick)
    remember(call.process, before, next.healths)
    return next.admission
  }

  const signalled = (call: Call, signal: Signal, tick: Tick): number | null => {
    const config = call.policy.routeHealth
    if (config === null) return null
    const reporter = { own: call.state.route, priority: call.state.background ? "background" : "foreground" } as const
    const before = healthsOf(config, call.process, tick.now)
    const next = report(config, before, reporter, signal, tick)
    remember(call.process, before, next.healths)
    return next.wayOut
  }

  /** Tells route health of an attempt; the outcome with its answer. */
  const told = (call: Call, outcome: Outcome, tick: Tick): Outcome => {
    const config = call.policy.routeHealth
    if (config === null) return outcome
    const signal = signalOf(config, call.policy, outcome, call.ticket, tick.wall, call.holds)
    // An attempt that is accepted early and completes later is one accepted call.
    if (signal === null || (signal._tag === "Accepted" && call.reported)) return outcome
    call.reported = true
    call.ticket = null
    return withWayOut(outcome, signalled(call, signal, tick))
  }

  /** One step of the machine. */
  const step = (call: Call, outcome: Outcome, tick: Tick): RecoveryAction => {
    const next = transition(call.policy, call.state, outcome, tick)
    call.holds = afterOutcome(call.holds, call.state.route, outcome)
    call.state = next.state
    return next.action
  }

  const drop = (request: number): number => {
    calls[request] = undefined
    return giveUp
  }

  return {
    arrive: (request, process, isBackground, now) => {
      const own = isBackground ? background : policy
      calls[request] = {
        process,
        policy: own,
        state: RecoveryState.initial(own, {
          now,
          deadline: own.deadline === null ? null : now + own.deadline,
          route: 0,
          callerCap: null,
          streaming: false,
          background: own.shedOnOverload
        }),
        holds: noHolds,
        ticket: null,
        reported: true,
        sentAt: now
      }
    },
    ask: (request, now) => {
      const call = callOf(request)
      const config = call.policy.routeHealth
      if (config === null) return send
      const tick = tickAt(now, null)
      const admission = admitted(config, call, tick)
      const held = heldBy(admission, now)
      const next = held === null ? null : step(call, held, tick)
      if (admission._tag !== "Go") return next === null || next._tag === "Fail" ? drop(request) : now + delayOf(next)
      call.ticket = admission.ticket
      call.reported = false
      call.sentAt = now
      return send
    },
    routeOf: (request) => callOf(request).state.route,
    accepted: (request, now) => {
      const call = callOf(request)
      told(call, { _tag: "Completed" }, tickAt(now, null))
    },
    failed: (request, status, hintMillis, now) => {
      const call = callOf(request)
      const tick = tickAt(now, backoffAt(call.policy, call.state.transients))
      const next = step(call, told(call, faultOf(status, hintMillis), tick), tick)
      return next._tag === "Fail" ? drop(request) : delayOf(next)
    },
    ended: (request, completed, now) => {
      const call = callOf(request)
      const tick = tickAt(now, null)
      if (completed) signalled(call, { _tag: "Served", millis: now - call.sentAt }, tick)
      else told(call, { _tag: "DeadlineHit" }, tick)
      drop(request)
    },
    endOf: (request) => RecoveryState.endOf(callOf(request).state) ?? Infinity,
    openBreakers: (route) => numberAt(open, route)
  }
}

const overloaded: Faulted = {
  _tag: "Faulted",
  kind: "overloaded",
  status: 529,
  code: null,
  hints: [],
  shouldRetry: null,
  ...nothingSeen,
  other: null
}

const faultOf = (status: RejectionStatus, hintMillis: number): Outcome => {
  switch (status) {
    case 529:
      return overloaded
    case 500:
      return { ...overloaded, kind: "server_error", status }
    case 429: {
      const hints = hintMillis < 0 ? [] : [{ _tag: "Delay", source: "retry-after", millis: hintMillis } as const]
      return { ...overloaded, kind: "rate_limited", status, hints }
    }
  }
}
