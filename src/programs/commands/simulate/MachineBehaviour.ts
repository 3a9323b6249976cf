/**
 * Clients that run the library's own decisions: `transition`, `admit` and `observe`. This file keeps their states and
 * plays the interpreter's part in virtual time; it decides nothing.
 */
import { nothingSeen, type Faulted, type Outcome } from "../../../domain/recovery/Outcome.ts"
import { delayOf, type RecoveryAction } from "../../../domain/recovery/RecoveryAction.ts"
import { transition } from "../../../domain/recovery/RecoveryMachine.ts"
import { forBackground, type RecoveryPolicy } from "../../../domain/recovery/RecoveryPolicy.ts"
import * as RecoveryState from "../../../domain/recovery/RecoveryState.ts"
import {
  afterOutcome,
  askDoors,
  askToLeave,
  firstVisit,
  signalOf,
  type Knock,
  type Visit
} from "../../../domain/route/RouteChoice.ts"
import { type RouteHealthConfig } from "../../../domain/recovery/RouteHealthConfig.ts"
import {
  admit,
  initial,
  observe,
  type Admission,
  type Asker,
  type RouteHealth
} from "../../../domain/route/RouteHealth.ts"
import type { Tick } from "../../../domain/recovery/Tick.ts"
import { giveUp, send, type Behaviour, type RejectionStatus } from "./Behaviour.ts"
import { numberAt } from "../numberAt.ts"
import type { Random } from "./Random.ts"

/** One logical request under way. */
interface Call {
  readonly process: number
  readonly policy: RecoveryPolicy
  state: RecoveryState.RecoveryState
  visit: Visit
  /** Number of the probe that is out for this request; null = none. */
  ticket: number | null
  /** Whether route health has heard of this attempt. */
  reported: boolean
}

/** Most zero-length waits in a row at the doors: a request visits each route once or twice. */
const maxVisits = 8

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

  /** What a process knows of a route; nothing before it has asked once. One flat table: a run touches it at random. */
  const healthOf = (config: RouteHealthConfig, process: number, route: number, now: number): RouteHealth =>
    healths[process * width + route] ?? initial(config, now)

  const remember = (process: number, route: number, before: RouteHealth, after: RouteHealth): void => {
    if (before === after) return
    healths[process * width + route] = after
    if (before.breaker !== after.breaker)
      open[route] = numberAt(open, route) + Number(after.breaker === "open") - Number(before.breaker === "open")
  }

  const knock = (config: RouteHealthConfig, call: Call, route: number, tick: Tick, asker: Asker): Admission => {
    const health = healthOf(config, call.process, route, tick.now)
    const next = admit(config, health, tick, asker)
    remember(call.process, route, health, next.health)
    return next.admission
  }

  /** Drives the questions of a request at the doors to their answer. */
  const drive = <A>(
    config: RouteHealthConfig,
    call: Call,
    tick: Tick,
    questions: Generator<Knock, A, Admission>
  ): A => {
    let step = questions.next()
    while (step.done !== true) step = questions.next(knock(config, call, step.value.route, tick, step.value.asker))
    return step.value
  }

  const tell = (call: Call, route: number, outcome: Outcome, tick: Tick): void => {
    const config = call.policy.routeHealth
    if (config === null) return
    const signal = signalOf(config, call.policy, outcome, call.ticket, tick.wall)
    // An attempt that is accepted early and completes later is one accepted call.
    if (signal === null || (signal._tag === "Accepted" && call.reported)) return
    const health = healthOf(config, call.process, route, tick.now)
    remember(call.process, route, health, observe(config, health, signal, tick))
    call.reported = true
    call.ticket = null
  }

  /** One step of the machine. */
  const step = (call: Call, outcome: Outcome, tick: Tick): RecoveryAction => {
    const next = transition(call.policy, call.state, outcome, tick)
    call.visit = afterOutcome(call.visit, call.state.route, outcome)
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
        visit: firstVisit,
        ticket: null,
        reported: true
      }
    },
    ask: (request, now) => {
      const call = callOf(request)
      const config = call.policy.routeHealth
      if (config === null) return send
      for (let visit = 0; visit < maxVisits; visit++) {
        const tick = tickAt(now, null)
        const { policy: own, state, visit: soFar } = call
        const answer = drive(config, call, tick, askDoors(own, state, soFar, RecoveryState.endOf(state), now))
        if (answer._tag === "Through") {
          call.ticket = answer.ticket
          call.reported = false
          return send
        }
        const next = step(call, answer.outcome, tick)
        if (next._tag === "Fail") return drop(request)
        const delay = delayOf(next)
        if (delay > 0) return now + delay
      }
      return drop(request)
    },
    routeOf: (request) => callOf(request).state.route,
    accepted: (request, now) => {
      const call = callOf(request)
      tell(call, call.state.route, { _tag: "Completed" }, tickAt(now, null))
    },
    failed: (request, status, hintMillis, now) => {
      const call = callOf(request)
      const outcome = faultOf(status, hintMillis)
      const tick = tickAt(now, backoffAt(call.policy, call.state.transients))
      const { route } = call.state
      const next = step(call, outcome, tick)
      tell(call, route, outcome, tick)
      if (next._tag === "Fail") return drop(request)
      const config = call.policy.routeHealth
      if (config === null || next._tag !== "Retry") return delayOf(next)
      const look = tickAt(now, null)
      const leaves = drive(config, call, look, askToLeave(call.policy, call.state, call.visit, now))
      if (leaves === null) return delayOf(next)
      const away = step(call, leaves, look)
      return away._tag === "Fail" ? drop(request) : delayOf(away)
    },
    ended: (request, completed, now) => {
      const call = callOf(request)
      const outcome: Outcome = completed ? { _tag: "Completed" } : { _tag: "DeadlineHit" }
      tell(call, call.state.route, outcome, tickAt(now, null))
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
  ...nothingSeen
}

const faultOf = (status: RejectionStatus, hintMillis: number): Outcome =>
  status === 529
    ? overloaded
    : {
        ...overloaded,
        kind: "rate_limited",
        status: 429,
        hints: hintMillis < 0 ? [] : [{ _tag: "Delay", source: "retry-after", millis: hintMillis }]
      }
