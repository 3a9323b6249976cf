import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { RouteHealthConfig } from "../../../src/domain/recovery/RouteHealthConfig.ts"
import { Admission, admit, newcomer, type Admitted, type Asker } from "../../../src/domain/route/Admission.ts"
import { initialPace } from "../../../src/domain/route/Pace.ts"
import { initial, observe, RouteHealth, Signal } from "../../../src/domain/route/RouteHealth.ts"
import type { Tick } from "../../../src/domain/recovery/Tick.ts"
import { verdictOf, type Caller } from "../../../src/domain/route/Verdict.ts"
import { runs } from "../../support/runs.ts"

const config = RouteHealthConfig.defaults
const tick = (now: number, spread = 0.5): Tick => ({ now, wall: now, backoffMillis: null, spread, progressMillis: 0 })
const accepted = { _tag: "Accepted", ticket: null } as const
const failed = { _tag: "Failed", ticket: null, hintMillis: null } as const
const limited = (hintMillis: number | null): Signal => ({
  _tag: "RateLimited",
  ticket: null,
  hintMillis,
  refusal: null
})

const after = (signals: ReadonlyArray<Signal>, now = 0, spread = 0.5, from = initial(config, 0)): RouteHealth =>
  signals.reduce((health, signal) => observe(config, health, signal, tick(now, spread)), from)

/** The answer to a request that has this route alone, its place aside, and the health after it. */
const ask = (health: RouteHealth, now: number, asker: Partial<Asker> = {}, spread = 0.5, settings = config) => {
  const { admission, healths } = admit(settings, [health], { ...newcomer, ...asker }, tick(now, spread))
  return {
    admission: admission._tag === "Go" ? { ...admission, place: 0 } : admission,
    health: healths[0] ?? health
  }
}

const go: Admission = { _tag: "Go", candidate: 0, ticket: null, place: 0, isPaced: false, left: null }
const probe = (ticket: number): Admission => ({ ...go, ticket })
const ticketOf = (admission: Admission): number | null => (admission._tag === "Go" ? admission.ticket : null)
const isProbe = (admission: Admission): boolean => ticketOf(admission) !== null

const caller: Caller = { priority: "foreground", price: 0, waitedFor: [], isOwn: true, place: null, deadline: null }

/** What the route says to a request that has another one. */
const verdict = (health: RouteHealth, now: number, spread: number): string =>
  verdictOf(config, health, caller, tick(now, spread))._tag

const open = after([failed, failed, failed])
const tenAccepted = Array.from({ length: 10 }, () => accepted)
const busy = after([...Array.from({ length: 12 }, () => accepted), ...Array.from({ length: 12 }, () => failed)])

/** The probe at the end of the cool-down, with its result. */
const afterProbe = (before: RouteHealth, result: typeof accepted | typeof failed): RouteHealth => {
  const { admission, health } = ask(before, before.until)
  const ticket = ticketOf(admission)
  return observe(config, health, { ...result, ticket }, tick(before.until))
}

