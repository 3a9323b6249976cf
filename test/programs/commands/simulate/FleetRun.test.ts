import { assert, describe, it } from "@effect/vitest"
import { presets, RecoveryPolicy } from "../../../../src/domain/recovery/RecoveryPolicy.ts"
import type { Arrivals } from "../../../../src/programs/commands/simulate/Arrivals.ts"
import { giveUp, send, type Behaviour } from "../../../../src/programs/commands/simulate/Behaviour.ts"
import { makeRun } from "../../../../src/programs/commands/simulate/FleetRun.ts"
import { machineBehaviour } from "../../../../src/programs/commands/simulate/MachineBehaviour.ts"
import { oracle } from "../../../../src/programs/commands/simulate/Oracle.ts"
import {
  makeScenario,
  type Limiter,
  type Scenario,
  type World
} from "../../../../src/programs/commands/simulate/World.ts"

const world: World = { slots: () => 10, outageFrom: null, limiter: null, refusals: null }
const full: World["slots"] = () => 0

const scenarioOf = (changes: Partial<World>): Scenario => ({
  ...makeScenario("steady", 10, 10),
  horizonMillis: 60_000,
  eventFrom: 0,
  eventTo: 10_000,
  world: { ...world, ...changes }
})

const arrivalsOf = (at: ReadonlyArray<number>, takes = 1_000): Arrivals => ({
  count: at.length,
  atMillis: Float64Array.from(at),
  serviceMillis: new Float64Array(at.length).fill(takes)
})

/** A client that sends and gives up, unless told otherwise, and what it was told. */
const scripted = (script: Partial<Behaviour>) => {
  const told: Array<string> = []
  const behaviour: Behaviour = {
    arrive: () => {},
    ask: () => send,
    routeOf: () => 0,
    accepted: (_, now) => told.push(`accepted at ${now}`),
    ended: (_, completed, now) => told.push(`${completed ? "done" : "over"} at ${now}`),
    endOf: () => Infinity,
    openBreakers: () => 0,
    ...script,
    failed: (request, status, hintMillis, now) => {
      told.push(`${status} at ${now}, hint ${hintMillis}`)
      return script.failed?.(request, status, hintMillis, now) ?? giveUp
    }
  }
  return { behaviour, told }
}

const play = (changes: Partial<World>, arrivals: Arrivals, script: Partial<Behaviour> = {}, rejectCost = 0) => {
  const { behaviour, told } = scripted(script)
  const run = makeRun({
    scenario: { ...scenarioOf(changes), rejectCost },
    arrivals,
    meanServiceMillis: 1_000,
    clients: 10,
    agentsPerProcess: 1,
    backgroundShare: 0,
    seed: 1,
    behaviour: () => behaviour
  })
  while (!run.advance(1));
  return { ...run.result(), told, progress: run.progress() }
}

const total = (counts: Int32Array): number => counts.reduce((sum, count) => sum + count, 0)

