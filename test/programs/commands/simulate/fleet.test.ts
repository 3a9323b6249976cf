import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { presets, RecoveryPolicy } from "../../../../src/domain/recovery/RecoveryPolicy.ts"
import { makeArrivals } from "../../../../src/programs/commands/simulate/Arrivals.ts"
import { EventQueue } from "../../../../src/programs/commands/simulate/EventQueue.ts"
import { htmlOf, spanOf, terminalChart } from "../../../../src/programs/commands/simulate/FleetChart.ts"
import { makeRun, type FleetResult } from "../../../../src/programs/commands/simulate/FleetRun.ts"
import { rowOf } from "../../../../src/programs/commands/simulate/FleetRow.ts"
import { builtIn, fromCsv, maxRows, meanServiceMillis } from "../../../../src/programs/commands/simulate/LoadTrace.ts"
import { machineBehaviour } from "../../../../src/programs/commands/simulate/MachineBehaviour.ts"
import { oracle } from "../../../../src/programs/commands/simulate/Oracle.ts"
import { peerBehaviour, peerNames, type PeerName } from "../../../../src/programs/commands/simulate/Peers.ts"
import {
  makeScenario,
  requestsPerClient,
  slotsFor,
  type ScenarioName
} from "../../../../src/programs/commands/simulate/World.ts"
import { runs } from "../../../support/runs.ts"

const trace = builtIn()
const mean = meanServiceMillis(trace)

const worldOf = (name: ScenarioName, clients: number, seed: number) => {
  const scenario = makeScenario(name, clients, slotsFor(name, clients, mean))
  const arrivals = makeArrivals({
    trace,
    perSecond: clients * requestsPerClient,
    horizonMillis: scenario.horizonMillis,
    seed,
    boost: scenario.boost,
    burst: scenario.burst
  })
  return { scenario, arrivals }
}

interface Options {
  readonly clients?: number
  readonly agentsPerProcess?: number
  readonly seed?: number
  readonly slice?: number
  readonly backgroundShare?: number
}

const routes = [{ model: "primary" }, { model: "fallback" }]
const policies = {
  strict: new RecoveryPolicy({ ...presets.strict, routes }),
  broad: new RecoveryPolicy({ ...presets.broad, routes })
}

const simulate = (name: ScenarioName, who: keyof typeof policies | PeerName, options: Options = {}): FleetResult => {
  const clients = options.clients ?? 1_000
  const seed = options.seed ?? 1
  const run = makeRun({
    ...worldOf(name, clients, seed),
    meanServiceMillis: mean,
    clients,
    agentsPerProcess: options.agentsPerProcess ?? 1,
    backgroundShare: options.backgroundShare ?? 0,
    seed,
    behaviour: (requests, processes, random) =>
      who === "strict" || who === "broad"
        ? machineBehaviour({ policy: policies[who], requests, processes, random })
        : peerBehaviour(who, requests, random)
  })
  while (!run.advance(options.slice ?? Infinity)) assert.isBelow(run.progress(), 1.0001)
  return run.result()
}

const average = (values: ReadonlyArray<number>): number => values.reduce((sum, value) => sum + value, 0) / values.length
const seeds = [1, 2, 3, 4, 5]