describe("the breaker", () => {
  it.each([
    { given: "two failures", signals: [failed, failed], breaker: "closed" },
    { given: "three failures", signals: [failed, failed, failed], breaker: "open" },
    {
      given: "half of six calls failed",
      signals: [accepted, accepted, accepted, failed, failed, failed],
      breaker: "open"
    },
    {
      given: "three of seven calls failed",
      signals: [accepted, accepted, accepted, accepted, failed, failed, failed],
      breaker: "closed"
    },
    { given: "a hundred rate limits", signals: Array.from({ length: 100 }, () => limited(null)), breaker: "closed" },
    {
      given: "a hundred attempts that told nothing",
      signals: Array.from({ length: 100 }, (): Signal => ({ _tag: "Released", ticket: null })),
      breaker: "closed"
    }
  ])("is $breaker after $given", ({ signals, breaker }) => assert.strictEqual(after(signals).breaker, breaker))

  it("stays closed when three failures are spread over half a minute", () => {
    const health = [0, 15_000, 30_000].reduce(
      (before, now) => observe(config, before, failed, tick(now)),
      initial(config, 0)
    )
    assert.strictEqual(health.breaker, "closed")
  })

  it("waits a cool-down of 0.5 to 1.5 times the setting before the first probe", () => {
    assert.strictEqual(after([failed, failed, failed], 0, 0).until, 2_500)
    assert.strictEqual(after([failed, failed, failed], 0, 1).until, 7_500)
  })

  it("holds one millisecond before the cool-down ends and probes at its end", () => {
    assert.strictEqual(ask(open, open.until - 1).admission._tag, "Held")
    assert.deepStrictEqual(ask(open, open.until).admission, probe(0))
  })

  it("lets one probe out and holds the others", () => {
    const probing = ask(open, 5_000).health
    const second = ask(probing, 5_001)
    assert.strictEqual(second.admission._tag, "Held")
    assert.isTrue(second.admission._tag === "Held" && second.admission.untilMillis >= 5_251)
  })

  it("gives a released probe's place to the next", () => {
    const probing = ask(open, 5_000).health
    const released = observe(config, probing, { _tag: "Released", ticket: 0 }, tick(5_100))
    assert.deepStrictEqual(ask(released, 5_100).admission, probe(1))
  })

  it("gives the place away when a probe tells nothing for too long, and ignores it afterwards", () => {
    const probing = ask(open, 5_000).health
    assert.strictEqual(ask(probing, 5_000 + config.probeTimeout - 1).admission._tag, "Held")
    const next = ask(probing, 5_000 + config.probeTimeout)
    assert.deepStrictEqual(next.admission, probe(1))
    const late = observe(config, next.health, { _tag: "Accepted", ticket: 0 }, tick(70_000))
    assert.strictEqual(late.breaker, "open")
  })

  it("doubles the cool-down with every failed probe up to the cap", () => {
    let health = open
    const coolDowns: Array<number> = []
    for (let i = 0; i < 5; i++) {
      const now = health.until
      const { admission, health: probing } = ask(health, now)
      assert.isTrue(isProbe(admission))
      const ticket = ticketOf(admission)
      health = observe(config, probing, { _tag: "Failed", ticket, hintMillis: null }, tick(now))
      coolDowns.push(health.coolDown)
    }
    assert.deepStrictEqual(coolDowns, [10_000, 20_000, 30_000, 30_000, 30_000])
  })

  it("tells a held call the end of the cool-down, at least 250 ms ahead, and a time of its own", () => {
    const until = (now: number, spread: number, health = open) => {
      const { admission } = ask(health, now, {}, spread)
      return admission._tag === "Held" && admission.reason === "breaker" ? admission.untilMillis : null
    }
    assert.deepStrictEqual([until(100, 0), until(100, 0.5), until(100, 1)], [5_000, 7_500, 10_000])
    assert.strictEqual(until(4_900, 0), 5_150)
    const probing = ask(open, 5_000).health
    assert.deepStrictEqual([until(5_001, 0, probing), until(5_001, 1, probing)], [5_251, 10_251])
    const short = { ...config, coolDown: 100, coolDownMax: 200 }
    const brief = [failed, failed, failed].reduce(
      (health, signal) => observe(short, health, signal, tick(0)),
      initial(short, 0)
    )
    const { admission } = ask(brief, 0, {}, 1, short)
    assert.deepStrictEqual(admission, { _tag: "Held", untilMillis: 250 + 500, reason: "breaker", place: null })
  })

  it("counts with a memory of ten seconds", () => {
    const begun = 50_000
    const at = (signals: ReadonlyArray<Signal>, now: number, from: RouteHealth) => after(signals, now, 0.5, from)
    const times = (signal: Signal, count: number) => Array.from({ length: count }, () => signal)
    // After ten seconds 10 accepted calls weigh 3.7: 3 failures are fewer than half, 4 are more.
    const calm = at(times(accepted, 10), begun, initial(config, begun))
    assert.strictEqual(at(times(failed, 3), begun + 10_000, calm).breaker, "closed")
    assert.strictEqual(at(times(failed, 4), begun + 10_000, calm).breaker, "open")
    // After thirty seconds failures and accepted calls of before weigh next to nothing.
    const old = at(times(failed, 2), begun, initial(config, begun))
    assert.strictEqual(at([accepted, failed, failed], begun + 30_000, old).breaker, "closed")
    const served = at(times(accepted, 9), begun, initial(config, begun))
    assert.strictEqual(at([accepted, failed, failed, failed], begun + 30_000, served).breaker, "open")
  })

  it("opens from the settings on, not above them", () => {
    const three = { ...config, minFailures: 3 }
    const health = [failed, failed, failed].reduce(
      (before, signal) => observe(three, before, signal, tick(0)),
      initial(three, 0)
    )
    assert.strictEqual(health.breaker, "open")
  })

  it("is not moved by a late failure that was no probe", () => {
    const late = observe(config, open, failed, tick(4_000))
    assert.deepStrictEqual([late.until, late.coolDown, late.breaker], [open.until, open.coolDown, "open"])
  })

  it("gives the place of a probe that was rate limited to the next", () => {
    const probing = ask(open, 5_000).health
    const limitedProbe = observe(
      config,
      probing,
      { _tag: "RateLimited", ticket: 0, hintMillis: null, refusal: null },
      tick(5_100)
    )
    assert.deepStrictEqual(ask(limitedProbe, 5_100).admission, probe(1))
    const other = observe(config, probing, limited(null), tick(5_100))
    assert.strictEqual(ask(other, 5_100).admission._tag, "Held")
  })

  it("is closed again by the first call that is accepted after the ramp", () => {
    const ramp = observe(config, ask(open, 5_000).health, { _tag: "Accepted", ticket: 0 }, tick(5_000))
    assert.strictEqual(observe(config, ramp, accepted, tick(9_999)).breaker, "ramp")
    assert.strictEqual(observe(config, ramp, accepted, tick(10_000)).breaker, "closed")
    assert.strictEqual(observe(config, { ...ramp, breaker: "closed" }, accepted, tick(10_000)).breaker, "closed")
  })

  it("lets a tenth of the calls back in the first moment of the ramp", () => {
    const ramp = observe(config, ask(open, 5_000).health, { _tag: "Accepted", ticket: 0 }, tick(5_000))
    assert.strictEqual(verdict(ramp, 5_000, 0.1), "Open")
    assert.strictEqual(verdict(ramp, 5_000, 0.11), "Held")
    assert.strictEqual(verdict({ ...ramp, breaker: "closed" }, 5_000, 1), "Open")
  })

  it("lets all calls back at once without a ramp", () => {
    const steep = { ...config, ramp: 0 }
    const closed = observe(steep, ask(open, 5_000).health, { _tag: "Accepted", ticket: 0 }, tick(5_000))
    assert.strictEqual(verdictOf(steep, closed, caller, tick(5_000, 1))._tag, "Open")
  })

  it("closes when a probe is accepted and lets calls back over the ramp", () => {
    const closed = observe(config, ask(open, 5_000).health, { _tag: "Accepted", ticket: 0 }, tick(5_000))
    assert.strictEqual(closed.breaker, "ramp")
    assert.strictEqual(verdict(closed, 7_500, 0.49), "Open")
    assert.strictEqual(verdict(closed, 7_500, 0.51), "Held")
    assert.deepStrictEqual(ask(closed, 7_500, {}, 0.51).admission, go)
    assert.strictEqual(verdict(closed, 10_000, 1), "Open")
  })

  it("is not closed by a late answer that was no probe", () => {
    assert.strictEqual(observe(config, open, accepted, tick(100)).breaker, "open")
  })

  it("probes a busy route sooner, and no later after probes that failed", () => {
    assert.strictEqual(busy.breaker, "open")
    assert.strictEqual(busy.coolDown, config.coolDown * config.busyFactor)
    assert.isTrue(isProbe(ask(busy, busy.until).admission))
    assert.strictEqual(afterProbe(busy, failed).coolDown, config.coolDown * config.busyFactor)
  })

  it.each([
    { given: "twelve that have no other route", count: 12, routes: 1, busy: true },
    { given: "eleven", count: 11, routes: 1, busy: false },
    { given: "a hundred that have another route", count: 100, routes: 2, busy: false }
  ])("judges by those who wait whether it is busy: $given", ({ count, routes, busy }) => {
    const candidates: ReadonlyArray<RouteHealth> = [open, open].slice(0, routes)
    const waited = Array.from({ length: count }).reduce<ReadonlyArray<RouteHealth>>(
      (healths) => admit(config, healths, { ...newcomer, leavesFor: ["breaker"] }, tick(100)).healths,
      candidates
    )
    const waitedAt = waited[0] ?? open
    const next = afterProbe(waitedAt, failed)
    assert.strictEqual(next.busy, busy)
    assert.strictEqual(next.coolDown, busy ? config.coolDown * config.busyFactor : 2 * config.coolDown)
    assert.strictEqual(next.waiting, 0)
  })

  it("takes those first whose time is short when many wait at a busy route", () => {
    const wait = (deadline: number): number => {
      const { admission } = ask(busy, 0, { deadline }, 1)
      return admission._tag === "Held" ? admission.untilMillis - busy.until : Number.NaN
    }
    assert.closeTo(wait(100_000), busy.coolDown, 1e-9)
    assert.closeTo(wait(50_000), 1_500, 1e-9)
    assert.isBelow(wait(20_000), wait(50_000))
  })

  it.each([
    { given: "two failures", signals: [failed, failed], at: 100, breaker: "ramp" },
    { given: "three failures, too many of all calls", signals: [failed, failed, failed], at: 100, breaker: "open" },
    { given: "three failures of thirteen calls", signals: [...tenAccepted, failed, failed, failed], breaker: "ramp" },
    { given: "one failures of oneteen", signals: [...tenAccepted, failed, failed, failed, failed], breaker: "open" },
    {
      given: "one failures of oneteen after the ramp",
      signals: [...tenAccepted, failed, failed, failed, failed],
      at: config.ramp,
      breaker: "closed"
    }
  ])("within a ramp it is $breaker after $given", ({ signals, at = 100, breaker }) => {
    const back = afterProbe(busy, accepted)
    const calm: RouteHealth = { ...back, accepts: 0, failures: 0 }
    assert.strictEqual(after(signals, back.until - config.ramp + at, 0.5, calm).breaker, breaker)
  })

  it("rests the whole cool-down when it opens within a ramp, also on a busy route", () => {
    const back = afterProbe(busy, accepted)
    const again = after([failed, failed, failed], back.until - 1_000, 0.5, { ...back, accepts: 0, failures: 0 })
    assert.strictEqual(again.breaker, "open")
    assert.strictEqual(again.coolDown, config.coolDown)
    assert.isTrue(again.busy)
    const later = after([failed, failed, failed], back.until, 0.5, { ...back, accepts: 0, failures: 0 })
    assert.isFalse(later.busy)
  })

  it("rests no longer than a call takes on a busy route, half a second at least, and longer with every failed probe", () => {
    const serves = (millis: number): RouteHealth =>
      after(
        [
          { _tag: "Served", millis },
          ...Array.from({ length: 12 }, () => accepted),
          ...Array.from({ length: 12 }, () => failed)
        ],
        0
      )
    assert.deepStrictEqual(
      [serves(10), serves(1_500), serves(7_500)].map(({ coolDown }) => coolDown),
      [500, 1_500, 3_000]
    )
    assert.strictEqual(afterProbe(serves(1_000), failed).coolDown, 2_000)
    assert.strictEqual(afterProbe(serves(2_000), failed).coolDown, 3_000)
    const back = afterProbe(serves(1_500), accepted)
    assert.strictEqual(back.until - serves(1_500).until, 1_500)
    // A client alone rests as the settings say.
    assert.strictEqual(after([{ _tag: "Served", millis: 100 }, failed, failed, failed]).coolDown, 5_000)
  })

  it("follows the calls' length", () => {
    const long = after([{ _tag: "Served", millis: 1_000 }])
    assert.strictEqual(long.service, 1_000)
    assert.closeTo(after([{ _tag: "Served", millis: 2_000 }], 0, 0.5, long).service ?? 0, 1_100, 1e-9)
  })

  it("calls a route busy from twelve calls on, when it opens, and keeps that until it is closed", () => {
    const opens = (count: number, now: number, from: RouteHealth) => {
      const signals = [
        ...Array.from({ length: count }, () => accepted),
        ...Array.from({ length: count + 2 }, () => failed)
      ]
      const health = after(signals, now, 0.5, from)
      assert.strictEqual(health.breaker, "open")
      return health
    }
    const fresh = initial(config, 0)
    assert.deepStrictEqual([opens(5, 0, fresh).coolDown, opens(5, 0, fresh).busy], [5_000, false])
    assert.deepStrictEqual([opens(6, 0, fresh).coolDown, opens(6, 0, fresh).busy], [3_000, true])
    const back = (health: RouteHealth, now: number) =>
      observe(config, ask(health, now).health, { _tag: "Accepted", ticket: 0 }, tick(now))
    const busy = back(opens(12, 0, fresh), 40_000)
    const idle = back(opens(5, 0, fresh), 40_000)
    // Within the ramp: as before, with the whole cool-down. After it: judged anew.
    assert.strictEqual(after([failed, failed, failed], 44_999, 0.5, busy).coolDown, 5_000)
    assert.isTrue(after([failed, failed, failed], 44_999, 0.5, busy).busy)
    assert.strictEqual(after([failed, failed, failed], 45_000, 0.5, busy).coolDown, 5_000)
    assert.strictEqual(opens(8, 44_999, idle).coolDown, 5_000)
    assert.strictEqual(opens(8, 45_000, idle).coolDown, 3_000)
    const closed = observe(config, idle, accepted, tick(45_000))
    assert.strictEqual(opens(8, 45_001, closed).coolDown, 3_000)
  })

  it("sheds background requests", () => {
    assert.deepStrictEqual(ask(open, 100, { priority: "background" }).admission, { _tag: "Shed" })
    assert.deepStrictEqual(ask(initial(config, 0), 0, { priority: "background" }).admission, go)
  })
})

