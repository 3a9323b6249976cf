/**
 * One run of many clients against one simulated provider, in virtual time. Deterministic: same arguments, same result.
 * A run is advanced in slices, so that a caller can show progress or give up in between.
 */
import type { Arrivals } from "./Arrivals.ts"
import { giveUp, send, type Behaviour, type RejectionStatus } from "./Behaviour.ts"
import { EventQueue } from "./EventQueue.ts"
import { limitMillis, makeTimeline, measure, type Endings, type FleetMetrics, type Timeline } from "./FleetMetrics.ts"
import { numberAt } from "../numberAt.ts"
import { makeRandom, type Random } from "./Random.ts"
import type { Scenario } from "./World.ts"

export interface FleetOptions {
  readonly scenario: Scenario
  readonly arrivals: Arrivals
  readonly meanServiceMillis: number
  readonly clients: number
  readonly agentsPerProcess: number
  /** Share of the requests that are background ones. */
  readonly backgroundShare: number
  readonly seed: number
  readonly behaviour: (requests: number, processes: number, random: Random) => Behaviour
}

export interface FleetResult {
  readonly metrics: FleetMetrics
  readonly timeline: Timeline
}

export interface FleetRun {
  /** Handles at most so many events; true = the run has ended. */
  readonly advance: (events: number) => boolean
  /** 0..1 */
  readonly progress: () => number
  readonly result: () => FleetResult
}

/** Kinds of events. A rejected call ends with its own status. */
const Asks = 0
const Rejected529 = 1
const Rejected429 = 2
const Completes = 3
const Killed = 4
const CutOff = 5
const Rejected500 = 6

/** Round trip of a rejection. */
const rejectionMillis = 200
/** Time constant of the load that rejections put on the provider. */
const rejectionWindow = 1_000
/** Capacity that no rejections can take away. */
const capacityFloor = 0.25

/** One run under way. Counts stand in flat tables by request, by route or by second: a run has millions of events. */
interface Fleet {
  readonly options: FleetOptions
  readonly processes: number
  readonly behaviour: Behaviour
  readonly whoseTurn: Random
  readonly isRefused: Random
  readonly queue: EventQueue
  readonly timeline: Timeline
  readonly endings: Endings
  /** What the last rejection of a request told it to wait. */
  readonly hints: Float64Array
  readonly inFlight: Int32Array
  readonly rejectionRate: Float64Array
  readonly rejectedAt: Float64Array
  /** Calls that the limiter lets through now, and since when that is known. */
  tokens: number
  tokensAt: number
  arrived: number
  ended: number
  /** Seconds that are noted. */
  sampled: number
}

const fleetOf = (options: FleetOptions): Fleet => {
  const { scenario, arrivals, seed } = options
  const { count } = arrivals
  const processes = Math.max(1, Math.ceil(options.clients / options.agentsPerProcess))
  return {
    options,
    processes,
    whoseTurn: makeRandom(seed + 101),
    isRefused: makeRandom(seed + 303),
    behaviour: options.behaviour(count, processes, makeRandom(seed + 202)),
    queue: new EventQueue(),
    timeline: makeTimeline(Math.ceil((scenario.horizonMillis + limitMillis) / 1000) + 60),
    endings: {
      count,
      arrivedAt: arrivals.atMillis,
      endedAt: new Float64Array(count).fill(-1),
      succeeded: new Uint8Array(count),
      attempts: new Uint16Array(count),
      route: new Uint8Array(count),
      background: new Uint8Array(count)
    },
    hints: new Float64Array(count),
    inFlight: new Int32Array(2),
    rejectionRate: new Float64Array(2),
    rejectedAt: new Float64Array(2),
    tokens: scenario.world.limiter === null ? 0 : scenario.world.limiter.burst,
    tokensAt: 0,
    arrived: 0,
    ended: 0,
    sampled: 0
  }
}

const secondOf = ({ sent }: Timeline, now: number): number => Math.min(sent.length - 1, Math.floor(now / 1000))

const add = ({ timeline }: Fleet, counts: Int32Array, now: number): void => {
  const at = secondOf(timeline, now)
  counts[at] = numberAt(counts, at) + 1
}

const occupy = ({ inFlight }: Fleet, route: number, change: number): void => {
  inFlight[route] = numberAt(inFlight, route) + change
}

