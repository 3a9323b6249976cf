/**
 * Runs inside the sandbox, as the last test of all: switches on one mutant after another and runs the tests that reach it
 * until one fails. Modules are loaded once for all mutants, so that one costs no more than its tests.
 */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { beforeEach, it, TestRunner, type RunnerTask, type RunnerTestCase } from "vitest"
import type { Mutant } from "./instrument.ts"

/** What the instrumented files look at; its names are those of the instrumenter. */
interface Switch {
  activeMutant?: string | undefined
  currentTestId?: string | undefined
  hitCount?: number | undefined
  hitLimit?: number | undefined
  mutantCoverage?: { static: Record<string, number>; perTest: Record<string, Record<string, number>> }
}

const lever: Switch = ((globalThis as { __stryker__?: Switch }).__stryker__ ??= {})

type Test = RunnerTestCase
type Tasks = ReadonlyArray<RunnerTask>

const testsOf = (tasks: Tasks): ReadonlyArray<Test> =>
  tasks.flatMap((task) => (task.type === "suite" ? testsOf(task.tasks) : task.type === "test" ? [task] : []))

/** A mutant that makes a loop endless is stopped by its own switch, one that waits for ever by the clock. */
const hitLimit = 20_000
const limitMillis = 3_000

const read = <A>(name: string, otherwise: A): A =>
  existsSync(name) ? (JSON.parse(readFileSync(name, "utf8")) as A) : otherwise

const note = (line: object): void => appendFileSync("results.ndjson", `${JSON.stringify(line)}\n`)

type Ending = "passed" | "failed" | "timeout"

/** The hooks of the suites around a test; those of the file are ours. */
const hooksOf = (test: Test, name: "beforeEach" | "afterEach") => {
  const hooks = []
  for (let { suite } = test; suite !== undefined; { suite } = suite)
    hooks.push(...TestRunner.getSuiteHooks(suite)[name])
  return hooks
}

const runWhole = async (test: Test): Promise<void> => {
  for (const hook of hooksOf(test, "beforeEach")) await hook(test.context, test.suite ?? test.file)
  try {
    await TestRunner.getTestFn(test)()
  } finally {
    for (const hook of hooksOf(test, "afterEach")) await hook(test.context, test.suite ?? test.file)
  }
}

const endOf = async (test: Test): Promise<Ending> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<Ending>((resolve) => {
    timer = setTimeout(() => resolve("timeout"), limitMillis + 5 * (test.result?.duration ?? 1_000))
  })
  const run = async (): Promise<Ending> => {
    try {
      await runWhole(test)
      return "passed"
    } catch {
      return "failed"
    }
  }
  const ending = await Promise.race([run(), late])
  clearTimeout(timer)
  return ending
}

const withMutant = async (id: string, test: Test): Promise<Ending> => {
  lever.activeMutant = id
  lever.hitCount = 0
  lever.hitLimit = hitLimit
  const ending = await endOf(test)
  lever.activeMutant = undefined
  lever.hitCount = undefined
  return ending
}

/** Ends the process: what hangs in it, or was changed by a mutant, must not judge the next one. */
const startAnew = (): never => process.exit(3)

/**
 * A test that takes longer is not asked: a mutant that survives would pay for all of them. What only such a test would
 * notice counts as not found, so that a score can only be too low.
 */
const slowMillis = 1_500

/** By mutant, the tests that reach it: the quick ones are asked first. */
interface Reach {
  readonly tests: Record<string, ReadonlyArray<string>>
  readonly still: ReadonlyArray<string>
}

const reachOf = (tests: ReadonlyArray<Test>): Reach => {
  const known = read<Reach | null>("reach.json", null)
  if (known !== null) return known
  const coverage = lever.mutantCoverage ?? { static: {}, perTest: {} }
  const reached: Record<string, Array<string>> = {}
  const quickFirst = tests
    .filter((test) => (test.result?.duration ?? 0) < slowMillis)
    .toSorted((a, b) => (a.result?.duration ?? 0) - (b.result?.duration ?? 0))
  for (const test of quickFirst)
    for (const id of Object.keys(coverage.perTest[test.id] ?? {})) (reached[id] ??= []).push(test.id)
  const reach = { tests: reached, still: Object.keys(coverage.static) }
  writeFileSync("reach.json", JSON.stringify(reach))
  return reach
}

/** What kills is most likely to kill the neighbour, too. */
const killers = new Map<string, number>()

const judge = async ({ id }: Mutant, tests: ReadonlyArray<Test>): Promise<void> => {
  const byKills = tests.toSorted((a, b) => (killers.get(b.id) ?? 0) - (killers.get(a.id) ?? 0))
  for (const test of byKills) {
    const ending = await withMutant(id, test)
    if (ending === "passed") continue
    note({ id, ending, by: test.name })
    killers.set(test.id, (killers.get(test.id) ?? 0) + 1)
    if ((await endOf(test)) !== "passed") startAnew()
    return
  }
  note({ id, ending: "survived", by: null })
}

export const judgeAll = (): void => {
  it("judges every mutant", { timeout: 86_400_000 }, async ({ task }) => {
    lever.currentTestId = undefined
    const tests = testsOf(task.file.tasks).filter((test) => test.id !== task.id)
    const byId = new Map(tests.map((test) => [test.id, test]))
    const broken =
      read<Reach | null>("reach.json", null) === null && tests.find((test) => test.result?.state === "fail")
    if (broken !== undefined && broken !== false) throw new Error(`fails without a mutant: ${broken.name}`)
    const reach = reachOf(tests)
    const done = new Set(
      (existsSync("results.ndjson") ? readFileSync("results.ndjson", "utf8").split("\n") : [])
        .filter((line) => line !== "")
        .map((line) => (JSON.parse(line) as { readonly id: string }).id)
    )
    for (const mutant of read<ReadonlyArray<Mutant>>("mutants.json", [])) {
      if (done.has(mutant.id)) continue
      const own = (reach.tests[mutant.id] ?? []).flatMap((id) => byId.get(id) ?? [])
      if (own.length === 0)
        note({ id: mutant.id, ending: reach.still.includes(mutant.id) ? "static" : "unreached", by: null })
      else {
        writeFileSync("under-way.json", JSON.stringify(mutant.id))
        await judge(mutant, own)
      }
    }
    note({ id: "all", ending: "done", by: null })
  })
}

/** Whether the tests run this time, or are only looked up: a process that was started anew knows who reaches what. */
export const beginCoverage = (): void => {
  const isKnown = existsSync("reach.json")
  beforeEach(({ skip, task }) => {
    if (task.name === "judges every mutant") return
    if (isKnown) skip()
    lever.currentTestId = task.id
  })
}