describe("the world", () => {
  it.each([
    { name: "brownout", success: 100, amp: 1.75 },
    { name: "brownout-nofb", success: 83.7, amp: 2.75 },
    { name: "outage120", success: 97.6, amp: 5.24 },
    { name: "outage120-nofb", success: 24, amp: 7.94 },
    { name: "perm-overload", success: 100, amp: 3.97 },
    { name: "flash5", success: 72.1, amp: 6.04 },
    { name: "herd", success: 82.9, amp: 3.76 },
    { name: "herd-counted", success: 5.6, amp: 9.81 }
  ] as const)("gives the strict preset $success % and $amp requests per call in $name", ({ name, success, amp }) => {
    const found = seeds.map((seed) => simulate(name, "strict", { seed }).metrics)
    assert.approximately(100 * average(found.map((one) => one.success)), success, 3)
    assert.approximately(average(found.map((one) => one.amp)), amp, amp / 10)
  })

  it("leaves nothing to recover under steady load", () => {
    const { metrics } = simulate("steady", "broad")
    assert.strictEqual(metrics.success, 1)
    assert.strictEqual(metrics.amp, 1)
    const { scenario, arrivals } = worldOf("steady", 1_000, 1)
    assert.approximately(metrics.meanCost, oracle(scenario, arrivals).metrics.meanCost, 0.01)
  })

  it("lets the oracle send every request once", () => {
    const { scenario, arrivals } = worldOf("outage120", 300, 1)
    const { metrics } = oracle(scenario, arrivals)
    assert.strictEqual(metrics.success, 1)
    assert.strictEqual(metrics.amp, 1)
  })
})

describe("the preset broad", () => {
  it.each([
    { name: "brownout", agents: 1, success: 0.999, amp: 1.6 },
    { name: "brownout", agents: 100, success: 0.999, amp: 1.35 },
    { name: "brownout-nofb", agents: 100, success: 0.999, amp: 1.7 },
    { name: "outage20", agents: 100, success: 0.999, amp: 1.35 },
    { name: "outage120", agents: 1, success: 0.995, amp: 3.7 },
    { name: "outage120", agents: 100, success: 0.995, amp: 1.8 },
    { name: "perm-overload", agents: 100, success: 0.999, amp: 1.15 },
    { name: "herd", agents: 1, success: 1, amp: 2 },
    { name: "herd-counted", agents: 100, success: 0.999, amp: 1.5 },
    { name: "herd-nora", agents: 100, success: 0.999, amp: 2.4 },
    { name: "flash5", agents: 100, success: 0.995, amp: 2.3 },
    { name: "metastable", agents: 100, success: 0.999, amp: 1.5 }
  ] as const)("keeps $success of $name with $agents agents in a process at $amp", ({ name, agents, success, amp }) => {
    const { metrics } = simulate(name, "broad", { agentsPerProcess: agents })
    assert.isAtLeast(metrics.success, success)
    assert.isAtMost(metrics.amp, amp)
  })

  it("succeeds at least as often as the best peer", () => {
    const ours = simulate("outage120", "broad", { agentsPerProcess: 100 }).metrics.success
    for (const peer of peerNames) assert.isAtLeast(ours, simulate("outage120", peer).metrics.success)
  })

  it("serves the foreground when a share of the load is background", () => {
    const { metrics } = simulate("outage120-nofb", "broad", { backgroundShare: 0.3 })
    assert.isAtLeast(metrics.foregroundSuccess, 0.94)
    assert.isBelow(metrics.success, metrics.foregroundSuccess)
  })
})

describe("a run", () => {
  it("has one result for one seed, in whatever slices it is advanced", () => {
    const whole = simulate("flash5", "broad", { clients: 200, agentsPerProcess: 10 })
    const sliced = simulate("flash5", "broad", { clients: 200, agentsPerProcess: 10, slice: 97 })
    assert.deepStrictEqual(sliced, whole)
    assert.notDeepEqual(simulate("flash5", "broad", { clients: 200, agentsPerProcess: 10, seed: 2 }), whole)
  })

  it("ends every logical request exactly once", () => {
    const { timeline } = simulate("outage120-nofb", "broad", { clients: 200 })
    const { arrivals } = worldOf("outage120-nofb", 200, 1)
    const ended = [...timeline.completed, ...timeline.failed].reduce((sum, count) => sum + count, 0)
    assert.strictEqual(ended, arrivals.count)
  })

  it("takes its decisions from the library's own machines and holds no copy of them", () => {
    const source = readFileSync(
      new URL("../../../../src/programs/commands/simulate/MachineBehaviour.ts", import.meta.url),
      "utf8"
    )
    for (const [name, file] of [
      ["transition", "RecoveryMachine"],
      ["admit", "Admission"],
      ["report", "Admission"]
    ])
      assert.match(source, new RegExp(`import \\{[^}]*\\b${name}\\b[^}]*\\} from "[./]*/domain/\\w+/${file}\\.ts"`))
    assert.notMatch(source, /coolDown|failureShare|fallbackAfter|maxAttempts|retryAfter/)
  })
})

