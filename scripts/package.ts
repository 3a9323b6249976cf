/**
 * Makes what is published of what the compiler has written. Run by `npm run build`.
 *
 * - The command line becomes one bundle with its part of effect: it starts fast and needs no package of a platform.
 * - For Node (condition `node`) the entry points become a few files, which load in a fraction of the time of hundreds.
 *   Everybody else, bundlers first of all, gets one file per module, of which they leave out what is not used.
 * - Files that no entry point reaches go away.
 */
import { readdirSync, rmSync } from "node:fs"
import { basename, join, relative } from "node:path"
import { build } from "vite"
import { entries, reachedFrom, root, targets } from "./builtFiles.ts"

const dist = join(root, "dist")

/** Packages that the command line carries; the others are loaded when they are needed. */
const carried = /^(?:effect|@effect\/platform-node|@effect\/platform-node-shared)(?:\/|$)/

const isPackage = (id: string): boolean => !id.startsWith(".") && !id.startsWith("/")

interface Bundle {
  readonly entry: Readonly<Record<string, string>>
  readonly outDir: string
  /** Folder of the parts that several entries share, below. */
  readonly parts: string
  readonly isOutside: (id: string) => boolean
  readonly minify: boolean
  /** Modules that stand in one part each, whoever shares them. Default: a part for every set of entries that share. */
  readonly together?: ReadonlyArray<{ readonly name: string; readonly test: (id: string) => boolean }>
}

const bundle = ({ entry, outDir, parts, isOutside, minify, together }: Bundle): Promise<unknown> =>
  build({
    configFile: false,
    logLevel: "warn",
    root,
    build: {
      outDir,
      emptyOutDir: false,
      copyPublicDir: false,
      minify: false,
      target: "node22",
      lib: { entry, formats: ["es"] },
      rolldownOptions: {
        external: isOutside,
        output: {
          minify,
          entryFileNames: "[name].js",
          chunkFileNames: `${parts}/[name]-[hash].js`,
          ...(together === undefined ? {} : { codeSplitting: { groups: [...together] } })
        }
      }
    }
  })

const source = (name: string): string => join(root, "src", `${name}.ts`)

const sources = Object.fromEntries(
  targets()
    .map((target) => basename(target.default, ".js"))
    .map((name) => [name, source(name)])
)

const filesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))

const removeEmpty = (folder: string): void => {
  for (const entry of readdirSync(folder, { withFileTypes: true }))
    if (entry.isDirectory()) removeEmpty(join(folder, entry.name))
  if (readdirSync(folder).length === 0) rmSync(folder, { recursive: true })
}

await bundle({
  entry: { cli: source("cli") },
  outDir: dist,
  parts: "cli",
  isOutside: (id) => isPackage(id) && !carried.test(id),
  minify: true
})
/**
 * What `holdfast` itself loads is two files: every further one costs its start half a millisecond. The rules and the
 * vocabulary are one of them, since an adapter needs them without the loop.
 */
const core = new Set(
  [...reachedFrom([join(dist, "index.js")])]
    .filter((file) => file !== join(dist, "index.js"))
    .map((file) => join(root, "src", relative(dist, file)).replace(/\.js$/, ".ts"))
)
const loop = ["programs/", "layers/"].map((room) => join(root, "src", room))
const isLoop = (id: string): boolean => loop.some((room) => id.startsWith(room)) && !id.includes("/layers/provider/")
await bundle({
  entry: sources,
  outDir: join(dist, "node"),
  parts: "parts",
  isOutside: isPackage,
  minify: false,
  together: [
    { name: "rules", test: (id) => core.has(id) && !isLoop(id) },
    { name: "loop", test: (id) => core.has(id) && isLoop(id) }
  ]
})
const reached = reachedFrom(entries())
const left = filesIn(dist).filter((file) => !reached.has(file))
for (const file of left) rmSync(file)
removeEmpty(dist)
console.log(`dist: ${reached.size} files; ${left.length} that nothing reaches were left out`)
