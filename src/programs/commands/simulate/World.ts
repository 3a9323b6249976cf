/** The worlds: what a provider can carry over time, and the event that disturbs it. Milliseconds. */
import type { Boost, Burst } from "./Arrivals.ts"

export const scenarioNames = [
  "steady",
  "brownout",
  "brownout-nofb",
  "outage20",
  "outage120",
  "outage120-nofb",
  "perm-overload",
  "flash5",
  "herd",
  "herd-counted",
  "herd-nora",
  "metastable",
  "refusals",
  "first500",
  "first429",
  "limiter"
] as const
export type ScenarioName = (typeof scenarioNames)[number]

/** One bucket for the whole fleet; the event blocks it. */
export interface Limiter {
  readonly perSecond: number
  readonly burst: number
  readonly blockedFrom: number
  readonly blockedTo: number
  /** Whether a 429 says when to come back (whole seconds, at least 1). */
  readonly tellsWait: boolean
  /** Share of a token that a rejected call costs. */
  readonly rejectedCost: number
}

/** Ordinary trouble: what a provider refuses without being short of anything, while the event lasts. */
export interface Refusals {
  readonly status: 429 | 500
  /** Only the first attempt of a request, or any. */
  readonly of: "first" | "any"
  readonly share: number
  /** Wait that a refusal asks for; -1 = none is told. */
  readonly hintMillis: number
}

export interface World {
  /** Slots of the primary (route 0) and of the fallback (route 1) at an instant. */
  readonly slots: (route: number, now: number) => number
  /** Instant at which the primary goes down and kills what it was working on; null = never. */
  readonly outageFrom: number | null
  readonly limiter: Limiter | null
  readonly refusals: Refusals | null
}

export interface Scenario {
  readonly name: ScenarioName
  readonly horizonMillis: number
  readonly eventFrom: number
  readonly eventTo: number
  readonly world: World
  readonly boost: Boost | null
  readonly burst: Burst | null
  /** Share of a mean call's capacity that each rejection costs. */
  readonly rejectCost: number
}

/** Requests per second of one client: one every 30 s. */
export const requestsPerClient = 1 / 30

/** Load of the fleet against the primary's slots before the event. */
const utilisation = (name: ScenarioName): number => (name === "metastable" ? 0.85 : 0.7)

/** The primary's slots: load over utilisation, at least 2. */
export const slotsFor = (name: ScenarioName, clients: number, meanServiceMillis: number): number =>
  Math.max(2, Math.round((clients * requestsPerClient * meanServiceMillis) / 1000 / utilisation(name)))

const start = 120_000
const minute = 60_000
/** Slots of a world without a limit of its own. */
const plenty = 1e9

/** Share of the primary's slots during an outage and the ramp after it, which begins at a fifth. */
const outage = (now: number, lasts: number, ramp: number): number => {
  if (now < start || now >= start + lasts + ramp) return 1
  return now < start + lasts ? 0 : Math.max(0.2, (now - start - lasts) / ramp)
}

/** Slots of the primary at an instant, and those of the fallback. */
const both =
  (primary: (now: number) => number, fallback: number): World["slots"] =>
  (route, now) =>
    route === 0 ? primary(now) : fallback

const world = (carry: World["slots"], more: Partial<World> = {}): World => ({
  slots: carry,
  outageFrom: null,
  limiter: null,
  refusals: null,
  ...more
})

/** What scenarios share: an event of one minute in ten. */
const baseOf = (name: ScenarioName) => ({
  name,
  horizonMillis: 600_000,
  eventFrom: start,
  eventTo: start + minute,
  boost: null,
  burst: null,
  rejectCost: 0.02
})

/** Everybody at once before a limiter that lets three times the usual rate through. */
const herdOf = (name: ScenarioName, clients: number, tellsWait: boolean, rejectedCost: number): Scenario => {
  const perSecond = 3 * clients * requestsPerClient
  const blocked = { blockedFrom: start, blockedTo: start + 10_000 }
  return {
    ...baseOf(name),
    eventTo: start + 10_000,
    burst: { count: clients, atMillis: start, widthMillis: 500 },
    world: world(
      both(() => plenty, 0),
      { limiter: { perSecond, burst: perSecond, ...blocked, tellsWait, rejectedCost } }
    )
  }
}

/** The same bucket, which nothing blocks: it is only too small for everybody at once. */
const limiterOf = (name: ScenarioName, clients: number): Scenario => {
  const calm = herdOf(name, clients, true, 0)
  const { limiter } = calm.world
  return limiter === null
    ? calm
    : { ...calm, world: { ...calm.world, limiter: { ...limiter, blockedFrom: Infinity, blockedTo: Infinity } } }
}

const refusingOf = (name: ScenarioName, refusals: Refusals): Scenario => ({
  ...baseOf(name),
  world: world(
    both(() => plenty, 0),
    { refusals }
  )
})

export const makeScenario = (name: ScenarioName, clients: number, slots: number): Scenario => {
  const base = baseOf(name)
  const half = 0.5 * slots
  const dimmed = (now: number): number => (now >= start && now < start + minute ? 0.5 * slots : slots)
  const down = (lasts: number, ramp: number) => (now: number) => slots * outage(now, lasts, ramp)
  switch (name) {
    case "steady":
      return { ...base, world: world(both(() => slots, half)) }
    case "brownout":
      return { ...base, world: world(both(dimmed, half)) }
    case "brownout-nofb":
      return { ...base, world: world(both(dimmed, 0)) }
    case "metastable":
    case "outage20":
      return {
        ...base,
        eventTo: start + 20_000,
        world: world(both(down(20_000, 0), half), { outageFrom: start }),
        rejectCost: name === "metastable" ? 0.1 : base.rejectCost
      }
    case "outage120":
    case "outage120-nofb":
      return {
        ...base,
        horizonMillis: 720_000,
        eventTo: start + 2 * minute,
        world: world(both(down(2 * minute, minute), name === "outage120" ? half : 0), { outageFrom: start })
      }
    case "perm-overload":
      return {
        ...base,
        horizonMillis: 800_000,
        eventTo: start + 5 * minute,
        world: world(both((now) => (now >= start ? 0.05 * slots : slots), slots))
      }
    case "flash5":
      return {
        ...base,
        boost: { factor: 5, fromMillis: start, toMillis: start + minute },
        world: world(both(() => slots, half))
      }
    case "herd":
      return herdOf(name, clients, true, 0)
    case "herd-counted":
      return herdOf(name, clients, true, 0.2)
    case "herd-nora":
      return herdOf(name, clients, false, 0)
    case "refusals":
      return refusingOf(name, { status: 429, of: "any", share: 0.3, hintMillis: -1 })
    case "first500":
      return refusingOf(name, { status: 500, of: "first", share: 1, hintMillis: -1 })
    case "first429":
      return refusingOf(name, { status: 429, of: "first", share: 1, hintMillis: 2_000 })
    case "limiter":
      return limiterOf(name, clients)
  }
}