describe("a load trace", () => {
  it("is read from CSV in any order of columns and rows", () => {
    const read = fromCsv('"out_tokens",t_ms, "in_tokens"\n5,3000,10\n"7",1000,20\n')
    assert.isTrue(Result.isSuccess(read))
    if (Result.isFailure(read)) return
    assert.deepStrictEqual([...read.success.atMillis], [0, 2_000])
    assert.deepStrictEqual([...read.success.inputTokens], [20, 10])
    assert.deepStrictEqual([...read.success.outputTokens], [7, 5])
  })

  it.each([
    ["t_ms,in_tokens\n1,2\n2,3", "has no column out_tokens"],
    ["t_ms,in_tokens,out_tokens", "needs at least two rows at different t_ms"],
    ["t_ms,in_tokens,out_tokens\n1,2,3", "needs at least two rows at different t_ms"],
    ["t_ms,in_tokens,out_tokens\n1,2,3\n1,4,5", "needs at least two rows at different t_ms"],
    ["t_ms,in_tokens,out_tokens\n1,2,x", "has no numbers >= 0 in row 2"],
    ["t_ms,in_tokens,out_tokens\n1,2,3\n4,,6", "has no numbers >= 0 in row 3"],
    ["t_ms,in_tokens,out_tokens\n1,2,3\n4,-5,6", "has no numbers >= 0 in row 3"],
    ["t_ms,in_tokens,out_tokens\n1,2,3\n4,5", "has no numbers >= 0 in row 3"],
    ["t_ms,in_tokens,out_tokens\n1,2,3\n4,5,many", "has no numbers >= 0 in row 3"],
    ["", "has no column t_ms"]
  ])("refuses %j", (text, reason) => {
    const read = fromCsv(text)
    assert.strictEqual(Result.isFailure(read) ? read.failure.reason : "read", reason)
  })

  it("is refused when a row's number and its time cannot share one float", () => {
    const read = fromCsv(`t_ms,in_tokens,out_tokens\n${"1\n".repeat(maxRows + 1)}`)
    assert.strictEqual(Result.isFailure(read) ? read.failure.reason : "read", `has more than ${maxRows} rows`)
  })

  it.each([
    { times: [0, 3_000, 9_000], quantum: 3_000, span: 12_000 },
    { times: [5, 5, 6.5], quantum: 1.5, span: 3 }
  ])("has the smallest distance of $times as its resolution: $quantum ms", ({ times, quantum, span }) => {
    const read = fromCsv(["t_ms,in_tokens,out_tokens", ...times.map((at) => `${at},1,1`)].join("\n"))
    if (Result.isFailure(read)) return assert.fail("not read")
    assert.strictEqual(read.success.quantumMillis, quantum)
    assert.strictEqual(read.success.spanMillis, span)
    return undefined
  })

  it("is repeated when the run is longer", () => {
    const short = fromCsv("t_ms,in_tokens,out_tokens\n0,10,10\n1000,10,10\n2000,10,10\n")
    if (Result.isFailure(short)) return assert.fail("not read")
    const arrivals = makeArrivals({
      trace: short.success,
      perSecond: 2,
      horizonMillis: 60_000,
      seed: 1,
      boost: null,
      burst: null
    })
    assert.approximately(arrivals.count, 120, 12)
    assert.isAbove(arrivals.atMillis[arrivals.count - 1] ?? 0, 55_000)
    assert.deepStrictEqual(
      [...arrivals.atMillis],
      [...arrivals.atMillis].sort((a, b) => a - b)
    )
    return undefined
  })

  it("built in has the lengths and the burstiness of the conversation trace", () => {
    const mid = (values: Float64Array): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0
    assert.approximately(mean, 7_515, 150)
    assert.approximately(mid(trace.inputTokens), 6_900, 350)
    assert.approximately(mid(trace.outputTokens), 350, 15)
    const windows = new Float64Array(Math.round(trace.spanMillis / 3_000))
    for (const at of trace.atMillis) windows[Math.floor(at / 3_000)] = (windows[Math.floor(at / 3_000)] ?? 0) + 1
    const calls = average([...windows])
    assert.approximately(calls, 10.2, 0.5)
    assert.approximately(average([...windows].map((count) => (count - calls) ** 2)), 59, 9)
  })
})

