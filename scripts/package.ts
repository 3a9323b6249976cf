/**
 * Makes what is published of what the compiler has written: the command line becomes one bundle with its part of effect
 * (it starts fast, and needs no package of a platform), and files that no entry point reaches go away. Run by `npm run build`.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"
import { build } from "vite"

const root = join(import.meta.dirname, "..")
const dist = join(root, "dist")

/** Packages that the command line carries; the others are loaded when they are needed. */
const carried = /^(?:effect|@effect\/platform-node|@effect\/platform-node-shared)(?:\/|$)/

const isOutside = (id: string): boolean => !id.startsWith(".") && !id.startsWith("/") && !carried.test(id)

const bundleCommandLine = (): Promise<unknown> =>
  build({
    configFile: false,
    logLevel: "warn",
    root,
    build: {
      outDir: dist,
      emptyOutDir: false,
      copyPublicDir: false,
      target: "node22",
      lib: { entry: join(root, "src/cli.ts"), formats: ["es"] },
      rolldownOptions: {
        external: isOutside,
        output: { minify: true, entryFileNames: "cli.js", chunkFileNames: "cli/[name]-[hash].js" }
      }
    }
  })

const entries = (): ReadonlyArray<string> => {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>
  }
  const files = Object.values(exports).flatMap((target) =>
    typeof target === "string" ? [] : [target.types, target.default]
  )
  return ["./dist/cli.js", ...files].map((file) => join(root, file))
}

/** Files of our own that a file names: in code with `.js`, in types the declarations beside it. */
const namedBy = (file: string): ReadonlyArray<string> => {
  const isTypes = file.endsWith(".d.ts")
  const text = readFileSync(file, "utf8")
  return [...text.matchAll(/(?:from|import)\s*\(?\s*["'`](\.\.?\/[\w./-]+)["'`]/g)].map((found) => {
    const path = resolve(dirname(file), found[1] ?? "")
    return isTypes ? path.replace(/\.(?:js|ts)$/, ".d.ts") : path
  })
}

const reachedFrom = (files: ReadonlyArray<string>): ReadonlySet<string> => {
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

const filesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))

const removeEmpty = (folder: string): void => {
  for (const entry of readdirSync(folder, { withFileTypes: true }))
    if (entry.isDirectory()) removeEmpty(join(folder, entry.name))
  if (readdirSync(folder).length === 0) rmSync(folder, { recursive: true })
}

await bundleCommandLine()
const reached = reachedFrom(entries())
const left = filesIn(dist).filter((file) => !reached.has(file))
for (const file of left) rmSync(file)
removeEmpty(dist)
console.log(`dist: ${reached.size} files; ${left.length} that nothing reaches were left out`)
