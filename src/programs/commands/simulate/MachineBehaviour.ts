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
  withAnswer,
  withPlace,
  type Holds,
  type Leave
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
  /** How its attempt left. */
  leave: Leave
  /** Whether route health has heard of this attempt. */
  reported: boolean
}

export interface MachineOptions {
  readonly policy: RecoveryPolicy
  readonly requests: number
  readonly processes: number
  readonly random: Random
}

/** All calls and processes of a run. */
interface Fleet {
  readonly policy: RecoveryPolicy
  readonly background: RecoveryPolicy
  readonly random: Random
  readonly calls: Array<Call | undefined>
  /** What each process knows of each route: one flat table, a run touches it at random. */
  readonly healths: Array<RouteHealth | undefined>
  readonly routes: number
  /** Breakers that are open, by route. */
  readonly open: Int32Array
}

const fleetOf = ({ policy, processes, random, requests }: MachineOptions): Fleet => {
  const routes = policy.routes.length
  return {
    policy,
    background: policy.shedOnOverload ? policy : forBackground(policy),
    random,
    calls: new Array<Call | undefined>(requests),
    healths: new Array<RouteHealth | undefined>(processes * routes),
    routes,
    open: new Int32Array(routes)
  }
}

const tickAt = ({ random }: Fleet, now: number, backoffMillis: number | null): Tick => ({
  now,
  wall: now,
  backoffMillis,
  spread: random(),
  progressMillis: 0
})

/** The policy's backoff, as the layer that turns it into a schedule steps it: exponential, capped, then jittered. */
const backoffAt = ({ random }: Fleet, { backoff }: RecoveryPolicy, step: number): number =>
  Math.min(backoff.cap, backoff.base * backoff.factor ** step) * (1 + backoff.jitter * random())

const callOf = ({ calls }: Fleet, request: number): Call => {
  const call = calls[request]
  if (call === undefined) throw new RangeError(`request ${request} is not under way`)
  return call
}

const drop = ({ calls }: Fleet, request: number): number => {
  calls[request] = undefined
  return giveUp
}

/** What a process knows of its routes; nothing before it has asked once. */
const healthsOf = (
  { healths, routes }: Fleet,
  config: RouteHealthConfig,
  process: number,
  now: number
): ReadonlyArray<RouteHealth> =>
  Array.from({ length: routes }, (_, route) => healths[process * routes + route] ?? initial(config, now))

const remember = (
  { healths, open, routes }: Fleet,
  process: number,
  before: ReadonlyArray<RouteHealth>,
  after: ReadonlyArray<RouteHealth>
): void => {
  if (before === after) return
  for (const [route, health] of after.entries()) {
    const was = before[route]
    if (was === health) continue
    healths[process * routes + route] = health
    if (was?.breaker !== health.breaker)
      open[route] = numberAt(open, route) + Number(health.breaker === "open") - Number(was?.breaker === "open")
  }
}

const admitted = (fleet: Fleet, config: RouteHealthConfig, call: Call, tick: Tick): Admission => {
  const before = healthsOf(fleet, config, call.process, tick.now)
  const next = admit(config, before, askerOf(call.policy, call.state, call.holds), tick)
  remember(fleet, call.process, before, next.healths)
  return next.admission
}

const signalled = (fleet: Fleet, call: Call, signal: Signal, tick: Tick): number | null => {
  const config = call.policy.routeHealth
  if (config === null) return null
  const reporter = { own: call.state.route, priority: call.state.background ? "background" : "foreground" } as const
  const before = healthsOf(fleet, config, call.process, tick.now)
  const next = report(config, before, reporter, signal, tick)
  remember(fleet, call.process, before, next.healths)
  return next.wayOut
}

/** Tells route health of an attempt; the outcome with its answer. */
const told = (fleet: Fleet, call: Call, outcome: Outcome, tick: Tick): Outcome => {
  const config = call.policy.routeHealth
  if (config === null) return outcome
  const signal = signalOf(config, call.policy, outcome, call.leave, tick, call.holds)
  // An attempt that is accepted early and completes later is one accepted call.
  if (signal === null || (signal._tag === "Accepted" && call.reported)) return outcome
  call.reported = true
  const { leave } = call
  call.leave = { ...leave, ticket: null }
  return withAnswer(outcome, signalled(fleet, call, signal, tick), leave.isPaced)
}

/** One step of the machine. */
const stepped = (call: Call, outcome: Outcome, tick: Tick): RecoveryAction => {
  const next = transition(call.policy, call.state, outcome, tick)
  call.holds = afterOutcome(call.holds, call.state.route, outcome)
  call.state = next.state
  return next.action
}

const arrived = (own: RecoveryPolicy, process: number, now: number): Call => ({
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
  leave: { ticket: null, place: 0, since: now, isPaced: false },
  reported: true
})

/** Before an attempt: see `Behaviour.ask`. */
const ask = (fleet: Fleet, request: number, now: number): number => {
  const call = callOf(fleet, request)
  const config = call.policy.routeHealth
  if (config === null) return send
  const tick = tickAt(fleet, now, null)
  const admission = admitted(fleet, config, call, tick)
  const held = heldBy(admission, now)
  const next = held === null ? null : stepped(call, held, tick)
  call.holds = withPlace(call.holds, admission)
  if (admission._tag !== "Go") return next === null || next._tag === "Fail" ? drop(fleet, request) : now + delayOf(next)
  const { ticket, place, isPaced } = admission
  call.leave = { ticket, place, since: now, isPaced }
  call.reported = false
  return send
}

const failed = (fleet: Fleet, request: number, outcome: Outcome, now: number): number => {
  const call = callOf(fleet, request)
  const tick = tickAt(fleet, now, backoffAt(fleet, call.policy, call.state.transients))
  const next = stepped(call, told(fleet, call, outcome, tick), tick)
  return next._tag === "Fail" ? drop(fleet, request) : delayOf(next)
}

const ended = (fleet: Fleet, request: number, completed: boolean, now: number): void => {
  const call = callOf(fleet, request)
  const tick = tickAt(fleet, now, null)
  if (completed) signalled(fleet, call, { _tag: "Served", millis: now - call.leave.since }, tick)
  else told(fleet, call, { _tag: "DeadlineHit" }, tick)
  drop(fleet, request)
}

export const machineBehaviour = (options: MachineOptions): Behaviour => {
  const fleet = fleetOf(options)
  return {
    arrive: (request, process, isBackground, now) => {
      fleet.calls[request] = arrived(isBackground ? fleet.background : fleet.policy, process, now)
    },
    ask: (request, now) => ask(fleet, request, now),
    routeOf: (request) => callOf(fleet, request).state.route,
    accepted: (request, now) => {
      told(fleet, callOf(fleet, request), { _tag: "Completed" }, tickAt(fleet, now, null))
    },
    failed: (request, status, hintMillis, now) => failed(fleet, request, faultOf(status, hintMillis), now),
    ended: (request, completed, now) => ended(fleet, request, completed, now),
    endOf: (request) => RecoveryState.endOf(callOf(fleet, request).state) ?? Infinity,
    openBreakers: (route) => numberAt(fleet.open, route)
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
