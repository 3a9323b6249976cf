/** `holdfast simulate`: many clients in virtual time over the library's own decisions, beside an oracle and the peers. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Result from "effect/Result"
import { Command, Flag } from "effect/cli"
import { isJson, parsedObject } from "../../../domain/chat/json.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import type { FleetRow } from "./FleetRow.ts"
import { peerNames, type PeerName } from "./Peers.ts"
import { isLoadName, loadNames, makeLoad } from "./BuiltInLoads.ts"
import { fromCsv } from "./LoadTrace.ts"
import { scenarioNames, type ScenarioName } from "./World.ts"
import { isRoomy, runRoomy } from "./roomyProcess.ts"
import type { FleetPolicy } from "./simulate.ts"
import { exitWith } from "../exit.ts"

const flags = {
  scenario: Flag.String("scenario").pipe(
    Flag.withDescription(`what happens: ${scenarioNames.join(", ")}; several with commas, or all`),
    Flag.withDefault("outage120")
  ),
  clients: Flag.Int("clients").pipe(
    Flag.withDescription("clients, each with one request per 30 s"),
    Flag.withDefault(1_000)
  ),
  agentsPerProcess: Flag.Int("agents-per-process").pipe(
    Flag.withDescription("clients that share their route health"),
    Flag.withDefault(1)
  ),
  policy: Flag.String("policy").pipe(
    Flag.withDescription(
      `strict, broad, unattended, background, a peer (${peerNames.join(", ")}), or a JSON file with policy fields; several with commas`
    ),
    Flag.withDefault("broad")
  ),
  seeds: Flag.String("seeds").pipe(Flag.withDescription("seeds, with commas"), Flag.withDefault("1")),
  background: Flag.Finite("background").pipe(
    Flag.withDescription("share of the requests that are background ones, 0 to 1"),
    Flag.withDefault(0)
  ),
  trace: Flag.String("trace").pipe(
    Flag.withDescription(`the load: ${loadNames.join(", ")}, or a CSV with the columns t_ms, in_tokens, out_tokens`),
    Flag.withDefault("chat")
  ),
  report: Flag.String("report").pipe(
    Flag.withDescription("write a chart over time: FILE.svg, or a page FILE.html with the table"),
    Flag.optional
  ),
  json: Flag.Boolean("json").pipe(
    Flag.withDescription("one JSON line per scenario, policy and seed"),
    Flag.withDefault(false)
  )
}

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

const listOf = (text: string): ReadonlyArray<string> =>
  text.split(",").flatMap((part) => (part.trim() === "" ? [] : [part.trim()]))

const readText = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.mapError(() => bad(path, "cannot be read"))
  )

const scenariosOf = Effect.fnUntraced(function* (text: string) {
  if (text === "all") return scenarioNames
  const found: Array<ScenarioName> = []
  for (const name of listOf(text)) {
    const known = scenarioNames.find((one) => one === name)
    if (known === undefined) return yield* bad("--scenario", `(${name}) is none of ${scenarioNames.join(", ")}`)
    found.push(known)
  }
  return found.length > 0 ? found : yield* bad("--scenario", "names nothing")
})

const seedsOf = Effect.fnUntraced(function* (text: string) {
  const seeds = listOf(text).map(Number)
  return seeds.length > 0 && seeds.every((seed) => Number.isSafeInteger(seed) && seed >= 0)
    ? seeds
    : yield* bad("--seeds", "needs whole numbers from 0, with commas")
})

const isPeer = (name: string): name is PeerName => peerNames.some((peer) => peer === name)

/** Routes of the simulated world; a policy file may bring its own. */
const worldRoutes = [{ model: "primary" }, { model: "fallback" }]

const policyOf = Effect.fnUntraced(function* (name: string) {
  if (isPeer(name)) return { _tag: "Peer", name } satisfies FleetPolicy
  const { RecoveryPolicy, presets } = yield* Effect.promise(() => import("../../../domain/recovery/RecoveryPolicy.ts"))
  const presetOf = (wanted: unknown) => Object.entries(presets).find(([preset]) => preset === wanted)?.[1]
  const build = (fields: object) =>
    Effect.try({
      try: () => new RecoveryPolicy({ ...presets.broad, routes: worldRoutes, ...fields }),
      catch: (cause) => (cause instanceof ConfigurationError ? cause : bad(name, "is not a policy"))
    })
  const preset = presetOf(name)
  if (preset !== undefined) return { _tag: "Machine", name, policy: yield* build(preset) } satisfies FleetPolicy
  const text = yield* Effect.mapError(readText(name), () =>
    bad("--policy", `(${name}) is no preset, no peer and no readable file`)
  )
  if (!isJson(text)) return yield* bad(name, "is not JSON")
  const parsed = parsedObject(text)
  if (parsed === null) return yield* bad(name, "is not a JSON object with policy fields")
  const { preset: base = "broad", ...fields } = parsed
  const from = presetOf(base)
  if (from === undefined) return yield* bad(`${name}: preset`, `is none of ${Object.keys(presets).join(", ")}`)
  return { _tag: "Machine", name, policy: yield* build({ ...from, ...fields }) } satisfies FleetPolicy
})

/** A load by its name, or one from a file. */
const traceOf = Effect.fnUntraced(function* (name: string) {
  if (isLoadName(name)) return makeLoad(name)
  const trace = fromCsv(yield* readText(name))
  return Result.isFailure(trace) ? yield* bad(name, trace.failure.reason) : trace.success
})

/** Fails when the report cannot be written: better now than after the run. */
const mayWrite = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const { dirname } = yield* Effect.promise(() => import("node:path"))
  const isFile = yield* Effect.match(fs.stat(path), { onFailure: () => null, onSuccess: ({ type }) => type === "File" })
  const target = isFile === null ? dirname(path) : path
  yield* Effect.mapError(isFile === false ? Effect.fail(null) : fs.access(target, { writable: true }), () =>
    bad("--report", `(${path}) cannot be written`)
  )
})