describe("the hint gate", () => {
  const gated = after([limited(10_000)], 1_000)

  it("holds new calls until the hint's end and a time of their own", () => {
    assert.deepStrictEqual(ask(gated, 2_000, {}, 0).admission, {
      _tag: "Held",
      untilMillis: 11_000,
      reason: "hint",
      place: null
    })
    assert.deepStrictEqual(ask(gated, 2_000, {}, 1).admission, {
      _tag: "Held",
      untilMillis: 20_000,
      reason: "hint",
      place: null
    })
    assert.strictEqual(ask(gated, 11_000).admission._tag, "Go")
    assert.strictEqual(ask(gated, 10_999, {}, 0).admission._tag, "Held")
  })

  it("keeps the latest of several hints", () => {
    const both = observe(config, gated, limited(1_000), tick(2_000))
    assert.strictEqual(both.hintUntil, 11_000)
    assert.strictEqual(observe(config, gated, limited(20_000), tick(2_000)).hintUntil, 22_000)
  })

  it("gives the random time up for the deadline but never the hint", () => {
    const close = ask(gated, 2_000, { deadline: 11_500 }, 1).admission
    assert.isTrue(close._tag === "Held" && close.untilMillis >= 11_000 && close.untilMillis < 11_500)
    const past = ask(gated, 2_000, { deadline: 5_000 }, 1).admission
    assert.deepStrictEqual(past, { _tag: "Held", untilMillis: 11_000, reason: "hint", place: null })
  })

  it("spends at most a tenth of the time left at random", () => {
    const until = (deadline: number, spread: number) => {
      const { admission } = ask(gated, 2_000, { deadline }, spread)
      return admission._tag === "Held" ? admission.untilMillis : null
    }
    assert.deepStrictEqual([until(102_000, 0.5), until(102_000, 1)], [15_500, 20_000])
    assert.deepStrictEqual([until(52_000, 0), until(52_000, 0.5), until(52_000, 1)], [11_000, 13_500, 16_000])
    assert.strictEqual(until(11_500, 1), 11_499)
    assert.strictEqual(until(1_000, 1), 11_000)
  })

  it("spreads a short hint over two seconds", () => {
    const { admission } = ask(after([limited(500)]), 0, {}, 1)
    assert.deepStrictEqual(admission, { _tag: "Held", untilMillis: 2_500, reason: "hint", place: null })
  })

  it("counts the hint of an overload, and none where there is none", () => {
    const told = observe(config, initial(config, 0), { _tag: "Failed", ticket: null, hintMillis: 3_000 }, tick(1_000))
    assert.strictEqual(told.hintUntil, 4_000)
    const health = initial(config, 0)
    assert.deepStrictEqual(observe(config, health, limited(null), tick(1_000)), health)
    assert.deepStrictEqual(observe(config, health, { _tag: "Released", ticket: null }, tick(1_000)), health)
  })

  it("holds no one twice, and nobody where it is switched off", () => {
    assert.strictEqual(ask(gated, 2_000, { waitedFor: ["hint"] }).admission._tag, "Go")
    assert.strictEqual(ask(gated, 2_000, {}, 0.5, { ...config, hintGate: false }).admission._tag, "Go")
  })

  it("holds a probe too", () => {
    const both = observe(config, open, limited(60_000), tick(0))
    assert.deepInclude(ask(both, 5_000).admission, { _tag: "Held", reason: "hint" })
    assert.isTrue(isProbe(ask(both, 5_000, { waitedFor: ["hint"] }).admission))
  })

  it("does not hold the others for a day because one call was told so", () => {
    assert.strictEqual(after([limited(86_400_000)]).hintUntil, config.hintGateMax)
  })
})