const limitAtOf = ({ options }: Fleet, request: number): number =>
  numberAt(options.arrivals.atMillis, request) + limitMillis

const finish = (fleet: Fleet, request: number, succeeded: boolean, now: number): void => {
  fleet.endings.endedAt[request] = now
  fleet.endings.succeeded[request] = succeeded ? 1 : 0
  fleet.ended++
  add(fleet, succeeded ? fleet.timeline.completed : fleet.timeline.failed, now)
}

/** Wait of a 429 in milliseconds, -1 = none is told; null = the limiter lets the call through. */
const limit = (fleet: Fleet, now: number): number | null => {
  const { limiter } = fleet.options.scenario.world
  if (limiter === null) return null
  fleet.tokens = Math.min(limiter.burst, fleet.tokens + ((now - fleet.tokensAt) / 1000) * limiter.perSecond)
  fleet.tokensAt = now
  let wait: number
  if (now >= limiter.blockedFrom && now < limiter.blockedTo) {
    fleet.tokens = 0
    wait = limiter.blockedTo - now
  } else if (fleet.tokens < 1) {
    wait = ((1 - fleet.tokens) / limiter.perSecond) * 1000
    fleet.tokens -= limiter.rejectedCost
  } else {
    fleet.tokens -= 1
    return null
  }
  return limiter.tellsWait ? Math.max(1, Math.ceil(wait / 1000)) * 1000 : -1
}

/** Whether the world refuses this attempt for no reason but its own. */
const refuses = ({ options, endings, isRefused }: Fleet, request: number, now: number): boolean => {
  const { eventFrom, eventTo, world } = options.scenario
  const { refusals } = world
  if (refusals === null || now < eventFrom || now >= eventTo) return false
  return (refusals.of === "any" || numberAt(endings.attempts, request) === 1) && isRefused() < refusals.share
}

const rejectionLoad = ({ rejectionRate, rejectedAt }: Fleet, route: number, now: number): number =>
  numberAt(rejectionRate, route) * Math.exp(-(now - numberAt(rejectedAt, route)) / rejectionWindow)

const hasSlot = (fleet: Fleet, route: number, now: number): boolean => {
  const { meanServiceMillis, scenario } = fleet.options
  const slots = scenario.world.slots(route, now)
  const lost = (rejectionLoad(fleet, route, now) * scenario.rejectCost * meanServiceMillis) / 1000
  return numberAt(fleet.inFlight, route) + 1 <= Math.max(capacityFloor * slots, slots - lost)
}

const reject = (fleet: Fleet, request: number, route: number, kind: number, now: number): void => {
  fleet.rejectionRate[route] = rejectionLoad(fleet, route, now) + 1
  fleet.rejectedAt[route] = now
  add(fleet, fleet.timeline.rejected, now)
  fleet.queue.push(now + rejectionMillis, kind, request)
}

const ask = (fleet: Fleet, request: number, now: number): void => {
  const { behaviour } = fleet
  const answer = behaviour.ask(request, now)
  if (answer === giveUp) return finish(fleet, request, false, now)
  if (answer !== send) {
    if (answer < limitAtOf(fleet, request)) return fleet.queue.push(answer, Asks, request)
    behaviour.ended(request, false, now)
    return finish(fleet, request, false, now)
  }
  attempt(fleet, request, Math.min(1, behaviour.routeOf(request)), now)
}

const attempt = (fleet: Fleet, request: number, route: number, now: number): void => {
  const { endings, hints } = fleet
  const { refusals } = fleet.options.scenario.world
  endings.attempts[request] = numberAt(endings.attempts, request) + 1
  endings.route[request] = route
  add(fleet, fleet.timeline.sent, now)
  const wait = route === 0 ? limit(fleet, now) : null
  hints[request] = wait ?? -1
  if (wait !== null) return reject(fleet, request, route, Rejected429, now)
  if (refusals !== null && route === 0 && refuses(fleet, request, now)) {
    hints[request] = refusals.hintMillis
    return reject(fleet, request, route, refusals.status === 429 ? Rejected429 : Rejected500, now)
  }
  if (!hasSlot(fleet, route, now)) return reject(fleet, request, route, Rejected529, now)
  serve(fleet, request, route, now)
}

