import { assert, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "../..")

/** The package's own names, as a checkout has them. */
const ownSource = (code: string): string =>
  code.replaceAll(
    /from "holdfast(?:\/([a-z]+))?"/g,
    (_, entry: string | undefined) => `from "../src/${entry ?? "index"}.ts"`
  )

it("answers with a tool of an MCP server that ran once, though the provider failed before, in and after its call", () => {
  const folder = mkdtempSync(join(root, ".example-"))
  try {
    for (const name of ["agent.ts", "stock.ts"])
      writeFileSync(join(folder, name), ownSource(readFileSync(join(root, "examples/effect-ai", name), "utf8")))
    const counter = join(folder, "counter")
    const said = execFileSync(process.execPath, [join(folder, "agent.ts"), counter], { cwd: root, encoding: "utf8" })
    assert.include(said, "Seven lamps are in stock.")
    assert.strictEqual(readFileSync(counter, "utf8"), "lamp\n")
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
