import { assert, describe, it } from "@effect/vitest"
import { htmlOf, svgOf } from "../../../../src/programs/commands/simulate/FleetChart.ts"
import {
  makeTimeline,
  measure,
  type Endings,
  type FleetMetrics
} from "../../../../src/programs/commands/simulate/FleetMetrics.ts"
import { cellsOf, meanOf, rowOf, tableOf, type FleetRow } from "../../../../src/programs/commands/simulate/FleetRow.ts"
import { numberAt } from "../../../../src/programs/commands/numberAt.ts"
import { makeScenario } from "../../../../src/programs/commands/simulate/World.ts"

const event = { eventFrom: 100_000, eventTo: 110_000 }

interface Ending {
  readonly arrived: number
  /** null = it failed. */
  readonly took: number | null
  readonly attempts?: number
  readonly route?: number
  readonly background?: boolean
}

const endingsOf = (list: ReadonlyArray<Ending>): Endings => ({
  count: list.length,
  arrivedAt: Float64Array.from(list, ({ arrived }) => arrived),
  endedAt: Float64Array.from(list, ({ arrived, took }) => arrived + (took ?? 300_000)),
  succeeded: Uint8Array.from(list, ({ took }) => (took === null ? 0 : 1)),
  attempts: Uint16Array.from(list, ({ attempts }) => attempts ?? 1),
  route: Uint8Array.from(list, ({ route }) => route ?? 0),
  background: Uint8Array.from(list, ({ background }) => (background === true ? 1 : 0))
})

const rows: ReadonlyArray<Ending> = [
  { arrived: 99_999, took: null, attempts: 50 },
  { arrived: 100_000, took: 2_000 },
  { arrived: 105_000, took: 4_000, attempts: 3, route: 1 },
  { arrived: 169_999, took: 6_000, attempts: 2, background: true },
  { arrived: 169_999, took: null, attempts: 4, background: true },
  { arrived: 170_000, took: 1_000, route: 1, attempts: 50 },
  { arrived: 289_999, took: 1_000 },
  { arrived: 290_000, took: 1_000, route: 1 }
]

const timelineOf = (sent: (second: number) => number, rejected: (second: number) => number) => {
  const timeline = makeTimeline(500)
  for (let second = 0; second < 500; second++) {
    timeline.sent[second] = sent(second)
    timeline.rejected[second] = rejected(second)
  }
  return timeline
}

describe("a run's measures", () => {
  const timeline = timelineOf(
    (second) => (second < 100 ? 2 : second < 105 ? 16 : second === 169 ? 14 : second === 170 ? 20 : 10),
    (second) => (second >= 100 && second < 115 ? 5 : 0)
  )
  const found = measure(event, timeline, endingsOf(rows))

  it("judge what arrived from the start of the event to a minute after its end", () => {
    assert.strictEqual(found.judged, 4)
    assert.strictEqual(found.success, 3 / 4)
    assert.strictEqual(found.foregroundSuccess, 1)
    assert.strictEqual(found.amp, 10 / 4)
    assert.strictEqual(found.fallbackShare, 1 / 3)
  })

  it("take percentiles of the replies, in seconds", () => {
    assert.deepStrictEqual([found.p50, found.p95, found.p99], [4, 6, 6])
  })

  it("count a failure as 300 s", () => assert.strictEqual(found.meanCost, (2 + 4 + 6 + 300) / 4))

  it("tell the fallback's share of one to three minutes after the event", () =>
    assert.strictEqual(found.fallbackAfter, 1 / 2))

  it("compare rates with the one before the event: five seconds from its start, one second of the minute after it", () => {
    assert.strictEqual(found.peak5s, 16 / 2)
    assert.strictEqual(found.herd1s, 14 / 2)
  })

  it("call it recovered when ten seconds in a row have at most 2 % rejections", () => {
    assert.strictEqual(found.recoverySeconds, 5)
    const share = (rejected: number) =>
      timelineOf(
        () => 100,
        (second) => (second % 10 === 0 ? rejected : 0)
      )
    assert.strictEqual(measure(event, share(20), endingsOf(rows)).recoverySeconds, 0)
    assert.isNull(measure(event, share(21), endingsOf(rows)).recoverySeconds)
  })

  it("are zero, and percentiles none, when nothing was sent", () => {
    const nothing = measure(event, makeTimeline(500), endingsOf([]))
    assert.deepStrictEqual(nothing, {
      judged: 0,
      success: 0,
      foregroundSuccess: 0,
      amp: 0,
      p50: NaN,
      p95: NaN,
      p99: NaN,
      meanCost: 0,
      peak5s: 0,
      herd1s: 0,
      fallbackShare: 0,
      fallbackAfter: 0,
      recoverySeconds: null
    })
  })

  it("show a place outside a list instead of taking it for zero", () => {
    assert.strictEqual(numberAt(Int32Array.of(7), 0), 7)
    assert.isNaN(numberAt([7], 1))
    assert.isNaN(numberAt([7], -1))
  })
})

