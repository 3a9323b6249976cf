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

export const makeRun = (options: FleetOptions): FleetRun => {
  const { scenario, arrivals } = options
  const { world } = scenario
  const { count } = arrivals
  const processes = Math.max(1, Math.ceil(options.clients / options.agentsPerProcess))
  const whoseTurn = makeRandom(options.seed + 101)
  const isRefused = makeRandom(options.seed + 303)
  const behaviour = options.behaviour(count, processes, makeRandom(options.seed + 202))
  const queue = new EventQueue()
  const seconds = Math.ceil((scenario.horizonMillis + limitMillis) / 1000) + 60
  const timeline = makeTimeline(seconds)
  const endings: Endings = {
    count,
    arrivedAt: arrivals.atMillis,
    endedAt: new Float64Array(count).fill(-1),
    succeeded: new Uint8Array(count),
    attempts: new Uint16Array(count),
    route: new Uint8Array(count),
    background: new Uint8Array(count)
  }
  const hints = new Float64Array(count)
  const inFlight = new Int32Array(2)
  const rejectionRate = new Float64Array(2)
  const rejectedAt = new Float64Array(2)
  const { limiter } = world
  let tokens = limiter === null ? 0 : limiter.burst
  let tokensAt = 0
  let arrived = 0
  let ended = 0
  let sampled = 0

  const second = (now: number): number => Math.min(seconds - 1, Math.floor(now / 1000))
  const add = (counts: Int32Array, now: number): void => {
    const at = second(now)
    counts[at] = numberAt(counts, at) + 1
  }
  const occupy = (route: number, change: number): void => {
    inFlight[route] = numberAt(inFlight, route) + change
  }
  const rejectionLoad = (route: number, now: number): number =>
    numberAt(rejectionRate, route) * Math.exp(-(now - numberAt(rejectedAt, route)) / rejectionWindow)

  const finish = (request: number, succeeded: boolean, now: number): void => {
    endings.endedAt[request] = now
    endings.succeeded[request] = succeeded ? 1 : 0
    ended++
    add(succeeded ? timeline.completed : timeline.failed, now)
  }

  /** Wait of a 429 in milliseconds, -1 = none is told; null = the limiter lets the call through. */
  const limit = (now: number): number | null => {
    if (limiter === null) return null
    tokens = Math.min(limiter.burst, tokens + ((now - tokensAt) / 1000) * limiter.perSecond)
    tokensAt = now
    let wait: number
    if (now >= limiter.blockedFrom && now < limiter.blockedTo) {
      tokens = 0
      wait = limiter.blockedTo - now
    } else if (tokens < 1) {
      wait = ((1 - tokens) / limiter.perSecond) * 1000
      tokens -= limiter.rejectedCost
    } else {
      tokens -= 1
      return null
    }
    return limiter.tellsWait ? Math.max(1, Math.ceil(wait / 1000)) * 1000 : -1
  }

  /** Whether the world refuses this attempt for no reason but its own. */
  const refuses = (request: number, now: number): boolean => {
    const { refusals } = world
    if (refusals === null || now < scenario.eventFrom || now >= scenario.eventTo) return false
    return (refusals.of === "any" || numberAt(endings.attempts, request) === 1) && isRefused() < refusals.share
  }

  const hasSlot = (route: number, now: number): boolean => {
    const slots = world.slots(route, now)
    const lost = (rejectionLoad(route, now) * scenario.rejectCost * options.meanServiceMillis) / 1000
    return numberAt(inFlight, route) + 1 <= Math.max(capacityFloor * slots, slots - lost)
  }

  const reject = (request: number, route: number, kind: number, now: number): void => {
    rejectionRate[route] = rejectionLoad(route, now) + 1
    rejectedAt[route] = now
    add(timeline.rejected, now)
    queue.push(now + rejectionMillis, kind, request)
  }

  const ask = (request: number, now: number): void => {
    const limitAt = numberAt(arrivals.atMillis, request) + limitMillis
    const answer = behaviour.ask(request, now)
    if (answer === giveUp) return finish(request, false, now)
    if (answer !== send) {
      if (answer < limitAt) return queue.push(answer, Asks, request)
      behaviour.ended(request, false, now)
      return finish(request, false, now)
    }
    attempt(request, Math.min(1, behaviour.routeOf(request)), now, limitAt)
  }

  const attempt = (request: number, route: number, now: number, limitAt: number): void => {
    endings.attempts[request] = numberAt(endings.attempts, request) + 1
    endings.route[request] = route
    add(timeline.sent, now)
    const wait = route === 0 ? limit(now) : null
    hints[request] = wait ?? -1
    if (wait !== null) return reject(request, route, Rejected429, now)
    if (world.refusals !== null && route === 0 && refuses(request, now)) {
      hints[request] = world.refusals.hintMillis
      return reject(request, route, world.refusals.status === 429 ? Rejected429 : Rejected500, now)
    }
    if (!hasSlot(route, now)) return reject(request, route, Rejected529, now)
    occupy(route, 1)
    behaviour.accepted(request, now)
    const endsAt = now + numberAt(arrivals.serviceMillis, request)
    const cutAt = Math.min(limitAt, behaviour.endOf(request))
    const killedAt = route === 0 && world.outageFrom !== null && world.outageFrom > now ? world.outageFrom : Infinity
    if (killedAt < endsAt && killedAt < cutAt) queue.push(killedAt, Killed, request)
    else if (cutAt < endsAt) queue.push(cutAt, CutOff, request)
    else queue.push(endsAt, Completes, request)
  }

  const fail = (request: number, status: RejectionStatus, hintMillis: number, now: number): void => {
    const wait = behaviour.failed(request, status, hintMillis, now)
    if (wait === giveUp) return finish(request, false, now)
    if (now + wait < numberAt(arrivals.atMillis, request) + limitMillis) return queue.push(now + wait, Asks, request)
    behaviour.ended(request, false, now)
    finish(request, false, now)
  }

  const handle = (kind: number, request: number, now: number): void => {
    const route = numberAt(endings.route, request)
    switch (kind) {
      case Asks:
        return ask(request, now)
      case Rejected529:
        return fail(request, 529, -1, now)
      case Rejected500:
        return fail(request, 500, -1, now)
      case Rejected429:
        return fail(request, 429, numberAt(hints, request), now)
      case Completes:
        occupy(route, -1)
        behaviour.ended(request, true, now)
        return finish(request, true, now)
      case Killed:
        occupy(route, -1)
        add(timeline.rejected, now)
        return fail(request, 529, -1, now)
      case CutOff:
        occupy(route, -1)
        behaviour.ended(request, false, now)
        return finish(request, false, now)
    }
  }

  /** Notes the breakers' state at every full second that has passed. */
  const sample = (now: number): void => {
    for (const upTo = second(now); sampled <= upTo; sampled++)
      timeline.openShare[sampled] = behaviour.openBreakers(0) / processes
  }

  return {
    advance: (events) => {
      for (let i = 0; i < events; i++) {
        const nextArrival = arrived < count ? numberAt(arrivals.atMillis, arrived) : Infinity
        const nextEvent = queue.nextAt
        if (nextArrival === Infinity && nextEvent === Infinity) return true
        sample(Math.min(nextArrival, nextEvent))
        if (nextArrival <= nextEvent) {
          const request = arrived++
          const client = Math.floor(whoseTurn() * options.clients)
          const isBackground = whoseTurn() < options.backgroundShare
          endings.background[request] = isBackground ? 1 : 0
          behaviour.arrive(request, Math.floor(client / options.agentsPerProcess), isBackground, nextArrival)
          ask(request, nextArrival)
        } else {
          queue.pop()
          handle(queue.kind, queue.subject, queue.atMillis)
        }
      }
      return arrived === count && queue.size === 0
    },
    progress: () => (count === 0 ? 1 : ended / count),
    result: () => ({ metrics: measure(scenario, timeline, endings), timeline })
  }
}
