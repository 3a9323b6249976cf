/**
 * `npm run bench:recovery [-- CASE ...]`: how clients get through a provider's bad minutes, on the real clock, against one
 * provider in a process of its own. The cases come one after the other; within a case all clients run at once, each
 * three times (`repeats`), every time in a lane of its own with its own clock; of some cases the clients come one after the
 * other, once each. Exit 1 when a target is missed.
 */
import { cpus, loadavg } from "node:os"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { startProcess } from "../provider.ts"
import { versionOf } from "../load.ts"
import { cases, isCase, limit, promptOf, replyMillis, replyOf, type Case, type CaseName } from "./cases.ts"
import { holdfastNames, makeHoldfast } from "./holdfast.ts"
import { makePeer, peerNames, type Subject } from "./peers.ts"

const repeats = 3
/** Healthy calls of each client before its clock begins. */
const warmUp = 3

interface Run {
  readonly answered: number
  readonly calls: number
  /** Requests sent per call. */
  readonly perCall: number
  /** Of all calls that were answered, milliseconds. */
  readonly p50: number
  readonly p95: number
  readonly longest: number
  /** Retries that came before the instant their call was told to wait for. */
  readonly early: number
}

interface Row {
  readonly name: string
  readonly runs: ReadonlyArray<Run>
}

const sleep = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

const percentile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN

/** Milliseconds until the right reply; null = there was none. */
const ask = async (subject: Subject, call: number): Promise<number | null> => {
  const before = performance.now()
  try {
    const text = await subject.ask(promptOf(call))
    return text === replyOf(call) ? performance.now() - before : null
  } catch {
    return null
  }
}

const isSeen = (told: unknown): told is { readonly requests: number; readonly early: number } =>
  typeof told === "object" && told !== null && "requests" in told && "early" in told

/** Begins the clock of a lane and plays its case to the end. */
const play = async (script: Case, { subject, lane }: Lane): Promise<Run> => {
  await fetch(lane, { method: "POST" })
  const began = performance.now()
  const latencies = await Promise.all(
    Array.from({ length: script.calls }, async (_, call) => {
      await sleep(Math.max(0, began + call * script.everyMillis - performance.now()))
      return ask(subject, call)
    })
  )
  const seen = await (await fetch(lane)).json()
  if (!isSeen(seen)) throw new Error("the provider told nothing")
  const sorted = latencies.filter((latency) => latency !== null).sort((left, right) => left - right)
  return {
    answered: sorted.length,
    calls: script.calls,
    perCall: seen.requests / script.calls,
    p50: percentile(sorted, 0.5),
    p95: percentile(sorted, 0.95),
    longest: percentile(sorted, 1),
    early: seen.early
  }
}

interface Lane {
  readonly subject: Subject
  readonly lane: string
}

/** A client over its lane, with its code loaded and its connection open; null = its package is not installed. */
const prepare = async (name: string, lane: string, deadlineMillis?: number): Promise<Lane | null> => {
  const subject = makeHoldfast(name, lane, deadlineMillis) ?? (await makePeer(name, lane))
  if (subject === null) return null
  for (let call = 0; call < warmUp; call += 1)
    if ((await ask(subject, call)) === null) throw new Error(`${name} cannot reach the provider`)
  return { subject, lane }
}

/** Lanes of every case and client, made one after the other before any clock begins. */
const prepareAll = async (
  chosen: ReadonlyArray<CaseName>,
  provider: string
): Promise<ReadonlyMap<CaseName, ReadonlyArray<ReadonlyArray<Lane>>>> => {
  const found = new Map<CaseName, ReadonlyArray<ReadonlyArray<Lane>>>()
  for (const name of chosen) {
    const rows: Array<ReadonlyArray<Lane>> = []
    for (const [place, subject] of [...holdfastNames, ...peerNames].entries()) {
      const lanes: Array<Lane> = []
      for (let repeat = 0; repeat < repeats; repeat += 1) {
        const script: Case = cases[name]
        const lane = await prepare(subject, `${provider}/${name}/${place}-${repeat}`, script.deadlineMillis)
        if (lane !== null) lanes.push(lane)
      }
      if (lanes.length > 0) rows.push(lanes)
    }
    found.set(name, rows)
  }
  return found
}