const barWidth = 30

/** A bar on stderr, only for a person who waits: nothing in a pipe, nothing in the first second. */
const makeBar = (isShown: boolean) => {
  const begun = performance.now()
  let drawn = begun
  return {
    draw: (share: number, title: string): Effect.Effect<void> =>
      Effect.sync(() => {
        const now = performance.now()
        if (!isShown || now - begun < 1_000 || now - drawn < 100) return
        drawn = now
        const full = Math.round(Math.min(1, share) * barWidth)
        const bar = "█".repeat(full) + "░".repeat(barWidth - full)
        process.stderr.write(`\r${bar} ${(100 * share).toFixed(0).padStart(3)} % ${title.padEnd(40).slice(0, 40)}`)
      }),
    clear: Effect.sync(() => {
      if (drawn > begun) process.stderr.write(`\r${" ".repeat(barWidth + 50)}\r`)
    })
  }
}

const chartWidth = 72
/** From here on a process with more room for young objects is worth its start. */
const manyClients = 20_000

export const simulate = Command.make(
  "simulate",
  flags,
  Effect.fnUntraced(function* (input) {
    const scenarios = yield* scenariosOf(input.scenario)
    const seeds = yield* seedsOf(input.seeds)
    const names = listOf(input.policy)
    if (names.length === 0) return yield* bad("--policy", "names nothing")
    if (input.clients < 1 || input.clients > 1_000_000) return yield* bad("--clients", "must be 1 to 1,000,000")
    if (input.agentsPerProcess < 1) return yield* bad("--agents-per-process", "must be at least 1")
    if (!(input.background >= 0 && input.background <= 1)) return yield* bad("--background", "must be 0 to 1")
    const report = input.report._tag === "Some" ? input.report.value : null
    if (report !== null && !/\.(svg|html)$/.test(report)) return yield* bad("--report", "must end in .svg or .html")
    if (report !== null && scenarios.length > 1) return yield* bad("--report", "draws one scenario")
    if (report !== null) yield* mayWrite(report)
    if (input.clients >= manyClients && !isRoomy()) {
      const code = yield* runRoomy
      return code === 0 ? undefined : yield* exitWith(code)
    }
    const asked = yield* Effect.forEach(names, policyOf)
    // People see every peer beside the policy; machines get what they asked for.
    const peers = input.json ? [] : peerNames.filter((peer) => !names.includes(peer))
    const policies: ReadonlyArray<FleetPolicy> = [...asked, ...peers.map((name) => ({ _tag: "Peer", name }) as const)]
    const trace = yield* traceOf(input.trace)
    const { simulateSeed } = yield* Effect.promise(() => import("./simulate.ts"))
    const { meanOf, rowOf, tableLegend, tableOf } = yield* Effect.promise(() => import("./FleetRow.ts"))
    const { htmlOf, svgOf, terminalChart } = yield* Effect.promise(() => import("./FleetChart.ts"))
    const bar = makeBar(process.stderr.isTTY === true)

    for (const [at, name] of scenarios.entries()) {
      const setup = {
        scenario: name,
        trace,
        clients: input.clients,
        agentsPerProcess: input.agentsPerProcess,
        backgroundShare: input.background
      }
      const rows: Array<ReadonlyArray<FleetRow>> = []
      for (const [i, seed] of seeds.entries()) {
        const done = at * seeds.length + i
        const result = yield* simulateSeed(setup, policies, seed, (share, title) =>
          bar.draw((done + share) / (scenarios.length * seeds.length), `${name}, seed ${seed}, ${title}`)
        )
        yield* bar.clear
        if (input.json) for (const run of result.runs) yield* Console.log(JSON.stringify(run.row))
        const best = rowOf(
          { scenario: name, policy: "oracle", clients: input.clients, agentsPerProcess: input.agentsPerProcess, seed },
          result.oracle.metrics,
          result.oracle.metrics
        )
        rows.push([best, ...result.runs.map((run) => run.row)])
        if (i < seeds.length - 1) continue
        const means = ["oracle", ...policies.map((policy) => policy.name)].flatMap((_, column) => {
          const [first, ...rest] = rows.flatMap((row) => row.slice(column, column + 1))
          return first === undefined ? [] : [meanOf([first, ...rest])]
        })
        const title = `${name}: ${input.clients} clients, ${input.agentsPerProcess} per process, seeds ${seeds.join(", ")}`
        const drawn = result.runs[0]
        if (!input.json && drawn !== undefined) {
          yield* Console.log(`${at > 0 ? "\n" : ""}${title}\n\n${tableOf(means)}\n`)
          yield* Console.log(`${drawn.row.policy}, seed ${seed}, over time\n`)
          yield* Console.log(terminalChart(drawn.result.timeline, result.scenario, chartWidth))
        }
        if (report !== null) {
          const timelines = result.runs.map((run) => ({ name: run.row.policy, timeline: run.result.timeline }))
          const text = report.endsWith(".svg")
            ? svgOf(timelines, result.scenario)
            : htmlOf(title, means, timelines, result.scenario)
          const fs = yield* FileSystem.FileSystem
          yield* Effect.mapError(fs.writeFileString(report, text), () =>
            bad("--report", `(${report}) cannot be written`)
          )
          if (!input.json) yield* Console.log(`\nwritten: ${report}`)
        }
      }
    }
    if (!input.json) yield* Console.log(`\n${tableLegend.join("\n")}`)
    return undefined
  })
).pipe(Command.withDescription("many clients in virtual time over the real machines, with charts"))
