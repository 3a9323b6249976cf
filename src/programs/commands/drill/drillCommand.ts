/** `holdfast drill`: plays fault scripts through the real SDK and shows, prints or checks what happened. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Result from "effect/Result"
import { Argument, Command, Flag } from "effect/cli"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { exitCodes } from "../../../domain/failure/exitCode.ts"
import { parseScenarios, type ScenarioEntry } from "./Scenario.ts"
import { tableLines } from "../../../domain/failure/wording.ts"
import { complain, exitWith } from "../exit.ts"

const file = Argument.String("FILE").pipe(
  Argument.withDescription("scenarios to play (docs/drill.md has the format); without it the built-in tour"),
  Argument.optional
)

const flags = {
  id: Flag.String("id").pipe(Flag.withDescription("play only this scenario"), Flag.optional),
  json: Flag.Boolean("json").pipe(Flag.withDescription("one JSON line per scenario"), Flag.withDefault(false)),
  check: Flag.Boolean("check").pipe(
    Flag.withDescription("compare with what each scenario expects; exit 1 when one differs"),
    Flag.withDefault(false)
  ),
  doors: Flag.Boolean("doors").pipe(
    Flag.withDescription(
      "play each scenario through all nine doors of the library and print the table; exit 1 when one differs"
    ),
    Flag.withDefault(false)
  ),
  live: Flag.Boolean("live").pipe(
    Flag.withDescription("real time and a real server on 127.0.0.1 instead of virtual time"),
    Flag.withDefault(false)
  )
}

const readText = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.mapError(() => new ConfigurationError({ field: path, reason: "cannot be read" }))
  )

const entriesOf = Effect.fnUntraced(function* (path: string, id: string | null) {
  const parsed = parseScenarios(path, yield* readText(path))
  if (Result.isFailure(parsed)) return yield* parsed.failure
  if (parsed.success.length === 0)
    return yield* new ConfigurationError({ field: path, reason: "holds no scenario (docs/drill.md has the format)" })
  if (id === null) return parsed.success
  const found = parsed.success.filter((entry) => entry.id === id)
  return found.length > 0
    ? found
    : yield* new ConfigurationError({ field: "--id", reason: `names no scenario of ${path}` })
})

export const drill = Command.make(
  "drill",
  { file, ...flags },
  Effect.fnUntraced(function* (input) {
    if (input.doors) return yield* showDoors(input)
    const { play, playEntry } = yield* Effect.promise(() => import("./play.ts"))
    const { checkLine, withoutClock } = yield* Effect.promise(() => import("./scenarioExpect.ts"))
    const { timeline } = yield* Effect.promise(() => import("./timeline.ts"))
    const options = { live: input.live }
    const id = input.id._tag === "Some" ? input.id.value : null

    if (input.file._tag === "None") {
      if (id !== null) return yield* new ConfigurationError({ field: "--id", reason: "needs a FILE to look in" })
      const { tour, tourReply } = yield* Effect.promise(() => import("./tour.ts"))
      const line = yield* play(tour, options)
      if (line.status === "unsupported") return yield* Effect.die(new Error(line.why))
      if (input.json) return yield* Console.log(JSON.stringify(line))
      const isExact = line.results[0]?.["reply"] === tourReply
      yield* Console.log("One request meets a rate limit, three overloads, an input that is too long and a cut answer.")
      yield* Console.log(
        `Real openai SDK, ${input.live ? "real time, a server on 127.0.0.1" : "virtual time, no network, no key"}.\n`
      )
      yield* Effect.forEach(timeline(line), (text) => Console.log(text), { discard: true })
      yield* Console.log(
        isExact
          ? `\nThe reply is exact to the character (${tourReply.length} characters); the history got this one message and nothing else.`
          : "\nThe reply is NOT what it has to be."
      )
      return isExact ? undefined : yield* exitWith(1)
    }

    const entries = yield* entriesOf(input.file.value, id)
    // Real time is not compared to the millisecond.
    const check: typeof checkLine = (scenario, line) =>
      checkLine(input.live ? { ...scenario, expect: withoutClock(scenario["expect"]) } : scenario, line)
    return yield* input.check
      ? checkAll(entries, (entry) => playEntry(entry, options), check, input.json)
      : showAll(entries, (entry) => playEntry(entry, options), timeline, input.json)
  })
).pipe(Command.withDescription("play fault scripts through the real SDK"))

interface DoorsInput {
  readonly file: { readonly _tag: "None" } | { readonly _tag: "Some"; readonly value: string }
  readonly id: { readonly _tag: "None" } | { readonly _tag: "Some"; readonly value: string }
  readonly json: boolean
  readonly live: boolean
}

const scenariosOf = Effect.fnUntraced(function* ({ file: path, id }: DoorsInput) {
  if (path._tag === "None") {
    const { tour } = yield* Effect.promise(() => import("./tour.ts"))
    return { scenarios: [tour], faulty: Effect.void }
  }
  const entries = yield* entriesOf(path.value, id._tag === "Some" ? id.value : null)
  const scenarios = entries.flatMap(({ scenario }) => (Result.isSuccess(scenario) ? [scenario.success] : []))
  return { scenarios, faulty: endOf(entries) }
})

/** Nine doors, one script after the other: the same verdict through each, or the rule under which it is another. */
const showDoors = Effect.fnUntraced(function* (input: DoorsInput) {
  if (input.live) return yield* new ConfigurationError({ field: "--live", reason: "does not go with --doors" })
  const { playDoors } = yield* Effect.promise(() => import("./doors/playDoors.ts"))
  const { doorRows, faultLines, reasonRows } = yield* Effect.promise(() => import("./doors/doorsTable.ts"))
  const { scenarios, faulty } = yield* scenariosOf(input)
  const passed = (yield* Effect.forEach(scenarios, (scenario) => playDoors({ ...scenario }))).flat()
  const faults = faultLines(passed)
  if (input.json)
    yield* Effect.forEach(
      passed,
      ({ id, area, door, passage }) => Console.log(JSON.stringify({ id, area, door: door.name, ...passage })),
      { discard: true }
    )
  else {
    const lines = [
      ...tableLines(doorRows(passed), (column) => column > 0),
      ...told("ends otherwise, by a rule of the door", tableLines(reasonRows(passed, "Otherwise"))),
      ...told("says nothing at a door", tableLines(reasonRows(passed, "NoLike"))),
      ...told("differs", faults)
    ]
    yield* Console.log(lines.join("\n"))
  }
  return faults.length > 0 ? yield* exitWith(1) : yield* faulty
})