describe("the retry budget", () => {
  const drained = Array.from({ length: 10 }).reduce<RouteHealth>(
    (health) => ask(health, 0, { failedOn: 0 }).health,
    initial(config, 0)
  )

  it("lets ten retries go and defers the eleventh, never refuses it", () => {
    const eleventh = ask(drained, 0, { failedOn: 0 }, 0.5).admission
    assert.deepStrictEqual(eleventh, { _tag: "Held", untilMillis: 10_000, reason: "retryBudget", place: null })
    assert.strictEqual(ask(drained, 10_000, { failedOn: 0, waitedFor: ["retryBudget"] }).admission._tag, "Go")
    // Once deferred it goes, whoever has taken the tokens since.
    assert.strictEqual(ask(drained, 0, { failedOn: 0, waitedFor: ["retryBudget"] }).admission._tag, "Go")
  })

  it("defers for 0.5 to 1.5 times the time until a token is there", () => {
    const later = Array.from({ length: 10 }).reduce<RouteHealth>(
      (health) => ask(health, 50_000, { failedOn: 0 }).health,
      initial(config, 50_000)
    )
    const until = (spread: number) => {
      const { admission } = ask(later, 55_000, { failedOn: 0 }, spread)
      return admission._tag === "Held" && admission.reason === "retryBudget" ? admission.untilMillis : null
    }
    assert.deepStrictEqual([until(0), until(0.5), until(1)], [57_500, 60_000, 62_500])
    assert.strictEqual(ask(later, 59_999, { failedOn: 0 }).admission._tag, "Held")
    assert.strictEqual(ask(later, 60_000, { failedOn: 0 }).admission._tag, "Go")
  })

  it("grows with the traffic: it holds what the calls of one window bring, ten at least", () => {
    const retries = (health: RouteHealth, now: number): number => {
      let left = health
      for (let count = 0; ; count++) {
        // Of so many at once the most wait a moment: that is not what is counted here.
        const next = ask({ ...left, pace: initialPace(now) }, now, { failedOn: 0 })
        if (next.admission._tag !== "Go") return count
        left = next.health
      }
    }
    const times = (count: number) => after(Array.from({ length: count }, () => accepted))
    assert.deepStrictEqual([retries(times(10), 0), retries(times(100), 0), retries(times(1_000), 0)], [10, 50, 500])
    // And shrinks again when the calls stay away.
    assert.strictEqual(retries(times(1_000), 60_000), 10)
    assert.strictEqual(ask(drained, 1_000_000, { failedOn: 0 }).health.tokens, 9)
  })

  it("takes half a token for a fault that says nothing of load", () => {
    assert.strictEqual(ask(initial(config, 0), 0, { failedOn: 0, price: 0.5 }).health.tokens, 9.5)
    const half: RouteHealth = { ...drained, tokens: 0.5 }
    assert.strictEqual(ask(half, 0, { failedOn: 0, price: 0.5 }).admission._tag, "Go")
    assert.strictEqual(ask(half, 0, { failedOn: 0, price: 1 }).admission._tag, "Held")
  })

  it("lets those who are put off go one behind the other, as fast as success brings tokens", () => {
    const served = after(
      Array.from({ length: 20 }, () => accepted),
      0,
      0.5,
      drained
    )
    let health: RouteHealth = { ...served, tokens: 0 }
    const until: Array<number> = []
    for (let i = 0; i < 3; i++) {
      const next = ask(health, 0, { failedOn: 0 })
      if (next.admission._tag === "Held") until.push(next.admission.untilMillis)
      health = next.health
    }
    // Twenty successes in ten seconds bring a token a second, and time one in ten seconds.
    const gap = 1_000 / 1.1
    for (const [i, at] of until.entries()) assert.closeTo(at, (i + 1) * gap, 1e-6)
    assert.strictEqual(until.length, 3)
  })

  it("puts nobody off for longer than time alone takes to bring a token, half as much again at most", () => {
    const deep: RouteHealth = { ...drained, tokens: -1_000 }
    assert.deepInclude(ask(deep, 0, { failedOn: 0 }, 1).admission, { untilMillis: 15_000 })
  })

  it("asks nothing of first attempts", () => assert.strictEqual(ask(drained, 0).admission._tag, "Go"))

  it("refills with time and with success", () => {
    assert.strictEqual(ask(drained, 9_999, { failedOn: 0 }).admission._tag, "Held")
    assert.strictEqual(ask(drained, 10_000, { failedOn: 0 }).admission._tag, "Go")
    const one = after(
      Array.from({ length: 1 }, () => accepted),
      0,
      0.5,
      drained
    )
    assert.strictEqual(ask(one, 0, { failedOn: 0 }).admission._tag, "Held")
    const helped = after(
      Array.from({ length: 2 }, () => accepted),
      0,
      0.5,
      drained
    )
    assert.strictEqual(ask(helped, 0, { failedOn: 0 }).admission._tag, "Go")
  })
})