describe("the world", () => {
  it("serves a call that finds a slot and tells when it is taken and when it ends", () => {
    const { told, metrics } = play({}, arrivalsOf([500]))
    assert.deepStrictEqual(told, ["accepted at 500", "done at 1500"])
    assert.strictEqual(metrics.p50, 1)
  })

  it("rejects a call that finds no slot after 200 ms", () => {
    assert.deepStrictEqual(play({ slots: full }, arrivalsOf([0])).told, ["529 at 200, hint -1"])
    const one: Partial<World> = { slots: () => 1 }
    assert.include(play(one, arrivalsOf([0, 999])).told, "529 at 1199, hint -1")
    assert.include(play(one, arrivalsOf([0, 1_001])).told, "accepted at 1001")
  })

  it("loses capacity to rejections, for about a second, down to a quarter", () => {
    const four: Partial<World> = { slots: () => 4 }
    const atOnce = [0, 0, 0, 0, 1]
    const later = (at: number, rejectCost: number) =>
      play(four, arrivalsOf([...atOnce, at, at + 1], 100), {}, rejectCost).told.filter((line) =>
        /^accepted at [1-9]/.test(line)
      )
    assert.deepStrictEqual(later(200, 1_000), ["accepted at 200"])
    assert.deepStrictEqual(later(20_000, 1_000), ["accepted at 20000", "accepted at 20001"])
    assert.deepStrictEqual(later(200, 0.1), ["accepted at 200", "accepted at 201"])
  })

  it("kills what is under way when the outage begins", () => {
    const down: Partial<World> = { outageFrom: 5_000, slots: (_, now) => (now < 5_000 ? 10 : 0) }
    assert.deepStrictEqual(play(down, arrivalsOf([4_000], 2_000)).told, ["accepted at 4000", "529 at 5000, hint -1"])
    assert.deepStrictEqual(play(down, arrivalsOf([4_000], 1_000)).told, ["accepted at 4000", "done at 5000"])
    assert.deepStrictEqual(play(down, arrivalsOf([4_000], 2_000), { routeOf: () => 1 }).told, [
      "accepted at 4000",
      "done at 6000"
    ])
  })

  it("cuts a call off when it counts no more", () => {
    assert.deepStrictEqual(play({}, arrivalsOf([0], 1_000), { endOf: () => 999 }).told, [
      "accepted at 0",
      "over at 999"
    ])
    assert.deepStrictEqual(play({}, arrivalsOf([7], 400_000)).told, ["accepted at 7", "over at 300007"])
  })

  const limiter: Limiter = {
    perSecond: 1,
    burst: 2,
    blockedFrom: 10_000,
    blockedTo: 20_000,
    tellsWait: true,
    rejectedCost: 0
  }

  it("limits the whole fleet by one bucket and tells whole seconds, at least one", () => {
    const { told } = play({ limiter }, arrivalsOf([0, 0, 0, 10_000, 12_345, 19_999], 100))
    assert.deepStrictEqual(
      told.filter((line) => line.includes("429")),
      ["429 at 200, hint 1000", "429 at 10200, hint 10000", "429 at 12545, hint 8000", "429 at 20199, hint 1000"]
    )
  })

  it("tells no wait where the limiter does not", () => {
    const { told } = play({ limiter: { ...limiter, tellsWait: false } }, arrivalsOf([12_345], 100))
    assert.deepStrictEqual(told, ["429 at 12545, hint -1"])
  })

  it("lets rejected calls use the quota up where they count", () => {
    const sent = (rejectedCost: number) =>
      play({ limiter: { ...limiter, rejectedCost } }, arrivalsOf([0, 0, 0, 0, 0, 0, 1_000], 100)).told
    assert.include(sent(0), "accepted at 1000")
    assert.notInclude(sent(0.5), "accepted at 1000")
  })

  it("fails a wait that would reach 300 s at once, and grants a shorter one", () => {
    const late = play({}, arrivalsOf([0]), { ask: () => 300_000 })
    assert.deepStrictEqual(late.told, ["over at 0"])
    assert.strictEqual(total(late.timeline.failed), 1)
    const inTime = play({}, arrivalsOf([0]), { ask: (_, now) => (now === 0 ? 298_999 : send) })
    assert.deepStrictEqual(inTime.told, ["accepted at 298999", "done at 299999"])
    const retry = (wait: number) => play({ slots: full }, arrivalsOf([0]), { failed: () => wait })
    assert.deepStrictEqual(retry(299_800).told, ["529 at 200, hint -1", "over at 200"])
    assert.strictEqual(total(retry(299_799).timeline.sent), 2)
  })

  it("ends a request that gives up before it was sent", () => {
    const { timeline, told } = play({}, arrivalsOf([0]), { ask: () => giveUp })
    assert.deepStrictEqual(told, [])
    assert.deepStrictEqual([total(timeline.sent), total(timeline.failed)], [0, 1])
  })

  it("is over at once without a request", () => {
    const { progress, metrics } = play({}, arrivalsOf([]))
    assert.strictEqual(progress, 1)
    assert.strictEqual(metrics.judged, 0)
  })
})

describe("the oracle", () => {
  const limiter: Limiter = {
    perSecond: 1,
    burst: 2,
    blockedFrom: 1_000,
    blockedTo: 3_400,
    tellsWait: true,
    rejectedCost: 0
  }
  const sentOf = (changes: Partial<World>, arrivals: Arrivals) => {
    const { timeline, metrics } = oracle(scenarioOf(changes), arrivals)
    return { sent: Array.from(timeline.sent).slice(0, 8), metrics }
  }

  it("spends the limiter's tokens and waits while it is blocked", () => {
    const slots: World["slots"] = (route) => (route === 0 ? 10 : 0)
    const { sent, metrics } = sentOf({ limiter, slots }, arrivalsOf([0, 0, 0, 1_500]))
    assert.deepStrictEqual(sent, [2, 0, 0, 0, 1, 1, 0, 0])
    assert.deepStrictEqual([metrics.success, metrics.amp], [1, 1])
  })

  it("takes the fallback, which the limiter does not bind", () => {
    const { sent, metrics } = sentOf({ limiter }, arrivalsOf([0, 0, 0, 1_500]))
    assert.deepStrictEqual(sent, [3, 1, 0, 0, 0, 0, 0, 0])
    assert.strictEqual(metrics.fallbackShare, 0.5)
  })

  it("sends nothing that an outage would kill", () => {
    const slots: World["slots"] = (route, now) => (route === 1 || (now >= 2_500 && now < 5_000) ? 0 : 10)
    const { sent, metrics } = sentOf({ outageFrom: 2_500, slots }, arrivalsOf([1_000, 2_000]))
    assert.deepStrictEqual(sent, [0, 1, 0, 0, 0, 1, 0, 0])
    assert.strictEqual(metrics.amp, 1)
  })

  it("never sends what cannot end within 300 s", () => {
    const opens =
      (at: number): World["slots"] =>
      (route, now) =>
        route === 0 && now >= at ? 10 : 0
    assert.deepInclude(sentOf({ slots: full }, arrivalsOf([0])).metrics, { success: 0, amp: 0 })
    assert.deepInclude(sentOf({ slots: opens(298_900) }, arrivalsOf([0])).metrics, { success: 1, amp: 1 })
    assert.deepInclude(sentOf({ slots: opens(299_000) }, arrivalsOf([0])).metrics, { success: 0, amp: 0 })
  })
})

