/** One line of a simulation's result: what `--json` prints per seed, and its mean over seeds for people. */
import { tableLines } from "../../../domain/failure/wording.ts"
import type { FleetMetrics } from "./FleetMetrics.ts"
import { peerNames } from "./Peers.ts"

export interface FleetRow {
  readonly scenario: string
  readonly policy: string
  readonly clients: number
  readonly agentsPerProcess: number
  readonly seed: number
  /** Share of the logical requests that got a reply, 0..1. */
  readonly success: number
  /** Requests sent per logical request. */
  readonly amp: number
  /** Mean completion time against the oracle's, failures counted as 300 s. */
  readonly lossRatio: number
  /** Seconds. */
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly peak5s: number
  readonly herd1s: number
  readonly fallbackShare: number
  readonly fallbackAfter: number
  /** Seconds after the event until rejections are rare; null = not within 300 s. */
  readonly recoverySeconds: number | null
  readonly foregroundSuccess: number
}

/** Digits that mean something; the rest is noise of floats. */
const round = (value: number): number => Math.round(value * 1e4) / 1e4

export const rowOf = (
  run: Pick<FleetRow, "scenario" | "policy" | "clients" | "agentsPerProcess" | "seed">,
  metrics: FleetMetrics,
  oracle: FleetMetrics
): FleetRow => ({
  scenario: run.scenario,
  policy: run.policy,
  clients: run.clients,
  agentsPerProcess: run.agentsPerProcess,
  seed: run.seed,
  success: round(metrics.success),
  amp: round(metrics.amp),
  lossRatio: round(oracle.meanCost === 0 ? 1 : metrics.meanCost / oracle.meanCost),
  p50: round(metrics.p50),
  p95: round(metrics.p95),
  p99: round(metrics.p99),
  peak5s: round(metrics.peak5s),
  herd1s: round(metrics.herd1s),
  fallbackShare: round(metrics.fallbackShare),
  fallbackAfter: round(metrics.fallbackAfter),
  recoverySeconds: metrics.recoverySeconds === null ? null : round(metrics.recoverySeconds),
  foregroundSuccess: round(metrics.foregroundSuccess)
})

const numbers = [
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
  "foregroundSuccess"
] as const

/** Means over the seeds of one policy. A recovery that one seed never saw is none. */
export const meanOf = (rows: readonly [FleetRow, ...ReadonlyArray<FleetRow>]): FleetRow => {
  const [first] = rows
  const mean = (read: (row: FleetRow) => number): number => rows.reduce((sum, row) => sum + read(row), 0) / rows.length
  const means = Object.fromEntries(numbers.map((name) => [name, mean((row) => row[name])]))
  const recoveries = rows.flatMap((row) => (row.recoverySeconds === null ? [] : [row.recoverySeconds]))
  return {
    ...first,
    ...means,
    recoverySeconds:
      recoveries.length < rows.length ? null : recoveries.reduce((sum, value) => sum + value, 0) / rows.length
  }
}

const percent = (value: number): string => (100 * value).toFixed(value > 0.9995 && value < 1 ? 2 : 1)

const columns: ReadonlyArray<readonly [title: string, cell: (row: FleetRow) => string]> = [
  ["policy", (row) => row.policy],
  ["success %", (row) => percent(row.success)],
  ["amp", (row) => row.amp.toFixed(2)],
  ["loss", (row) => row.lossRatio.toFixed(2)],
  ["p50 s", (row) => row.p50.toFixed(1)],
  ["p95 s", (row) => row.p95.toFixed(1)],
  ["p99 s", (row) => row.p99.toFixed(1)],
  ["peak 5 s", (row) => `${row.peak5s.toFixed(1)}x`],
  ["herd 1 s", (row) => `${row.herd1s.toFixed(1)}x`],
  ["fallback %", (row) => percent(row.fallbackShare)],
  ["after %", (row) => percent(row.fallbackAfter)],
  ["recovery s", (row) => (row.recoverySeconds === null ? "-" : row.recoverySeconds.toFixed(0))]
]

const withForeground = (rows: ReadonlyArray<FleetRow>): typeof columns =>
  rows.some((row) => row.foregroundSuccess !== row.success)
    ? [
        ...columns.slice(0, 2),
        ["foreground %", (row: FleetRow) => percent(row.foregroundSuccess)] as const,
        ...columns.slice(2)
      ]
    : columns

const linesOf = (shown: typeof columns, rows: ReadonlyArray<FleetRow>): ReadonlyArray<ReadonlyArray<string>> => [
  shown.map(([title]) => title),
  ...rows.map((row) => shown.map(([, cell]) => cell(row)))
]

/** What the columns mean and who is compared, a sentence each; for below a table. */
export const tableLegend: ReadonlyArray<string> = [
  "amp: requests sent per logical request. loss: mean completion time with a failure counted as 300 s, against an oracle that knows the capacity.",
  "peak and herd: highest rate during five seconds, and during one second of the minute after the event, against the rate before.",
  "fallback and after: share of the requests that went to the fallback, in all and after the event. recovery: time until ten seconds in a row have at most 2 % rejections.",
  `The peers (${peerNames.join(", ")}) retry as they do by default: none has a fallback or a memory, so a policy with a fallback is ahead of them by that alone. The scenarios named -nofb have none for anybody.`
]

/** Cells of a table, the title row first. */
export const cellsOf = (rows: ReadonlyArray<FleetRow>): ReadonlyArray<ReadonlyArray<string>> =>
  linesOf(withForeground(rows), rows)

/** A table for a terminal: the first column to the left, numbers to the right. */
export const tableOf = (rows: ReadonlyArray<FleetRow>): string =>
  tableLines(cellsOf(rows), (column) => column > 0).join("\n")
