import { assert, describe, it } from "@effect/vitest"
import { spawn, type ChildProcess } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach } from "vitest"

const root = join(import.meta.dirname, "../../../..")

let dir = ""
let outside = ""
const children: Array<ChildProcess> = []
beforeEach(() => {
  dir = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "holdfast-session-")))
  outside = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "holdfast-outside-")))
  fs.writeFileSync(join(dir, "a.txt"), "TODO: rest\n")
})
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL")
  for (const folder of [dir, outside]) fs.rmSync(folder, { recursive: true, force: true })
})

/** The environment without the tests' own variable: a command refuses those of its prefix that it does not know. */
const { HOLDFAST_PROPERTY_RUNS: _, ...ours } = process.env

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Starts the command as a user's shell does. */
const start = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) => {
  const child = spawn(
    process.execPath,
    ["--no-warnings", join(root, "src/cli.ts"), "run", "--dir", dir, "--provider", "embedded", ...args],
    { cwd: dir, env: { ...ours, HTTP_PROXY: "", http_proxy: "", ...env }, stdio: ["ignore", "pipe", "pipe"] }
  )
  children.push(child)
  let stdout = ""
  let stderr = ""
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()))
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()))
  const ended = new Promise<Ended>((resolve) => child.on("close", (code) => resolve({ code, stdout, stderr })))
  return { child, ended, stdout: () => stdout }
}

const run = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  start(["--prompt", "go", ...args], env).ended

const until = async (condition: () => boolean): Promise<void> => {
  for (let turn = 0; turn < 3_000 && !condition(); turn += 1) await new Promise((resolve) => setTimeout(resolve, 10))
  assert.isTrue(condition())
}

const folder = (): string => join(dir, ".holdfast")
const session = (): string => join(folder(), "session.json")
/** A run that saves its history in a file of JSON. */
const inFile = (): ReadonlyArray<string> => ["--session", session()]
const read = (path = session()): { readonly version: number; readonly messages: ReadonlyArray<unknown> } =>
  JSON.parse(fs.readFileSync(path, "utf8"))

const unfinished = { version: 1, messages: [{ role: "user", content: "an old task" }] }
const put = (content: unknown): void => {
  fs.mkdirSync(folder(), { recursive: true })
  fs.writeFileSync(session(), typeof content === "string" ? content : JSON.stringify(content))
}

describe("a folder that somebody else has made", () => {
  it("changes nothing outside when .holdfast itself is a link", async () => {
    fs.symlinkSync(outside, folder())
    const { code, stderr } = await run([])
    assert.strictEqual(code, 2)
    assert.match(stderr, /is a link, which is not followed/)
    assert.deepStrictEqual(fs.readdirSync(outside), [])
  })
})

describe("an unfinished session", () => {
  it("is kept under another name, and the user is told how to go on", async () => {
    put(unfinished)
    const { code, stderr } = await run(inFile())
    assert.strictEqual(code, 0)
    const kept = /--resume --session (\S+)/.exec(stderr)?.[1] ?? ""
    assert.deepStrictEqual(read(kept), unfinished)
    assert.notDeepEqual(read(), unfinished)
    assert.strictEqual((await start(["--resume", "--session", kept]).ended).code, 0)
    assert.isAbove(read(kept).messages.length, 1)
  })
})

describe("two runs of one session file", () => {
  it("tell the second one who has the session, and let it in after kill -9", { timeout: 60_000 }, async () => {
    const first = start(["--prompt", "go", "--scenario", "long-wait", "--json", ...inFile()])
    await until(() => first.stdout().includes('"Waiting"'))
    const second = await run(inFile())
    assert.strictEqual(second.code, 2)
    assert.include(second.stderr, `is in use by process ${first.child.pid} on `)
    first.child.kill("SIGKILL")
    await first.ended
    assert.isTrue(fs.existsSync(`${session()}.lock`))
    const third = await start(["--resume", ...inFile()]).ended
    assert.strictEqual(third.code, 0)
    assert.isFalse(fs.existsSync(`${session()}.lock`))
  })

  it("give one winner out of three that start at once", { timeout: 120_000 }, async () => {
    const runs = await Promise.all(Array.from({ length: 3 }, () => run(["--scenario", "rate-limit", ...inFile()])))
    assert.strictEqual(runs.filter(({ code }) => code === 0).length, 1)
    assert.strictEqual(runs.filter(({ stderr }) => stderr.includes("is in use by process")).length, 2)
    assert.deepStrictEqual(fs.readdirSync(folder()), ["session.json"])
  })
})

describe("a session that cannot be saved", () => {
  it("is told and changes the exit code", async () => {
    const first = start(["--prompt", "go", "--scenario", "rate-limit", "--json", ...inFile()])
    await until(() => fs.existsSync(session()))
    fs.rmSync(session())
    fs.mkdirSync(session())
    const { code, stderr, stdout } = await first.ended
    assert.strictEqual(code, 1)
    assert.match(stderr, /the session could not be saved: \S+session\.json is a folder/)
    const last: Record<string, unknown> = JSON.parse(stdout.trim().split("\n").at(-1) ?? "")
    assert.include(last["sessionFault"], "could not be saved")
  })

  it("is written in the end when the place is free again", async () => {
    const first = start(["--prompt", "go", "--scenario", "rate-limit", "--json", ...inFile()])
    await until(() => fs.existsSync(session()))
    fs.rmSync(session())
    fs.mkdirSync(session())
    await until(() => first.stdout().includes('"ToolEnded"'))
    fs.rmdirSync(session())
    const { code } = await first.ended
    assert.strictEqual(code, 0)
    assert.isAbove(read().messages.length, 3)
  })
})

describe("signals", () => {
  it.each(["SIGHUP", "SIGTERM", "SIGINT"] as const)("%s saves what was finished and ends with 130", async (signal) => {
    const first = start(["--prompt", "go", "--scenario", "long-wait", "--json", ...inFile()])
    await until(() => first.stdout().includes('"Waiting"'))
    first.child.kill(signal)
    // A shell tells its children more than once.
    if (signal === "SIGHUP") first.child.kill(signal)
    const { code, stdout } = await first.ended
    assert.strictEqual(code, 130)
    assert.include(JSON.parse(stdout.trim().split("\n").at(-1) ?? ""), { _tag: "Ended", interrupted: true })
    assert.isAbove(read().messages.length, 1)
    assert.deepStrictEqual(fs.readdirSync(folder()), ["session.json"])
  })
})

describe("stdout with --json", () => {
  it.each<readonly [string, ReadonlyArray<string>, Readonly<Record<string, string>>]>([
    ["an SDK that logs", [], { OPENAI_LOG: "debug" }],
    ["a kept session", [], { KEEP: "1" }],
    ["a failed run", ["--scenario", "auth"], {}]
  ])("holds JSON lines and nothing else: %s", async (_, args, env) => {
    if (env["KEEP"] !== undefined) put(unfinished)
    const { stdout } = await run([...args, "--json", ...inFile()], env)
    const lines = stdout.trim().split("\n")
    assert.isAbove(lines.length, 2)
    for (const line of lines) assert.isObject(JSON.parse(line))
  })

  it("is empty when nothing could begin; the sentence is on stderr", async () => {
    const { code, stdout, stderr } = await run(["--json", "--scenario", "none-such"])
    assert.deepStrictEqual([code, stdout], [2, ""])
    assert.include(stderr, "--scenario")
  })
})
