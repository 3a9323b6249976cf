/** What is published: the files that `package.json` names, and those that these name. */
import { existsSync, readFileSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"

export const root = join(import.meta.dirname, "..")

interface Targets {
  readonly types: string
  readonly node: string
  readonly default: string
}

export const targets = (): ReadonlyArray<Targets> => {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly exports: Readonly<Record<string, string | Targets>>
  }
  return Object.values(exports).filter((target) => typeof target !== "string")
}

export const entries = (): ReadonlyArray<string> =>
  ["./dist/cli.js", ...targets().flatMap((target) => [target.types, target.node, target.default])].map((file) =>
    join(root, file)
  )

/** Files of our own that a file names: in code with `.js`, in types the declarations beside it. */
const namedBy = (file: string): ReadonlyArray<string> => {
  const isTypes = file.endsWith(".d.ts")
  const text = readFileSync(file, "utf8")
  return [...text.matchAll(/(?:from|import)\s*\(?\s*["'`](\.\.?\/[\w./-]+)["'`]/g)].map((found) => {
    const path = resolve(dirname(file), found[1] ?? "")
    return isTypes ? path.replace(/\.(?:js|ts)$/, ".d.ts") : path
  })
}

/** A file that is named and not there is thrown in a sentence. */
export const reachedFrom = (files: ReadonlyArray<string>): ReadonlySet<string> => {
  const reached = new Set<string>()
  const look = (file: string): void => {
    if (reached.has(file)) return
    if (!existsSync(file)) throw new Error(`${relative(root, file)} is named and was not built`)
    reached.add(file)
    for (const next of namedBy(file)) look(next)
  }
  for (const file of files) look(file)
  return reached
}