describe("what is written down", () => {
  it("is a route nothing is known of, in the beginning", () =>
    assert.deepStrictEqual(initial(config, 7), {
      accepts: 0,
      failures: 0,
      sends: 0,
      countedAt: 7,
      breaker: "closed",
      until: 7,
      coolDown: 5_000,
      busy: false,
      waiting: 0,
      probe: null,
      tickets: 0,
      service: null,
      hintUntil: 7,
      tokens: 10,
      tokensAt: 7,
      pace: initialPace(7)
    }))

  it("has the settings that the fleet was measured with", () =>
    assert.deepStrictEqual(config, {
      counts: ["overload"],
      window: 10_000,
      minFailures: 2.5,
      failureShare: 0.5,
      rampFailureShare: 0.25,
      coolDown: 5_000,
      coolDownMax: 30_000,
      busyCalls: 12,
      busyFactor: 0.6,
      probeTimeout: 60_000,
      ramp: 5_000,
      hintGate: true,
      hintGateMax: 600_000,
      hintSpread: 2_000,
      retryTokens: 10,
      retryTokensPerSuccess: 0.5,
      retryTokensPerSecond: 0.1
    }))

  it.each([
    { counts: ["overload", "serverError", "silent", "cut", "connection"], isLegal: true },
    { counts: ["rateLimit"], isLegal: false },
    { window: 0, isLegal: false },
    { failureShare: 1.1, isLegal: false },
    { failureShare: -0.1, isLegal: false },
    { busyFactor: 0.05, isLegal: false },
    { busyFactor: 1, isLegal: true },
    { minFailures: 0, isLegal: false },
    { busyCalls: 0, isLegal: false },
    { ramp: 0, isLegal: true },
    { ramp: -1, isLegal: false },
    { retryTokens: 0.5, isLegal: false },
    { retryTokens: 1, isLegal: true },
    { retryTokensPerSecond: 0, isLegal: false }
  ])("takes or refuses the settings %j", ({ isLegal, ...changes }) => {
    assert.strictEqual(Schema.is(RouteHealthConfig)({ ...config, ...changes }), isLegal)
  })

  it.each([
    { breaker: "closed", isLegal: true },
    { breaker: "open", isLegal: true },
    { breaker: "ramp", isLegal: true },
    { breaker: "ajar", isLegal: false },
    { probe: { ticket: 1, at: 5 }, isLegal: true },
    { probe: { ticket: 1 }, isLegal: false },
    { tokens: -1, isLegal: true },
    { tickets: 1.5, isLegal: false },
    { until: Infinity, isLegal: false }
  ])("takes or refuses the state %j", ({ isLegal, ...changes }) => {
    assert.strictEqual(Schema.is(RouteHealth)({ ...initial(config, 0), ...changes }), isLegal)
  })

  it.each([
    ["admission", { _tag: "Go", candidate: 0, ticket: null, place: 1, isPaced: false, left: null }, true],
    ["admission", { _tag: "Go" }, false],
    ["admission", { _tag: "Shed" }, true],
    ["admission", { _tag: "Go", candidate: 1, ticket: 3, place: 1, isPaced: true, left: "breaker" }, true],
    ["admission", { _tag: "Go", candidate: 1, ticket: null, place: 9, isPaced: false, left: "return" }, true],
    ["admission", { _tag: "Go", candidate: 1, ticket: null, left: "return" }, false],
    ["admission", { _tag: "Go", candidate: 1, ticket: null, place: 1, isPaced: false, left: "whim" }, false],
    ["admission", { _tag: "Go", candidate: -1, ticket: null, place: 1, isPaced: false, left: null }, false],
    ["admission", { _tag: "Held", untilMillis: 5, reason: "breaker", place: null }, true],
    ["admission", { _tag: "Held", untilMillis: 5, reason: "hint", place: null }, true],
    ["admission", { _tag: "Held", untilMillis: 5, reason: "retryBudget", place: null }, true],
    ["admission", { _tag: "Held", untilMillis: 5, reason: "ramp", place: null }, true],
    ["admission", { _tag: "Held", untilMillis: 5, reason: "burst", place: 3 }, true],
    ["admission", { _tag: "Held", untilMillis: 5, reason: "pace", place: 3 }, true],
    ["admission", { _tag: "Held", untilMillis: 5, reason: "mood", place: null }, false],
    ["admission", { _tag: "Held", reason: "ramp", place: null }, false],
    ["signal", { _tag: "Accepted", ticket: null }, true],
    ["signal", { _tag: "Accepted" }, false],
    ["signal", { _tag: "Failed", ticket: 1, hintMillis: null }, true],
    ["signal", { _tag: "Failed", ticket: 1 }, false],
    ["signal", { _tag: "RateLimited", ticket: 1, hintMillis: 5, refusal: null }, true],
    ["signal", { _tag: "RateLimited", ticket: 1, hintMillis: 5 }, false],
    ["signal", { _tag: "RateLimited", ticket: 1 }, false],
    ["signal", { _tag: "Released", ticket: 1 }, true],
    ["signal", { _tag: "Released" }, false],
    ["signal", { _tag: "Served", millis: 5 }, true],
    ["signal", { _tag: "Served" }, false]
  ] as const)("takes or refuses the %s %j", (name, value, isLegal) => {
    assert.strictEqual(name === "admission" ? Schema.is(Admission)(value) : Schema.is(Signal)(value), isLegal)
  })
})

