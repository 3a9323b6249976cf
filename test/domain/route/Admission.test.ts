import { assert, describe, it } from "@effect/vitest"
import { RouteHealthConfig } from "../../../src/domain/recovery/RouteHealthConfig.ts"
import type { Tick } from "../../../src/domain/recovery/Tick.ts"
import { admit, newcomer, report, type Admission, type Asker } from "../../../src/domain/route/Admission.ts"
import { initialPace } from "../../../src/domain/route/Pace.ts"
import { initial, observe, type RouteHealth } from "../../../src/domain/route/RouteHealth.ts"

const config = RouteHealthConfig.defaults
const now = 1_000
const tick = (at = now, spread = 0.5): Tick => ({
  now: at,
  wall: at,
  backoffMillis: null,
  spread,
  progressMillis: 0
})
const failed = { _tag: "Failed", ticket: null, hintMillis: null } as const

const well = initial(config, 0)
/** Open, with its first probe at the given instant. */
const openUntil = (until: number): RouteHealth => ({
  ...[failed, failed, failed].reduce((health, signal) => observe(config, health, signal, tick(0)), well),
  until
})
const open = openUntil(9_000)
const probeable = openUntil(500)
const limited: RouteHealth = { ...well, hintUntil: 5_000 }
const spent: RouteHealth = { ...well, tokens: 0, tokensAt: now }
/** Closed a moment ago: at a spread of 0.5 nobody passes. */
const ramping: RouteHealth = { ...well, breaker: "ramp", until: now + config.ramp }

const asker: Asker = { ...newcomer, leavesFor: ["breaker", "ramp"] }
const ask = (healths: ReadonlyArray<RouteHealth>, changes: Partial<Asker> = {}, spread = 0.5) =>
  admit(
    config,
    Object.freeze(healths.map((health) => Object.freeze(health))),
    { ...asker, ...changes },
    tick(now, spread)
  )

const go = (candidate: number, left: string | null = null, ticket: number | null = null) => ({
  _tag: "Go",
  candidate,
  ticket,
  place: 1,
  isPaced: false,
  left
})
const held = (untilMillis: number, reason: string) => ({ _tag: "Held", untilMillis, reason, place: null })
/** Half of the range of the random time after a cool-down. */
const coolSpread = config.coolDown / 2