const together = (script: Case, rows: ReadonlyArray<ReadonlyArray<Lane>>): Promise<ReadonlyArray<Row>> =>
  Promise.all(
    rows.map(async (lanes) => ({
      name: lanes[0]?.subject.name ?? "",
      runs: await Promise.all(lanes.map((lane) => play(script, lane)))
    }))
  )

const apart = async (script: Case, rows: ReadonlyArray<ReadonlyArray<Lane>>): Promise<ReadonlyArray<Row>> => {
  const played: Array<Row> = []
  for (const [lane] of rows)
    if (lane !== undefined) played.push({ name: lane.subject.name, runs: [await play(script, lane)] })
  return played
}

const playAll = (script: Case, rows: ReadonlyArray<ReadonlyArray<Lane>>): Promise<ReadonlyArray<Row>> =>
  (script.apart === true ? apart : together)(script, rows)

const middle = (row: Row, read: (run: Run) => number): number => {
  const sorted = row.runs.map(read).sort((left, right) => left - right)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

const worst = (row: Row, read: (run: Run) => number): number => Math.max(...row.runs.map(read))

/** The middle run, and the lowest and highest where they differ. */
const cell = (row: Row, read: (run: Run) => number, show: (value: number) => string): string => {
  const values = row.runs.map(read)
  const [low, mid, high] = [show(Math.min(...values)), show(middle(row, read)), show(Math.max(...values))]
  return low === high ? mid : `${mid} (${low} to ${high})`
}

const seconds = (millis: number): string => (Number.isNaN(millis) ? "-" : (millis / 1_000).toFixed(2))

const label = (name: string): string => (name.startsWith("holdfast") ? name : `${name} ${versionOf(name)}`)

const print = (script: Case, rows: ReadonlyArray<Row>): void => {
  console.log(`\n### ${script.title}: ${script.calls} calls, one per ${Math.round(script.everyMillis)} ms\n`)
  console.log("| client | answered | requests per call | p50 s | p95 s | longest s | too early |")
  console.log("| --- | --- | --- | --- | --- | --- | --- |")
  for (const row of rows) {
    const cells = [
      label(row.name),
      `${cell(row, (run) => run.answered, String)} of ${script.calls}`,
      cell(
        row,
        (run) => run.perCall,
        (value) => value.toFixed(2)
      ),
      cell(row, (run) => run.p50, seconds),
      cell(row, (run) => run.p95, seconds),
      cell(row, (run) => run.longest, seconds),
      cell(row, (run) => run.early, String)
    ]
    console.log(`| ${cells.join(" | ")} |`)
  }
}

interface Target {
  readonly what: string
  readonly value: number
  readonly limit: number
}

const rowOf = (rows: ReadonlyArray<Row>, name: string): Row => {
  const found = rows.find((row) => row.name === name)
  if (found === undefined) throw new Error(`no row ${name}`)
  return found
}

const broad = "holdfast broad"

/** Milliseconds by which broad's percentiles may pass what its case allows. */
const percentiles = (row: Row, limits: { readonly p50?: number; readonly p95: number }): ReadonlyArray<Target> => [
  ...(limits.p50 === undefined
    ? []
    : [{ what: "p50, milliseconds", value: middle(row, (run) => run.p50), limit: limits.p50 }]),
  { what: "p95, milliseconds", value: middle(row, (run) => run.p95), limit: limits.p95 }
]

/** A hint of two seconds, or a date of three to four, with a quarter on top, and a reply. */
const hintedLimit = (millis: number): number => 1.25 * millis + 3 * replyMillis

const p95Of = (rows: ReadonlyArray<Row>, name: string): number => middle(rowOf(rows, name), (run) => run.p95)

const outageTargets = (rows: ReadonlyArray<Row>, lost: (row: Row) => Target): ReadonlyArray<Target> => {
  const alone = rowOf(rows, broad)
  const helped = rowOf(rows, "holdfast broad, with a fallback")
  return [
    lost(helped),
    { what: "alone: requests per call", value: worst(alone, (run) => run.perCall), limit: 1.3 },
    { what: "alone: p95, seconds", value: worst(alone, (run) => run.p95) / 1_000, limit: 25 },
    {
      what: "with a fallback: p50 over a healthy reply, milliseconds",
      value: worst(helped, (run) => run.p50) - replyMillis,
      limit: 100
    },
    { what: "with a fallback: p95, seconds", value: worst(helped, (run) => run.p95) / 1_000, limit: 4.5 }
  ]
}

/** Whole time of the bucket for the calls of the limiter's case, in seconds. */
const bucketSeconds = (cases.limiter.calls - limit.burst) / limit.perSecond

const ownTargets = (name: CaseName, rows: ReadonlyArray<Row>, lost: (row: Row) => Target): ReadonlyArray<Target> => {
  const row = rowOf(rows, broad)
  switch (name) {
    case "outage":
      return outageTargets(rows, lost)
    case "thirty":
      return percentiles(row, { p95: 1.25 * p95Of(rows, "holdfast strict") })
    case "once":
      return percentiles(row, { p95: 1.5 * p95Of(rows, "holdfast strict, 5xx too") })
    case "firstSeconds":
    case "firstMillis":
      return percentiles(row, { p50: hintedLimit(2_000), p95: hintedLimit(2_000) })
    case "firstDate":
      return percentiles(row, { p50: hintedLimit(3_500), p95: hintedLimit(4_000) })
    case "limiter":
      return [
        { what: "last answer, seconds", value: worst(row, (run) => run.longest) / 1_000, limit: 1.15 * bucketSeconds },
        { what: "requests per call", value: worst(row, (run) => run.perCall), limit: 1.3 }
      ]
    default:
      return []
  }
}

/** The worst of the repeats counts, and the middle one for percentiles. */
const targetsOf = (name: CaseName, rows: ReadonlyArray<Row>): ReadonlyArray<Target> => {
  const early = rows
    .filter((row) => row.name.startsWith("holdfast"))
    .map((row) => ({ what: `${row.name}: retries before a hint`, value: worst(row, (run) => run.early), limit: 0 }))
  const mayLose = name === "mixed" ? cases.mixed.calls / 100 : 0
  const lost = (row: Row): Target => ({
    what: `${row.name}: calls without an answer`,
    value: worst(row, (run) => run.calls - run.answered),
    limit: mayLose
  })
  return [...early, lost(rowOf(rows, broad)), ...ownTargets(name, rows, lost)].map((target) => ({
    ...target,
    what: `${name}: ${target.what}`
  }))
}

const wanted = process.argv.slice(2)
const unknown = wanted.find((name) => !isCase(name))
if (unknown !== undefined) {
  console.error(`bench: "${unknown}" is none of ${Object.keys(cases).join(", ")}`)
  process.exit(2)
}
const chosen = (Object.keys(cases) as Array<CaseName>).filter((name) => wanted.length === 0 || wanted.includes(name))

const provider = await startProcess(new URL("server.ts", import.meta.url), [])
console.log(`Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? "unknown processor"}`)
console.log(`load before: ${loadavg()[0]?.toFixed(1)}`)
const prepared = await prepareAll(chosen, `http://127.0.0.1:${provider.port}`)
const results: Array<{ readonly name: CaseName; readonly rows: ReadonlyArray<Row> }> = []
for (const name of chosen) {
  const stalls = monitorEventLoopDelay({ resolution: 10 })
  stalls.enable()
  results.push({ name, rows: await playAll(cases[name], prepared.get(name) ?? []) })
  stalls.disable()
  console.log(`${name}: the longest stall of this process was ${(stalls.max / 1e6).toFixed(0)} ms`)
}
const targets = results.flatMap(({ name, rows }) => {
  print(cases[name], rows)
  return targetsOf(name, rows)
})
console.log("")
for (const { what, value, limit: most } of targets)
  console.log(`${value <= most ? "met   " : "MISSED"} ${what}: ${Number(value.toFixed(2))} (at most ${most})`)
provider.stop()
process.exit(targets.some(({ value, limit }) => !(value <= limit)) ? 1 : 0)