/** The provider takes the call: it is done, killed by the outage or cut off by its own time, whichever comes first. */
const serve = (fleet: Fleet, request: number, route: number, now: number): void => {
  const { behaviour, queue } = fleet
  const { arrivals, scenario } = fleet.options
  const { outageFrom } = scenario.world
  occupy(fleet, route, 1)
  behaviour.accepted(request, now)
  const endsAt = now + numberAt(arrivals.serviceMillis, request)
  const cutAt = Math.min(limitAtOf(fleet, request), behaviour.endOf(request))
  const killedAt = route === 0 && outageFrom !== null && outageFrom > now ? outageFrom : Infinity
  if (killedAt < endsAt && killedAt < cutAt) queue.push(killedAt, Killed, request)
  else if (cutAt < endsAt) queue.push(cutAt, CutOff, request)
  else queue.push(endsAt, Completes, request)
}

const fail = (fleet: Fleet, request: number, status: RejectionStatus, hintMillis: number, now: number): void => {
  const wait = fleet.behaviour.failed(request, status, hintMillis, now)
  if (wait === giveUp) return finish(fleet, request, false, now)
  if (now + wait < limitAtOf(fleet, request)) return fleet.queue.push(now + wait, Asks, request)
  fleet.behaviour.ended(request, false, now)
  finish(fleet, request, false, now)
}

const handle = (fleet: Fleet, kind: number, request: number, now: number): void => {
  const route = numberAt(fleet.endings.route, request)
  switch (kind) {
    case Asks:
      return ask(fleet, request, now)
    case Rejected529:
      return fail(fleet, request, 529, -1, now)
    case Rejected500:
      return fail(fleet, request, 500, -1, now)
    case Rejected429:
      return fail(fleet, request, 429, numberAt(fleet.hints, request), now)
    case Completes:
      occupy(fleet, route, -1)
      fleet.behaviour.ended(request, true, now)
      return finish(fleet, request, true, now)
    case Killed:
      occupy(fleet, route, -1)
      add(fleet, fleet.timeline.rejected, now)
      return fail(fleet, request, 529, -1, now)
    case CutOff:
      occupy(fleet, route, -1)
      fleet.behaviour.ended(request, false, now)
      return finish(fleet, request, false, now)
  }
}

const arrive = (fleet: Fleet, now: number): void => {
  const { behaviour, endings, whoseTurn } = fleet
  const { agentsPerProcess, backgroundShare, clients } = fleet.options
  const request = fleet.arrived++
  const client = Math.floor(whoseTurn() * clients)
  const isBackground = whoseTurn() < backgroundShare
  endings.background[request] = isBackground ? 1 : 0
  behaviour.arrive(request, Math.floor(client / agentsPerProcess), isBackground, now)
  ask(fleet, request, now)
}

/** Notes the breakers' state at every full second that has passed. */
const sample = (fleet: Fleet, now: number): void => {
  for (const upTo = secondOf(fleet.timeline, now); fleet.sampled <= upTo; fleet.sampled++)
    fleet.timeline.openShare[fleet.sampled] = fleet.behaviour.openBreakers(0) / fleet.processes
}

const advance = (fleet: Fleet, events: number): boolean => {
  const { queue } = fleet
  const { atMillis, count } = fleet.options.arrivals
  for (let i = 0; i < events; i++) {
    const nextArrival = fleet.arrived < count ? numberAt(atMillis, fleet.arrived) : Infinity
    const nextEvent = queue.nextAt
    if (nextArrival === Infinity && nextEvent === Infinity) return true
    sample(fleet, Math.min(nextArrival, nextEvent))
    if (nextArrival <= nextEvent) arrive(fleet, nextArrival)
    else {
      queue.pop()
      handle(fleet, queue.kind, queue.subject, queue.atMillis)
    }
  }
  return fleet.arrived === count && queue.size === 0
}

export const makeRun = (options: FleetOptions): FleetRun => {
  const fleet = fleetOf(options)
  const { endings, timeline } = fleet
  return {
    advance: (events) => advance(fleet, events),
    progress: () => (endings.count === 0 ? 1 : fleet.ended / endings.count),
    result: () => ({ metrics: measure(options.scenario, timeline, endings), timeline })
  }
}
