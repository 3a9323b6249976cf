import { assert, describe, it } from "@effect/vitest"
import { presets, RecoveryPolicy } from "../../../../src/domain/recovery/RecoveryPolicy.ts"
import { makeArrivals } from "../../../../src/programs/commands/simulate/Arrivals.ts"
import {
  isLoadName,
  loadNames,
  makeLoad,
  type LoadName
} from "../../../../src/programs/commands/simulate/BuiltInLoads.ts"
import { makeRun } from "../../../../src/programs/commands/simulate/FleetRun.ts"
import type { FleetMetrics } from "../../../../src/programs/commands/simulate/FleetMetrics.ts"
import { meanServiceMillis } from "../../../../src/programs/commands/simulate/LoadTrace.ts"
import { machineBehaviour } from "../../../../src/programs/commands/simulate/MachineBehaviour.ts"
import {
  makeScenario,
  requestsPerClient,
  slotsFor,
  type ScenarioName
} from "../../../../src/programs/commands/simulate/World.ts"

const routes = [{ model: "primary" }, { model: "fallback" }]
const policies = {
  broad: new RecoveryPolicy({ ...presets.broad, routes }),
  strict: new RecoveryPolicy({ ...presets.strict, routes }),
  patient: new RecoveryPolicy({ ...presets.strict, retry: [...presets.strict.retry, "serverError"], routes })
}

const simulate = (
  name: ScenarioName,
  who: keyof typeof policies,
  load: LoadName = "chat",
  clients = 200
): FleetMetrics => {
  const trace = makeLoad(load)
  const mean = meanServiceMillis(trace)
  const scenario = makeScenario(name, clients, slotsFor(name, clients, mean))
  const { boost, burst, horizonMillis } = scenario
  const run = makeRun({
    scenario,
    arrivals: makeArrivals({ trace, perSecond: clients * requestsPerClient, horizonMillis, seed: 1, boost, burst }),
    meanServiceMillis: mean,
    clients,
    agentsPerProcess: 100,
    backgroundShare: 0,
    seed: 1,
    behaviour: (requests, processes, random) => machineBehaviour({ policy: policies[who], requests, processes, random })
  })
  while (!run.advance(Infinity)) assert.isBelow(run.progress(), 1.0001)
  return run.result().metrics
}

describe("a built-in load", () => {
  it.each([
    { name: "short", millis: 500 },
    { name: "completions", millis: 1_500 },
    { name: "chat", millis: 7_500 },
    { name: "long", millis: 30_000 }
  ] as const)("$name takes about $millis ms per call, and is the same sample each time", ({ name, millis }) => {
    const load = makeLoad(name)
    assert.approximately(meanServiceMillis(load), millis, millis / 20)
    assert.deepStrictEqual(makeLoad(name), load)
  })

  it("comes in bursts where people type", () => {
    const peakOf = (name: LoadName): number => {
      const { atMillis } = makeLoad(name)
      const counts = new Map<number, number>()
      for (const at of atMillis) counts.set(Math.floor(at / 10_000), (counts.get(Math.floor(at / 10_000)) ?? 0) + 1)
      return Math.max(...counts.values()) / (atMillis.length / 360)
    }
    assert.isAbove(peakOf("completions"), 4)
    assert.isBelow(peakOf("long"), 3)
  })

  it("is known by its name", () => {
    assert.isTrue(loadNames.every(isLoadName))
    assert.isFalse(isLoadName("load.csv"))
  })
})

describe("in ordinary trouble the preset broad", () => {
  it.each([
    { name: "refusals", beside: "strict", times: 1.25 },
    { name: "first500", beside: "patient", times: 1.5 },
    { name: "first429", beside: "strict", times: 1.25 }
  ] as const)("answers every request of $name within $times times the p95 of $beside", ({ name, beside, times }) => {
    const ours = simulate(name, "broad")
    assert.strictEqual(ours.success, 1)
    assert.isAtMost(ours.p95, times * simulate(name, beside).p95)
  })

  it("starves nobody at a limiter that is too small for everybody at once, with fewer requests than strict", () => {
    const ours = simulate("limiter", "broad")
    assert.strictEqual(ours.success, 1)
    assert.isBelow(ours.amp, simulate("limiter", "strict").amp)
  })
})

describe("with short calls the preset broad", () => {
  it.each([
    { name: "brownout-nofb", load: "short", p95: 120 },
    { name: "outage20", load: "completions", p95: 25 }
  ] as const)("saves all of $name with p95 below $p95 s under $load", ({ name, load, p95 }) => {
    const found = simulate(name, "broad", load, 1_000)
    assert.isAtLeast(found.success, 0.999)
    assert.isBelow(found.p95, p95)
  })
})