describe("a client that runs the library's machine", () => {
  const routes = [{ model: "primary" }, { model: "fallback" }]
  const clientOf = (preset: keyof typeof presets, chance: number, isBackground = false, routed = routes) => {
    const policy = new RecoveryPolicy({ ...presets[preset], routes: routed })
    const client = machineBehaviour({ policy, requests: 2, processes: 1, random: () => chance })
    client.arrive(0, 0, isBackground, 1_000)
    return client
  }
  /** The wait after a first attempt that fails. */
  const waitAfter = (client: Behaviour, status: 429 | 529, hintMillis: number): number => {
    assert.strictEqual(client.ask(0, 1_000), send)
    return client.failed(0, status, hintMillis, 1_200)
  }

  it.each([
    { preset: "strict", status: 529, hint: -1, chance: 0, wait: 500 },
    { preset: "strict", status: 529, hint: -1, chance: 1, wait: 625 },
    { preset: "strict", status: 429, hint: -1, chance: 0, wait: 500 },
    { preset: "strict", status: 429, hint: 7_000, chance: 0.5, wait: 7_000 },
    { preset: "broad", status: 429, hint: 10_000, chance: 0.5, wait: 20_000 },
    { preset: "broad", status: 429, hint: 1_000, chance: 0.5, wait: 1_125 },
    { preset: "background", status: 529, hint: -1, chance: 0, wait: giveUp }
  ] as const)(
    "$preset waits $wait ms after a $status with the hint $hint",
    ({ preset, status, hint, chance, wait }) => {
      assert.strictEqual(waitAfter(clientOf(preset, chance), status, hint), wait)
    }
  )

  it("sheds a background request at the first overload, whatever the preset of the others", () =>
    assert.strictEqual(waitAfter(clientOf("broad", 0, true), 529, -1), giveUp))

  it.each([
    { preset: "strict", end: 301_000 },
    { preset: "broad", end: 301_000 },
    { preset: "background", end: 61_000 },
    { preset: "unattended", end: Infinity }
  ] as const)("counts a reply to $preset until $end ms", ({ preset, end }) =>
    assert.strictEqual(clientOf(preset, 0).endOf(0), end)
  )

  it("opens the breaker of its process after three overloads and leaves the route at once", () => {
    const client = clientOf("broad", 0)
    for (const now of [1_000, 2_000]) {
      assert.strictEqual(client.ask(0, now), send)
      client.failed(0, 529, -1, now)
    }
    assert.strictEqual(client.openBreakers(0), 0)
    assert.strictEqual(client.ask(0, 4_000), send)
    assert.strictEqual(client.failed(0, 529, -1, 4_000), 50)
    assert.strictEqual(client.openBreakers(0), 1)
    assert.strictEqual(client.routeOf(0), 1)
    assert.strictEqual(client.ask(0, 4_050), send)
  })

  it("keeps a newcomer at an open breaker without another route until a probe may leave", () => {
    const client = clientOf("broad", 0, false, [{ model: "primary" }])
    for (const now of [1_000, 2_000, 4_000]) {
      assert.strictEqual(client.ask(0, now), send)
      client.failed(0, 529, -1, now)
    }
    client.arrive(1, 0, false, 4_100)
    assert.strictEqual(client.ask(1, 4_100), 6_500)
    client.arrive(1, 0, true, 4_200)
    assert.strictEqual(client.ask(1, 4_200), giveUp)
  })

  it("is a mistake of the driver to ask for a request that is not under way", () => {
    const client = clientOf("broad", 0)
    assert.throws(() => client.ask(1, 0), RangeError, "request 1 is not under way")
    client.ended(0, true, 2_000)
    assert.throws(() => client.ended(0, true, 2_000), RangeError, "request 0 is not under way")
  })
})
