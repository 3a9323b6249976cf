/**
 * The best that could be done: one central queue that knows the provider's capacity and limits and sends every request
 * exactly once, when it is sure to be served.
 */
import type { Arrivals } from "./Arrivals.ts"
import { EventQueue } from "./EventQueue.ts"
import { limitMillis, makeTimeline, measure, type Endings } from "./FleetMetrics.ts"
import type { FleetResult } from "./FleetRun.ts"
import { numberAt } from "../numberAt.ts"
import type { Scenario } from "./World.ts"

/** How often a waiting queue looks for a free place when nothing ends. */
const lookEvery = 50

export const oracle = (scenario: Scenario, arrivals: Arrivals): FleetResult => {
  const { world } = scenario
  const { count } = arrivals
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
  const queue = new EventQueue()
  const inFlight = new Int32Array(2)
  const { limiter } = world
  let tokens = limiter === null ? 0 : limiter.burst
  let tokensAt = 0
  let arrived = 0
  let head = 0
  let lookAt = 0

  const add = (counts: Int32Array, now: number): void => {
    const at = Math.min(seconds - 1, Math.floor(now / 1000))
    counts[at] = numberAt(counts, at) + 1
  }
  const hasToken = (now: number): boolean => {
    if (limiter === null) return true
    tokens = Math.min(limiter.burst, tokens + ((now - tokensAt) / 1000) * limiter.perSecond)
    tokensAt = now
    if (now >= limiter.blockedFrom && now < limiter.blockedTo) tokens = 0
    return tokens >= 1
  }
  const hasSlot = (route: number, now: number): boolean => numberAt(inFlight, route) + 1 <= world.slots(route, now)
  const routeFor = (takes: number, now: number): number | null => {
    const isSafe = world.outageFrom === null || world.outageFrom <= now || world.outageFrom > now + takes
    if (hasSlot(0, now) && hasToken(now) && isSafe) return 0
    return hasSlot(1, now) ? 1 : null
  }
  const pump = (now: number): void => {
    while (head < arrived) {
      const takes = numberAt(arrivals.serviceMillis, head)
      if (now + takes - numberAt(arrivals.atMillis, head) >= limitMillis) {
        endings.endedAt[head++] = now
        continue
      }
      const route = routeFor(takes, now)
      if (route === null) return
      if (limiter !== null && route === 0) tokens -= 1
      inFlight[route] = numberAt(inFlight, route) + 1
      endings.route[head] = route
      endings.attempts[head] = 1
      add(timeline.sent, now)
      queue.push(now + takes, 0, head++)
    }
  }
  while (true) {
    const nextArrival = arrived < count ? numberAt(arrivals.atMillis, arrived) : Infinity
    const now = Math.min(nextArrival, queue.nextAt, head < arrived ? lookAt : Infinity)
    if (now === Infinity) break
    if (now === nextArrival) {
      arrived++
      lookAt = Math.max(lookAt, now + lookEvery)
    } else if (now === queue.nextAt) {
      queue.pop()
      const request = queue.subject
      const route = numberAt(endings.route, request)
      inFlight[route] = numberAt(inFlight, route) - 1
      endings.endedAt[request] = now
      endings.succeeded[request] = 1
      add(timeline.completed, now)
    } else lookAt = now + lookEvery
    pump(now)
  }
  return { metrics: measure(scenario, timeline, endings), timeline }
}
