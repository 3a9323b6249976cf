/**
 * One logical request on its way: what stays the same from its first step to its last, and where it stands. The steps
 * are functions of both; what they learn travels on as a value.
 */
import type * as Clock from "effect/Clock"
import type * as Effect from "effect/Effect"
import type * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { Role } from "../../domain/chat/ModelRequest.ts"
import type { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import type { ModelError } from "../../domain/failure/ModelError.ts"
import { readable, type TrailEntry } from "../../domain/failure/Trail.ts"
import type { AttemptPlan } from "../../domain/recovery/AttemptPlan.ts"
import type { Outcome } from "../../domain/recovery/Outcome.ts"
import type { Happening, RecoveryEvent } from "../../domain/recovery/RecoveryEvent.ts"
import {
  isSameRoute,
  routeAt,
  type RecoveryPolicy,
  type Route,
  type RouteName
} from "../../domain/recovery/RecoveryPolicy.ts"
import { endOf, initial, type RecoveryState } from "../../domain/recovery/RecoveryState.ts"
import type { Tick } from "../../domain/recovery/Tick.ts"
import type { RequestKeeper } from "../../services/RequestKeep.ts"
import { usedBy, type TurnState } from "../../services/Turn.ts"
import type { AttemptDriver } from "./AttemptDriver.ts"
import type { Limits, Pulse } from "./attemptWatch.ts"
import { makeBackoff, type Backoff } from "./backoff.ts"
import type { Books, Ledger } from "./receipt.ts"
import type { RouteAdmission } from "./routeAdmission.ts"

export interface RecoverOptions {
  readonly policy: RecoveryPolicy
  readonly requestId: string
  readonly role: Role
  /** Never fails; null = nobody listens and no event is built. */
  readonly emit: ((event: RecoveryEvent) => Effect.Effect<void>) | null
  readonly ledger: Ledger | null
  /** null = route health is off. */
  readonly health: RouteAdmission | null
  readonly turn: TurnState
  readonly callerCap: number | null
  /** Name of the provider of a route, for whoever traces; null = unknown. */
  readonly providerOf: (route: Route) => string | null
  /** The answer has a fixed form (JSON, a grammar). */
  readonly structured: boolean
  /** Keeps where the request stands when it is in trouble. Default: nobody. */
  readonly keep?: RequestKeeper | null
}

/** Tells what happens, with its instant. Never fails; null = nobody listens and no event is built. */
export type Tell = ((event: Happening) => Effect.Effect<void>) | null

const tellingTo = (emit: RecoverOptions["emit"], clock: Clock.Clock, now: () => number, startedAt: number): Tell =>
  emit === null
    ? null
    : (event) => emit({ ...event, epochMs: clock.currentTimeMillisUnsafe(), elapsedMs: now() - startedAt })

/** What never changes. The trail grows, written by receipts and by the wait behind an attempt, and by nothing else. */
export interface Run {
  readonly options: Omit<RecoverOptions, "emit"> & { readonly emit: Tell }
  readonly driver: AttemptDriver
  readonly clock: Clock.Clock
  readonly random: (typeof Random.Random)["Service"]
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly startedAt: number
  readonly trail: Array<TrailEntry>
  readonly books: Books
  readonly backoff: Backoff
  /** When the last sign of life was given: attempts and waits keep one rhythm. */
  readonly pulse: Pulse
  /** For whoever looks from outside: no step reads it. */
  readonly here: { at: Position }
}

/** Nothing came for so long until an attempt was ended, and the field of the policy that bounds it. */
export const Silence = Schema.Struct({
  millis: Schema.Finite,
  field: Schema.Literals(["attemptTimeout", "firstTokenTimeout", "idleTimeout"])
})
export type Silence = typeof Silence.Type

/** What the request has met so far, for the reply's warnings and for the error at the end. */
export interface Met {
  readonly first: ModelError | null
  readonly last: ModelError | null
  readonly refused: BudgetExceeded | null
  readonly lastOutcome: string
  /** How long the provider was silent when attempts were ended for it, and what the last of these was; null = never. */
  readonly silence: Silence | null
  readonly warnings: ReadonlyArray<string>
}

/** Where the request stands. */
export interface Position {
  readonly state: RecoveryState
  /** Of the last request that was sent; null = none was. */
  readonly plan: AttemptPlan | null
  readonly met: Met
}

/** What came of an attempt, a hold by route health or a compaction. */
export interface Seen {
  readonly outcome: Outcome
  /** A whole reply, when there is one. */
  readonly reply: ModelReply | null
  /** null = no attempt was sent. */
  readonly plan: AttemptPlan | null
  readonly error: ModelError | BudgetExceeded | null
  /** How far a stream's progress has moved the deadline on. */
  readonly movedMillis: number
  /** null = the attempt was not ended by a timer. */
  readonly silence: Silence | null
}

/** What was seen without a request of the main conversation. */
export const seenOnly = (outcome: Outcome, error: Seen["error"] = null): Seen => ({
  outcome,
  reply: null,
  plan: null,
  error,
  movedMillis: 0,
  silence: null
})

export const timeIsUp: Seen = seenOnly({ _tag: "DeadlineHit" })

const nothingMet: Met = { first: null, last: null, refused: null, lastOutcome: "none", silence: null, warnings: [] }

const indexOf = (policy: RecoveryPolicy, name: RouteName | null): number =>
  name === null
    ? 0
    : Math.max(
        0,
        policy.routes.findIndex((route) => isSameRoute(route, name))
      )

/** What a request has had of its time in processes before this one, and between them. */
const elapsedBefore = ({ keep = null }: RecoverOptions, clock: Clock.Clock): number =>
  keep === null || keep.begunAt === null ? 0 : Math.max(0, clock.currentTimeMillisUnsafe() - keep.begunAt)

const firstState = (
  options: RecoverOptions,
  driver: AttemptDriver,
  startedAt: number,
  elapsed: number
): RecoveryState => {
  const { policy, turn } = options
  const spent = Math.max(elapsed, policy.deadlinePer === "turn" ? usedBy(turn, startedAt) : 0)
  return initial(policy, {
    now: startedAt - elapsed,
    deadline: policy.deadline === null ? null : startedAt + policy.deadline - spent,
    route: indexOf(policy, turn.route),
    gone: [...policy.routes.keys()].filter((at) => turn.gone.some((name) => isSameRoute(routeAt(policy, at), name))),
    callerCap: options.callerCap,
    structured: options.structured,
    streaming: driver.streaming,
    background: options.role === "background" || policy.shedOnOverload
  })
}

export const makeRun = (
  options: RecoverOptions,
  driver: AttemptDriver,
  clock: Clock.Clock,
  random: (typeof Random.Random)["Service"]
): Run => {
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const startedAt = now()
  const { ledger, requestId } = options
  const emit = tellingTo(options.emit, clock, now, startedAt)
  const trail: Array<TrailEntry> = []
  return {
    options: { ...options, emit },
    driver,
    clock,
    random,
    now,
    startedAt,
    trail,
    books: { ledger, emit, requestId, startedAt, now, enter: (entry) => trail.push(readable(entry)) },
    backoff: makeBackoff(options.policy),
    pulse: { lastAt: startedAt },
    here: {
      at: { state: firstState(options, driver, startedAt, elapsedBefore(options, clock)), plan: null, met: nothingMet }
    }
  }
}

export const limitsOf = (run: Run, state: RecoveryState): Limits => ({
  policy: run.options.policy,
  streaming: run.driver.streaming,
  deadline: state.deadline,
  hardCap: state.hardCap
})

/** Whether the time of the request is over. */
export const isOver = (run: Run, state: RecoveryState): boolean => {
  const end = endOf(state)
  return end !== null && run.now() >= end
}

/** Time and chance at this instant. The only place that reads them for the machine. */
export const readTick = (run: Run, backoffMillis: number | null = null, movedMillis = 0): Tick => ({
  now: run.now(),
  wall: run.clock.currentTimeMillisUnsafe(),
  backoffMillis,
  spread: run.random.nextDoubleUnsafe(),
  progressMillis: movedMillis
})
