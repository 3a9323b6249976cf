import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join, relative } from "node:path"
import { configurationPage } from "../scripts/configurationPage.ts"
import { errorsPage } from "../scripts/errorsPage.ts"
import { machinePicture } from "../scripts/machinePicture.ts"
import { variableNames } from "../src/programs/commands/settingVariables.ts"

const root = join(import.meta.dirname, "..")

const documents = [
  "README.md",
  "TOUR.md",
  "AGENTS.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name))
]

interface Block {
  readonly document: string
  readonly line: number
  readonly code: string
}

/** Blocks marked exactly `ts`; `ts no-run` needs a key or a network and is left out. */
const blocksOf = (document: string): ReadonlyArray<Block> => {
  const text = readFileSync(join(root, document), "utf8")
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((found) => ({
    document,
    line: text.slice(0, found.index).split("\n").length,
    code: found[1] ?? ""
  }))
}

const blocks = documents.flatMap(blocksOf)

/** The package's own names, as a checkout has them. */
const ownSource = (code: string, folder: string): string =>
  code.replaceAll(/from "holdfast(?:\/([a-z]+))?"/g, (_, entry: string | undefined) => {
    const path = relative(folder, join(root, "src", `${entry ?? "index"}.ts`))
    return `from "${path.startsWith(".") ? path : `./${path}`}"`
  })

describe("the documents", () => {
  it("has examples to run", () => {
    assert.isAbove(blocks.length, 1)
  })

  it.each(blocks.map((block) => [`${block.document}:${block.line}`, block] as const))(
    "runs the example at %s",
    (_, block) => {
      const folder = mkdtempSync(join(root, ".doc-"))
      try {
        const file = join(folder, "example.ts")
        writeFileSync(file, ownSource(block.code, folder))
        execFileSync(process.execPath, [file], { cwd: root, stdio: "pipe" })
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    }
  )

  it("tell of every variable the commands read, and of no other", () => {
    const text = readFileSync(join(root, "docs/configuration.md"), "utf8")
    const told = new Set([...text.matchAll(/`((?:OPENAI|HOLDFAST)_[A-Z_]+)`/g)].map((found) => found[1] ?? ""))
    assert.deepStrictEqual([...told].sort(), [...variableNames].sort())
  })

  it("have the configuration page that the source makes (npm run docs)", () => {
    assert.strictEqual(readFileSync(join(root, "docs/configuration.md"), "utf8"), configurationPage)
  })

  it("have the page of errors and the picture of the machine that the source makes (npm run docs)", () => {
    assert.strictEqual(readFileSync(join(root, "docs/errors.md"), "utf8"), errorsPage())
    assert.strictEqual(readFileSync(join(root, "docs/machine.svg"), "utf8"), machinePicture())
  })

  it.each(documents.filter((document) => document !== "AGENTS.md" && document !== "TOUR.md"))(
    "%s is in the package with what it links to",
    (document) => {
      const { files } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
        readonly files: ReadonlyArray<string>
      }
      // npm packs the README whatever the list says.
      const isPacked = (path: string): boolean =>
        path === "README.md" || files.some((file) => path === file || path.startsWith(`${file}/`))
      const text = readFileSync(join(root, document), "utf8")
      const targets = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map((found) =>
        join(document, "..", found[1] ?? "")
      )
      assert.deepStrictEqual(
        [document, ...targets].filter((path) => !isPacked(path)),
        []
      )
    }
  )

  it.each(documents)("%s links only to files that exist", (document) => {
    const text = readFileSync(join(root, document), "utf8")
    const broken = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)]
      .map((found) => found[1] ?? "")
      .filter((target) => {
        try {
          readdirSync(join(root, document, "..", target))
          return false
        } catch (cause) {
          return (cause as NodeJS.ErrnoException).code === "ENOENT"
        }
      })
    assert.deepStrictEqual(broken, [])
  })
})