describe("a request is admitted", () => {
  it.each([
    { given: "its own route well", healths: [well, well], then: go(0) },
    { given: "its own route ready for a probe", healths: [probeable, well], then: go(0, null, 0) },
    { given: "its own breaker open", healths: [open, limited, well], then: go(2, "breaker") },
    {
      given: "its own breaker open and a probe elsewhere",
      healths: [open, limited, probeable],
      then: go(2, "breaker", 0)
    },
    { given: "a ramp, and another route", healths: [ramping, open, well], then: go(2, "ramp") },
    { given: "a ramp, and none", healths: [ramping, open], then: go(0) },
    { given: "a ramp everywhere", healths: [ramping, ramping], then: go(0) },
    { given: "a hint", healths: [limited, well], then: held(7_000, "hint") },
    { given: "every breaker open", healths: [open, openUntil(8_000)], then: held(8_000 + coolSpread, "breaker") },
    {
      given: "its own breaker the first",
      healths: [open, openUntil(9_500)],
      then: held(9_000 + coolSpread, "breaker")
    },
    { given: "no other that is shut by a breaker", healths: [open, limited], then: held(9_000 + coolSpread, "breaker") }
  ])("or held with $given", ({ healths, then }) => assert.deepStrictEqual(ask(healths).admission, then as Admission))

  it.each([
    {
      given: "prefers others and one is well",
      changes: { own: 1, prefers: "others" },
      healths: [well, well],
      then: go(0, "return")
    },
    { given: "prefers others and none is", changes: { own: 1, prefers: "others" }, healths: [open, well], then: go(1) },
    { given: "leaves for a hint", changes: { leavesFor: ["hint"] }, healths: [limited, well], then: go(1, "hint") },
    {
      given: "leaves for a hint, nowhere",
      changes: { leavesFor: ["hint"] },
      healths: [limited, open],
      then: held(7_000, "hint")
    },
    { given: "has waited for the hint", changes: { waitedFor: ["hint"] }, healths: [limited, well], then: go(0) },
    {
      given: "retries without a token",
      changes: { failedOn: 0 },
      healths: [spent, well],
      then: held(11_000, "retryBudget")
    },
    {
      given: "has waited for a token",
      changes: { failedOn: 0, waitedFor: ["retryBudget"] },
      healths: [spent],
      then: go(0)
    },
    {
      given: "comes as a newcomer where there is no token",
      changes: {},
      healths: [open, spent],
      then: go(1, "breaker")
    },
    {
      given: "comes back to where its last attempt failed, without a token there",
      changes: { failedOn: 1 },
      healths: [open, spent],
      then: held(9_000 + coolSpread, "breaker")
    },
    {
      given: "has waited for a hint elsewhere",
      changes: { waitedFor: ["hint"] },
      healths: [open, limited],
      then: held(9_000 + coolSpread, "breaker")
    },
    { given: "is background", changes: { priority: "background" }, healths: [open, well], then: { _tag: "Shed" } },
    {
      given: "is background at an open route",
      changes: { priority: "background" },
      healths: [well, open],
      then: go(0)
    },
    {
      given: "retries within a ramp it cannot leave, without a token",
      changes: { failedOn: 0 },
      healths: [{ ...ramping, tokens: 0, tokensAt: now }, open],
      then: held(11_000, "retryBudget")
    }
  ] as ReadonlyArray<{
    readonly given: string
    readonly changes: Partial<Asker>
    readonly healths: ReadonlyArray<RouteHealth>
    readonly then: object
  }>)("or held when it $given", ({ changes, healths, then }) =>
    assert.deepStrictEqual(ask(healths, changes).admission, then as Admission)
  )

  /** A route after calls left for it: each takes a place, and is counted. */
  const left = (health: RouteHealth, calls = 1): RouteHealth => ({
    ...health,
    sends: calls,
    countedAt: now,
    pace: { ...initialPace(now), last: calls, clock: 24, rate: health.pace.rate, deafUntil: 0 }
  })

  it("takes with the answer what goes with it, on that candidate alone", () => {
    const probing = ask([open, probeable]).healths
    const { accepts, failures, countedAt } = probeable
    const decay = Math.exp(-(now - countedAt) / config.window)
    const counted = { accepts: accepts * decay, failures: failures * decay }
    const asProbe = { ...left(probeable), ...counted, tickets: 1, probe: { ticket: 0, at: now } }
    assert.deepStrictEqual(probing, [open, asProbe])
    const retried = ask([well, well], { failedOn: 0 }).healths
    assert.deepStrictEqual(retried, [{ ...left(well), tokens: config.retryTokens - 1, tokensAt: now }, well])
    const alone = ask([open]).healths
    assert.deepStrictEqual(alone, [{ ...open, waiting: 1 }])
  })

  it("takes a place on the route it leaves for, and nothing where it is held", () => {
    assert.deepStrictEqual(ask([well, well]).healths, [left(well), well])
    assert.deepStrictEqual(ask([open, well]).healths, [open, left(well)])
    for (const healths of [
      [open, openUntil(8_000)],
      [limited, well]
    ] as const)
      assert.deepStrictEqual(ask(healths).healths, healths)
  })

  it("is no probe twice: the second of two in one moment is held or goes elsewhere", () => {
    const first = ask([probeable, well])
    assert.deepStrictEqual(admit(config, first.healths, asker, tick()).admission, go(1, "breaker") as Admission)
    const alone = ask([probeable])
    assert.strictEqual(admit(config, alone.healths, asker, tick()).admission._tag, "Held")
  })

  it("is a mistake of the caller without a candidate", () => {
    assert.throws(() => ask([]), RangeError)
    assert.throws(() => report(config, [well], { own: 1, priority: "foreground" }, failed, tick()), RangeError)
  })
})

describe("a report", () => {
  const told = (
    healths: ReadonlyArray<RouteHealth>,
    signal: Parameters<typeof report>[3] = failed,
    priority: Asker["priority"] = "foreground"
  ) => report(config, healths, { own: 0, priority }, signal, tick())
  const last = [failed, failed].reduce((health, signal) => observe(config, health, signal, tick()), well)

  it.each([
    { given: "it opens the breaker", healths: [last, well], wayOut: 1 },
    { given: "the breaker is open", healths: [open, open, probeable], wayOut: 2 },
    { given: "the breaker stays closed", healths: [well, well], wayOut: null },
    { given: "no other route takes it", healths: [last, open, limited], wayOut: null },
    { given: "there is no other route", healths: [last], wayOut: null }
  ])("tells the way out $wayOut when $given, and takes nothing there", ({ healths, wayOut }) => {
    const found = told(healths)
    assert.strictEqual(found.wayOut, wayOut)
    assert.deepStrictEqual(found.healths, [observe(config, healths[0] ?? well, failed, tick()), ...healths.slice(1)])
  })

  it("tells no way out to background requests, nor after anything but a failure that counts", () => {
    assert.isNull(told([last, well], failed, "background").wayOut)
    for (const _tag of ["Accepted", "Released"] as const)
      assert.isNull(told([open, well], { _tag, ticket: null }).wayOut)
    assert.isNull(told([open, well], { _tag: "RateLimited", ticket: null, hintMillis: null, refusal: null }).wayOut)
  })
})
