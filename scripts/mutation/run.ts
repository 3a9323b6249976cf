/**
 * `npm run mutation [-- FILE ...]`: breaks each named file in every way the instrumenter knows, one break at a time, and
 * says which breaks no test notices. Without a name: all that `mutation.ts` lists. `--one-in 10` judges every tenth break
 * only: enough for a figure, a tenth of the time. `--offset 3` begins with the fourth: tests that were written after one
 * sample are to be measured with another.
 */
import { spawn } from "node:child_process"
import { appendFileSync, existsSync, globSync, readFileSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { parseArgs } from "node:util"
import { instrument, type Mutant } from "./instrument.ts"
import { goal, rooms, tests, without } from "./mutation.ts"

interface Judged {
  readonly id: string
  readonly ending: "failed" | "timeout" | "survived" | "unreached" | "static" | "done"
  readonly by: string | null
}

const root = resolve(import.meta.dirname, "../..")
const sandbox = join(root, ".mutation")

/** No mutant may stand still longer: its tests have a limit of their own, so only an endless loop does. */
const stillMillis = 60_000

const linesOf = (name: string): ReadonlyArray<string> =>
  existsSync(name) ? readFileSync(name, "utf8").split("\n").filter(Boolean) : []

const resultsOf = (): ReadonlyArray<Judged> =>
  linesOf(join(sandbox, "results.ndjson")).map((line) => JSON.parse(line) as Judged)

/** One process over what is not judged yet; it ends when all is, or when what it has in memory is not to be trusted. */
const judgeOn = (): Promise<string> =>
  new Promise((done) => {
    const args = ["vitest", "run", "--root", sandbox, "--config", "vitest.mutation.config.ts", "test/every.mutant.ts"]
    const child = spawn("npx", args, { cwd: sandbox, stdio: ["ignore", "pipe", "pipe"], detached: true })
    let output = ""
    const keep = (text: Buffer): void => {
      output = (output + text.toString()).slice(-4_000)
    }
    child.stdout.on("data", keep)
    child.stderr.on("data", keep)
    let seen = -1
    let since = Date.now()
    const watch = setInterval(() => {
      const now = resultsOf().length
      if (now !== seen) {
        seen = now
        since = Date.now()
      } else if (existsSync(join(sandbox, "reach.json")) && Date.now() - since > stillMillis && child.pid !== undefined)
        process.kill(-child.pid, "SIGKILL")
    }, 1_000)
    child.on("exit", () => {
      clearInterval(watch)
      done(output)
    })
  })

/** Every so many-th break, from the offset on. */
interface Sample {
  readonly oneIn: number
  readonly offset: number
}

const judgeFiles = async (
  files: ReadonlyArray<string>,
  { oneIn, offset }: Sample
): Promise<ReadonlyArray<Mutant & Judged>> => {
  const made = await instrument(root, sandbox, files)
  const mutants = made.filter((_, at) => at % oneIn === offset)
  console.log(`${mutants.length} of ${made.length} mutants in ${files.length} files`)
  writeFileSync(join(sandbox, "mutants.json"), JSON.stringify(mutants))
  const imports = tests
    .flatMap((pattern) => globSync(pattern, { cwd: root }))
    .filter((name) => !without.test(name))
    .toSorted()
  const lines = [
    `import { beginCoverage, judgeAll } from "../scripts/mutation/judge.ts"`,
    `beginCoverage()`,
    ...imports.map((name) => `await import("../${name}")`),
    `judgeAll()`
  ]
  writeFileSync(join(sandbox, "test/every.mutant.ts"), `${lines.join("\n")}\n`)
  for (;;) {
    const before = resultsOf().length
    const output = await judgeOn()
    const results = resultsOf()
    if (results.some(({ ending }) => ending === "done")) break
    if (!existsSync(join(sandbox, "reach.json"))) throw new Error(`The tests fail without a mutant.\n${output}`)
    if (results.length === before) {
      const id = JSON.parse(readFileSync(join(sandbox, "under-way.json"), "utf8")) as string
      appendFileSync(join(sandbox, "results.ndjson"), `${JSON.stringify({ id, ending: "timeout", by: null })}\n`)
    }
  }
  const byId = new Map(resultsOf().map((result) => [result.id, result]))
  return mutants.map((mutant) => {
    const found = byId.get(mutant.id)
    if (found === undefined) throw new Error(`mutant ${mutant.id} was not judged`)
    return { ...mutant, ...found }
  })
}

const isFound = ({ ending }: Judged): boolean => ending === "failed" || ending === "timeout"

/** Of those that a test could notice: what runs once, when a module is loaded, is left out and counted. */
const scoreOf = (judged: ReadonlyArray<Judged>) => {
  const counted = judged.filter(({ ending }) => ending !== "static")
  const found = counted.filter(isFound).length
  const score = counted.length === 0 ? 100 : (100 * found) / counted.length
  return { found, counted: counted.length, left: judged.length - counted.length, score }
}

const told = (name: string, judged: ReadonlyArray<Judged>): string => {
  const { counted, found, left, score } = scoreOf(judged)
  return `${name}: ${score.toFixed(1)} % (${found} of ${counted} found, ${left} at load left out)`
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { "one-in": { type: "string" }, offset: { type: "string" } }
})
const oneIn = Number(values["one-in"] ?? 1)
if (!Number.isInteger(oneIn) || oneIn < 1) throw new RangeError("--one-in is a whole number from 1 on")
const offset = Number(values.offset ?? 0)
if (!Number.isInteger(offset) || offset < 0 || offset >= oneIn)
  throw new RangeError("--offset is a whole number from 0 on, below --one-in")
const files = (positionals.length > 0 ? positionals : rooms)
  .flatMap((pattern) => globSync(pattern, { cwd: root }))
  .toSorted()
const all = await judgeFiles(files, { oneIn, offset })
for (const file of files) {
  const judged = all.filter(({ fileName }) => fileName === file)
  console.log(told(file, judged))
  for (const { ending, location, mutatorName, replacement } of judged)
    if (ending === "survived" || ending === "unreached") {
      const place = `${location.start.line + 1}:${location.start.column + 1}`
      console.log(`  ${place} ${ending} ${mutatorName}: ${replacement.replaceAll(/\s+/g, " ").slice(0, 100)}`)
    }
}
const roomOf = (file: string): string => file.slice(0, file.lastIndexOf("/"))
for (const room of new Set(files.map(roomOf))) {
  const own = all.filter(({ fileName }) => roomOf(fileName) === room)
  console.log(told(room, own))
  if (scoreOf(own).score < goal) process.exitCode = 1
}