const told = (heading: string, lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines.length === 0 ? [] : ["", `${heading}:`, ...lines]

type Line = Effect.Success<ReturnType<typeof import("./play.ts").playEntry>>

/** What cannot be read does not spoil the rest, but the command ends with 2. */
const endOf = (entries: ReadonlyArray<ScenarioEntry>) => {
  const faulty = entries.filter((entry) => Result.isFailure(entry.scenario)).length
  return faulty === 0
    ? Effect.void
    : complain(
        `${faulty} of ${entries.length} scenarios cannot be read (docs/drill.md has the format)`,
        exitCodes.usage
      )
}

const showAll = Effect.fnUntraced(function* (
  entries: ReadonlyArray<ScenarioEntry>,
  playOne: (entry: ScenarioEntry) => Effect.Effect<Line>,
  timeline: typeof import("./timeline.ts").timeline,
  json: boolean
) {
  for (const entry of entries) {
    const line = yield* playOne(entry)
    if (json) yield* Console.log(JSON.stringify(line))
    else {
      const why = Result.isFailure(entry.scenario) ? "cannot be read" : "not yet supported"
      const story = line.status === "ran" ? timeline(line) : [`${why}: ${line.why}`]
      yield* Console.log([entry.id, ...story, ""].join("\n"))
    }
  }
  return yield* endOf(entries)
})

type Verdict = "pass" | "fail" | "unsupported" | "faulty"

const verdictWords: Readonly<Record<Verdict, string>> = {
  pass: "pass",
  fail: "fail",
  unsupported: "not yet",
  faulty: "faulty"
}

const checkAll = Effect.fnUntraced(function* (
  entries: ReadonlyArray<ScenarioEntry>,
  playOne: (entry: ScenarioEntry) => Effect.Effect<Line>,
  check: typeof import("./scenarioExpect.ts").checkLine,
  json: boolean
) {
  const width = Math.max(...entries.map((entry) => entry.id.length), 2)
  const counts: Record<Verdict, number> = { pass: 0, fail: 0, unsupported: 0, faulty: 0 }
  for (const entry of entries) {
    const line = yield* playOne(entry)
    const scenario = Result.isSuccess(entry.scenario) ? { ...entry.scenario.success } : {}
    const found = line.status === "ran" ? check(scenario, { ...line }) : []
    const unplayed: Verdict = Result.isFailure(entry.scenario) ? "faulty" : "unsupported"
    const verdict = line.status === "unsupported" ? unplayed : found.length === 0 ? "pass" : "fail"
    counts[verdict] += 1
    const why = line.status === "unsupported" ? line.why : found.join("; ")
    yield* Console.log(
      json
        ? JSON.stringify({ id: entry.id, verdict, why })
        : `${entry.id.padEnd(width)}  ${verdictWords[verdict].padEnd(7)}  ${why}`.trimEnd()
    )
  }
  if (!json)
    yield* Console.log(
      `\n${counts.pass} pass, ${counts.fail} fail, ${counts.unsupported} not yet supported${counts.faulty === 0 ? "" : `, ${counts.faulty} faulty`}`
    )
  return counts.fail > 0 ? yield* exitWith(1) : yield* endOf(entries)
})
