import { assert, describe, it } from "@effect/vitest"
import { spawn, spawnSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { notInstalled, oldestNode, tooOld } from "../../../src/programs/commands/absent.ts"

const root = join(import.meta.dirname, "../../..")

/** A command of an installation that has only these packages. */
const runWith = (packages: ReadonlyArray<string>, ...args: ReadonlyArray<string>) => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-"))
  try {
    cpSync(join(root, "src"), join(folder, "src"), { recursive: true })
    cpSync(join(root, "package.json"), join(folder, "package.json"))
    for (const name of ["undici", "eventsource-parser", ...packages]) {
      const link = join(folder, "node_modules", name)
      mkdirSync(dirname(link), { recursive: true })
      symlinkSync(join(root, "node_modules", name), link)
    }
    const ran = spawnSync(process.execPath, [join(folder, "src/cli.ts"), ...args], { cwd: folder, encoding: "utf8" })
    return { code: ran.status, out: ran.stdout, err: ran.stderr.trim().split("\n") }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

describe("the start of a command", () => {
  it.each<readonly [ReadonlyArray<string>, ReadonlyArray<string>, string]>([
    [["effect"], ["--help"], "@effect/platform-node and openai are not installed"],
    [["effect", "openai"], ["--help"], "npm install @effect/platform-node"],
    [["effect", "@effect/platform-node"], ["drill"], "npm install openai"],
    [["effect", "@effect/platform-node"], ["run", "--provider", "embedded", "--prompt", "a"], "npm install openai"]
  ])("with %j %j ends with 2 and one line that says what to install", (packages, args, sentence) => {
    const ran = runWith(packages, ...args)
    assert.deepStrictEqual([ran.code, ran.out, ran.err.length], [2, "", 1])
    assert.include(ran.err[0], `holdfast: `)
    assert.include(ran.err[0], sentence)
  })

  it("needs no SDK for what reads files only", () => {
    assert.strictEqual(runWith(["effect", "@effect/platform-node"], "replay", "--help").code, 0)
  })

  it("knows the oldest Node of the package", () => {
    const { engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      readonly engines: { readonly node: string }
    }
    assert.strictEqual(engines.node, `>=${oldestNode}`)
  })

  it.each([
    ["20.20.2", false],
    ["22.18.0", false],
    ["22.19.0", true],
    ["24.1.0", true]
  ] as const)("on Node %s: %s", (version, isGood) => assert.strictEqual(tooOld(version) === null, isGood))

  it("takes no other failure for a package that is missing", () => {
    assert.isNull(
      notInstalled(new Error("Cannot find package 'openai'"), () => true),
      "no code"
    )
    assert.isNull(
      notInstalled("Cannot find package 'openai'", () => true),
      "no error"
    )
  })
})

it("ends quietly when its reader goes away", async () => {
  const scenarios = join(root, "test/fixtures/scenarios/dev.json")
  const child = spawn(process.execPath, [join(root, "src/cli.ts"), "drill", scenarios, "--json"])
  let said = ""
  child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()))
  child.stdout.once("data", () => child.stdout.destroy())
  const code = await new Promise((resolve) => child.once("exit", resolve))
  assert.deepStrictEqual([said, code], ["", 130])
})
