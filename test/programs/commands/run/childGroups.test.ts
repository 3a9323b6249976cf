import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach } from "vitest"

const root = join(import.meta.dirname, "../../../..")

let dir = ""
beforeEach(() => {
  dir = fs.mkdtempSync(join(tmpdir(), "holdfast-children-"))
})
afterEach(() => fs.rmSync(dir, { recursive: true, force: true }))

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    // A zombie has ended; nobody has asked for it yet.
    return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, "utf8"))
  } catch {
    return false
  }
}

const until = async (condition: () => boolean): Promise<void> => {
  for (let turn = 0; turn < 1_500 && !condition(); turn += 1) await new Promise((resolve) => setTimeout(resolve, 10))
  assert.isTrue(condition())
}

/** A run in a process of its own: one shell command that ends and leaves something running, one that goes on. */
const start = (then: string) => {
  const text = `
    import * as Effect from "effect/Effect"
    import { childGroups } from "${root}/src/programs/commands/run/childGroups.ts"
    import { folderTools } from "${root}/src/programs/commands/run/folderTools.ts"
    import { make } from "${root}/src/layers/ToolboxLive.ts"
    const program = Effect.scoped(Effect.gen(function* () {
      const groups = yield* childGroups
      const box = yield* make(folderTools({ dir: "${dir}", allow: true, onChange: () => {}, groups }))
      const shell = (command) => box.run({ id: "c", name: "shell", arguments: JSON.stringify({ command }) })
      yield* shell("true")
      yield* shell("sleep 300 >/dev/null 2>&1 & echo $! > left; true")
      ${then}
    }))
    Effect.runFork(program)
  `
  return spawn(process.execPath, ["--no-warnings", "--input-type=module", "-e", text], { cwd: root, stdio: "ignore" })
}

const pidIn = (name: string): number => Number(fs.readFileSync(join(dir, name), "utf8").trim())
const isWritten = (name: string) => (): boolean => fs.existsSync(join(dir, name)) && pidIn(name) > 0

const goesOn = 'yield* shell("echo $$ > shell; sleep 300 & echo $! > inner; wait")'

describe.skipIf(process.platform !== "linux")("what a run's shell commands have started", () => {
  it("lives as long as the run, and ends with it", async () => {
    start("yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 1_000)))")
    await until(isWritten("left"))
    assert.isTrue(isAlive(pidIn("left")))
    await until(() => !isAlive(pidIn("left")))
  })

  it.each(["SIGKILL", "SIGTERM", "SIGHUP"] as const)("ends when the run is ended by %s", async (signal) => {
    const run = start(goesOn)
    await until(isWritten("inner"))
    const pids = ["left", "shell", "inner"].map(pidIn)
    assert.deepStrictEqual(pids.map(isAlive), [true, true, true])
    run.kill(signal)
    await until(() => !pids.some(isAlive))
  })

  it("ends when the process exits without a word", async () => {
    start(`setTimeout(() => process.exit(3), 500); ${goesOn}`)
    await until(isWritten("inner"))
    const pids = ["left", "shell", "inner"].map(pidIn)
    await until(() => !pids.some(isAlive))
  })
})