const Step = Schema.Struct({
  wait: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 20_000 })),
  spread: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 })),
  act: Schema.Literals(["ask", "retry", "accept", "fail", "limit", "release"])
})

interface Story {
  health: RouteHealth
  now: number
  readonly tickets: Array<number>
  readonly probesSent: Array<number>
}

/** Plays steps at the door; probes that went out are answered in order. */
const play = (
  steps: ReadonlyArray<typeof Step.Type>,
  check: (story: Story, admission: Admission, asker: Asker) => void
) => {
  const story: Story = { health: initial(config, 0), now: 0, tickets: [], probesSent: [] }
  for (const step of steps) {
    story.now += step.wait
    const at = tick(story.now, step.spread)
    if (step.act === "ask" || step.act === "retry") {
      const asker: Asker = { ...newcomer, failedOn: step.act === "retry" ? 0 : null, deadline: story.now + 30_000 }
      const before = JSON.stringify(story.health)
      const next: Admitted = admit(config, Object.freeze([Object.freeze(story.health)]), asker, at)
      assert.strictEqual(JSON.stringify(story.health), before)
      story.health = next.healths[0] ?? story.health
      const ticket = ticketOf(next.admission)
      if (ticket !== null) {
        story.tickets.push(ticket)
        story.probesSent.push(story.now)
      }
      check(story, next.admission, asker)
    } else {
      const ticket = story.tickets.shift() ?? null
      const signal: Signal =
        step.act === "accept"
          ? { _tag: "Accepted", ticket }
          : step.act === "release"
            ? { _tag: "Released", ticket }
            : step.act === "fail"
              ? { _tag: "Failed", ticket, hintMillis: null }
              : { _tag: "RateLimited", ticket, hintMillis: 3_000, refusal: null }
      story.health = observe(config, Object.freeze(story.health), signal, at)
    }
  }
  return story
}