const Times = Schema.Array(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1e6 })))

it.effect.prop(
  "hands events out in order of time",
  { times: Times },
  ({ times }) =>
    Effect.sync(() => {
      const queue = new EventQueue()
      for (const [i, at] of times.entries()) queue.push(at, i % 6, i)
      const out: Array<number> = []
      while (queue.size > 0) {
        queue.pop()
        assert.strictEqual(queue.atMillis, times[queue.subject])
        assert.strictEqual(queue.kind, queue.subject % 6)
        out.push(queue.atMillis)
      }
      // Zero and minus zero are the same instant.
      const instants = (list: ReadonlyArray<number>): ReadonlyArray<number> => list.map((at) => at + 0)
      assert.deepStrictEqual(instants(out), instants([...times].sort((a, b) => a - b)))
    }),
  { arbitrary: { runs: runs(200) } }
)

it("hands out more events than it was made for", () => {
  const queue = new EventQueue()
  const count = 10_000
  for (let i = 0; i < count; i++) queue.push((i * 7_919) % count, i % 6, i)
  for (let at = 0; at < count; at++) {
    assert.strictEqual(queue.nextAt, at)
    queue.pop()
    assert.strictEqual((queue.subject * 7_919) % count, at)
    assert.strictEqual(queue.kind, queue.subject % 6)
  }
  assert.strictEqual(queue.nextAt, Infinity)
})

describe("the report", () => {
  const { scenario, arrivals } = worldOf("outage20", 100, 1)
  const best = oracle(scenario, arrivals)
  const result = simulate("outage20", "broad", { clients: 100 })
  const row = rowOf(
    { scenario: "outage20", policy: "mine <&>", clients: 100, agentsPerProcess: 1, seed: 1 },
    result.metrics,
    best.metrics
  )

  it("has exactly the fields machines read", () =>
    assert.deepStrictEqual(Object.keys(row), [
      "scenario",
      "policy",
      "clients",
      "agentsPerProcess",
      "seed",
      "success",
      "amp",
      "lossRatio",
      "p50",
      "p95",
      "p99",
      "peak5s",
      "herd1s",
      "fallbackShare",
      "fallbackAfter",
      "recoverySeconds",
      "foregroundSuccess"
    ]))

  it("draws four lines and an axis for a terminal", () => {
    const lines = terminalChart(result.timeline, scenario, 60).split("\n")
    assert.strictEqual(lines.length, 6)
    assert.match(lines[4] ?? "", /─+━+─+ ━ event/)
    assert.strictEqual(spanOf(scenario).fromSecond, 60)
  })

  it("is a page that needs nothing else and escapes names", () => {
    const page = htmlOf("outage", [row], [{ name: row.policy, timeline: result.timeline }], scenario)
    assert.include(page, "mine &lt;&amp;&gt;")
    assert.notMatch(page, /<script|<link|<img|src=|href=|url\(/)
    assert.include(page, "<svg")
  })
})
