import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"

const root = join(import.meta.dirname, "../src")

/** What a file loads as it starts: imports of types are gone by then. */
const loads = (path: string): ReadonlyArray<string> => {
  const text = readFileSync(path, "utf8")
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    .replaceAll(/(?:import|export) type [^"']*["'][^"']+["']/g, "")
  return [...text.matchAll(/(?:from|import)\s*["']([^"']+)["']/g)].map((found) => found[1] ?? "")
}

const reached = (entry: string, seen = new Set<string>()): ReadonlyArray<readonly [file: string, what: string]> => {
  if (seen.has(entry)) return []
  seen.add(entry)
  return loads(entry).flatMap((what) =>
    what.startsWith(".")
      ? reached(resolve(dirname(entry), what), seen)
      : [[entry.slice(root.length + 1), what] as const]
  )
}

it.each(["index", "promise", "openai", "anthropic", "agent", "testing", "fetch", "prices", "ai"])(
  "loads without a module of Node and without undici: holdfast/%s",
  (entry) => {
    const found = reached(join(root, `${entry}.ts`))
    assert.isAbove(found.length, 0)
    assert.deepStrictEqual(
      found.filter(([, what]) => what.startsWith("node:") || what.startsWith("undici")),
      []
    )
  }
)

it("finds what a file loads", () => {
  assert.include(
    reached(join(root, "programs/commands/run/folderTools.ts")).map(([, what]) => what),
    "node:fs/promises"
  )
})