const script = { steps: Schema.Array(Step).check(Schema.isMaxLength(60)) }

it.effect.prop(
  "no wait begins in the past, and only a hint or a cool-down outlasts the deadline",
  script,
  ({ steps }) =>
    Effect.sync(() => {
      play(steps, ({ now, health }, admission, { deadline }) => {
        if (admission._tag !== "Held") return
        assert.isAbove(admission.untilMillis, now)
        const firm = Math.max(
          health.hintUntil,
          health.until,
          now + 250,
          admission.reason === "retryBudget" ? Infinity : 0
        )
        if (deadline !== null && firm < deadline) assert.isBelow(admission.untilMillis, deadline)
      })
    }),
  { arbitrary: { runs: runs(300) } }
)

it.effect.prop(
  "one probe at most is out, and the next leaves a cool-down after one that failed",
  script,
  ({ steps }) =>
    Effect.sync(() => {
      const kept = steps.filter((step) => step.act !== "release" && step.act !== "accept" && step.act !== "limit")
      const { probesSent } = play(kept, () => {})
      // The shortest cool-down is half of the busy one.
      const least = 0.5 * config.coolDown * config.busyFactor
      for (let i = 1; i < probesSent.length; i++)
        assert.isAtLeast((probesSent[i] ?? 0) - (probesSent[i - 1] ?? 0), Math.min(least, config.probeTimeout))
    }),
  { arbitrary: { runs: runs(300) } }
)

it.effect.prop(
  "decides by state, signal, time and chance alone",
  script,
  ({ steps }) =>
    Effect.sync(() => {
      const first: Array<Admission> = []
      const second: Array<Admission> = []
      play(steps, (_, admission) => first.push(admission))
      play(steps, (_, admission) => second.push(admission))
      assert.deepStrictEqual(first, second)
    }),
  { arbitrary: { runs: runs(100) } }
)