const metrics: FleetMetrics = {
  judged: 4,
  success: 0.75,
  foregroundSuccess: 0.75,
  amp: 2.5,
  p50: 4,
  p95: 6,
  p99: 6,
  meanCost: 78,
  peak5s: 6,
  herd1s: 7,
  fallbackShare: 1 / 3,
  fallbackAfter: 0.5,
  recoverySeconds: 5.00004
}
const about = { scenario: "herd", policy: "mine", clients: 10, agentsPerProcess: 5, seed: 3 }
const row = rowOf(about, metrics, { ...metrics, meanCost: 52 })

describe("a row", () => {
  it("compares the cost with the oracle's, in four digits", () => {
    assert.strictEqual(row.lossRatio, 1.5)
    assert.strictEqual(row.fallbackShare, 0.3333)
    assert.strictEqual(row.recoverySeconds, 5)
    assert.strictEqual(rowOf(about, metrics, { ...metrics, meanCost: 0 }).lossRatio, 1)
    assert.isNull(rowOf(about, { ...metrics, recoverySeconds: null }, metrics).recoverySeconds)
  })

  it("is a mean over seeds, and never recovered when one seed never was", () => {
    const second: FleetRow = { ...row, seed: 4, success: 0.25, amp: 3.5, recoverySeconds: 8 }
    const mean = meanOf([row, second])
    assert.deepStrictEqual(
      { ...mean },
      { ...row, success: 0.5, amp: 3, recoverySeconds: 6.5, fallbackShare: mean.fallbackShare }
    )
    assert.approximately(mean.fallbackShare, 0.3333, 1e-9)
    assert.isNull(meanOf([row, { ...second, recoverySeconds: null }]).recoverySeconds)
  })
})

describe("a table", () => {
  const other: FleetRow = { ...row, policy: "the other", success: 0.9996, foregroundSuccess: 0.9996, p99: 120.25 }

  it("has names to the left, numbers to the right, one width per column", () => {
    const [head = "", first = "", second = ""] = tableOf([row, other]).split("\n")
    assert.match(head, /^policy {5}success % {3}amp {2}loss /)
    assert.match(first, /^mine {12}75\.0 {2}2\.50 {2}1\.50 /)
    assert.match(second, /^the other {6}99\.96 {2}2\.50 /)
    assert.strictEqual(first.length, head.length)
    assert.strictEqual(second.length, head.length)
  })

  it("tells a share that only rounds to all from all", () => {
    const cells = (success: number) => cellsOf([{ ...row, success, foregroundSuccess: success }])[1]?.[1]
    assert.deepStrictEqual([cells(1), cells(0.9996), cells(0.9995), cells(0)], ["100.0", "99.96", "100.0", "0.0"])
  })

  it("has a column for the foreground only where it fares otherwise", () => {
    assert.notInclude(cellsOf([row])[0] ?? [], "foreground %")
    const [head, cells] = cellsOf([{ ...row, foregroundSuccess: 0.9 }])
    assert.deepStrictEqual(head?.slice(0, 4), ["policy", "success %", "foreground %", "amp"])
    assert.deepStrictEqual(cells?.slice(0, 4), ["mine", "75.0", "90.0", "2.50"])
  })

  it("shows a recovery that never came as a dash", () => {
    assert.strictEqual(cellsOf([row])[1]?.at(-1), "5")
    assert.strictEqual(cellsOf([{ ...row, recoverySeconds: null }])[1]?.at(-1), "-")
  })
})

describe("a drawing", () => {
  const scenario = makeScenario("outage20", 100, 10)
  const runs = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ name: `run ${i}`, timeline: makeTimeline(1_000) }))

  it("gives each of nine runs a colour of its own in every panel, and all others black", () => {
    const lines = (svg: string) =>
      [...svg.matchAll(/<polyline [^>]*stroke="(#[0-9a-f]{6})"/g)].map(([, colour]) => colour)
    const nine = lines(svgOf(runs(9), scenario))
    assert.strictEqual(nine.length, 4 * 9)
    assert.strictEqual(new Set(nine).size, 9)
    const eleven = lines(svgOf(runs(11), scenario))
    assert.deepStrictEqual(eleven.slice(0, 9), nine.slice(0, 9))
    assert.deepStrictEqual(eleven.slice(9, 11), ["#000000", "#000000"])
  })

  it("is a whole document without a run", () => {
    assert.match(svgOf([], scenario), /^<svg [\s\S]*<\/svg>$/)
    assert.notInclude(svgOf([], scenario), "polyline")
    assert.include(htmlOf("none", [], [], scenario), "<th>policy</th>")
  })
})
