/**
 * What the package weighs and what its start costs, beside the goals. `npm run size` after `npm run build`.
 *
 * Size: the library's own part of a bundle, minified, without effect and the SDKs. Start: CPU of fresh processes, medians
 * of one run; everything is compared with something of the same run.
 */
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { gzipSync } from "node:zlib"
import { build, type Rolldown } from "vite"

const root = join(import.meta.dirname, "..")
const dist = join(root, "dist")

/** Programs a user writes: what a bundler keeps of the library for each. */
const programs: Readonly<Record<string, string>> = {
  "the loop over a client of your own":
    'import { RecoveryLive, RecoveryPolicy } from "@/index.ts"\nexport { RecoveryLive, RecoveryPolicy }',
  "createRecovery over OpenAI":
    'import { createRecovery } from "@/promise.ts"\nimport { make } from "@/openai.ts"\nexport { createRecovery, make }',
  recoveredFetch: 'import { recoveredFetch } from "@/fetch.ts"\nexport { recoveredFetch }',
  "calls that are no chat": 'import { recoverTransient } from "@/promise.ts"\nexport { recoverTransient }',
  "the machine alone": 'import { transition, RecoveryState } from "@/index.ts"\nexport { transition, RecoveryState }'
}

const goalBytes = 60_000
const goalImportMillis = 60

const isOwn = (id: string): boolean => id.startsWith(".") || id.startsWith("/") || id.startsWith("@/")

interface Size {
  readonly minified: number
  readonly gzipped: number
}

const sizeOf = async (code: string): Promise<Size> => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-size-"))
  try {
    const entry = join(folder, "program.js")
    writeFileSync(entry, code.replaceAll("@/", `${join(root, "src")}/`))
    const made = await build({
      configFile: false,
      logLevel: "error",
      root,
      build: {
        write: false,
        target: "node22",
        lib: { entry, formats: ["es"] },
        rolldownOptions: { external: (id) => !isOwn(id), output: { minify: true } }
      }
    })
    const outputs = [made].flat() as ReadonlyArray<Rolldown.RolldownOutput>
    const text = outputs
      .flatMap(({ output }) => output)
      .map((chunk) => (chunk.type === "chunk" ? chunk.code : ""))
      .join("")
    return { minified: Buffer.byteLength(text), gzipped: gzipSync(text).length }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Modules of effect that an entry of the package loads as it starts. */
const effectModules = (entry: string): ReadonlyArray<string> => {
  const seen = new Set<string>()
  const found = new Set<string>()
  const look = (file: string): void => {
    if (seen.has(file)) return
    seen.add(file)
    for (const [, path = ""] of readFileSync(file, "utf8").matchAll(/^(?:import|export)[^"'\n]*["']([^"']+)["']/gm)) {
      if (path.startsWith(".")) look(resolve(dirname(file), path))
      else if (path.startsWith("effect/")) found.add(path)
    }
  }
  look(entry)
  return [...found]
}

const rounds = 7

/** Median CPU of a fresh process, milliseconds; the first one warms the caches and does not count. */
const cpuOf = (args: ReadonlyArray<string>): number => {
  const probe = `process.on("exit", () => { const { user, system } = process.cpuUsage(); require("node:fs").writeSync(2, "\\ncpu " + (user + system) / 1000) })`
  const folder = mkdtempSync(join(tmpdir(), "holdfast-start-"))
  try {
    writeFileSync(join(folder, "probe.cjs"), probe)
    const once = (): number => {
      const script = `exec "$0" --require "${join(folder, "probe.cjs")}" "$@" 2>&1 >/dev/null`
      const said = execFileSync("sh", ["-c", script, process.execPath, ...args], {
        cwd: root,
        encoding: "utf8",
        env: { ...process.env, XDG_CACHE_HOME: folder }
      })
      return Number(said.slice(said.lastIndexOf("cpu ") + 4))
    }
    once()
    const all = Array.from({ length: rounds }, once).sort((left, right) => left - right)
    return all[Math.floor(rounds / 2)] ?? Number.NaN
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const importing = (...modules: ReadonlyArray<string>): ReadonlyArray<string> => [
  "--input-type=module",
  "--eval",
  modules.map((name) => `import ${JSON.stringify(name)}`).join("\n")
]

const row = (what: string, figure: string, goal: string, isMet: boolean | null): void =>
  console.log(`| ${what} | ${figure} | ${goal} | ${isMet === null ? "" : isMet ? "yes" : "no"} |`)

const kilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(1)} kB`

console.log("| what | figure | goal | met |\n| --- | --- | --- | --- |")
for (const [name, code] of Object.entries(programs)) {
  const { minified, gzipped } = await sizeOf(code)
  row(
    `${name}: own part`,
    `${kilobytes(minified)} (${kilobytes(gzipped)} gzip)`,
    kilobytes(goalBytes),
    minified <= goalBytes
  )
}
const index = join(dist, "node/index.js")
const effect = cpuOf(importing(...effectModules(index)))
const whole = cpuOf(importing(index))
const added = whole - effect
row(
  "import of holdfast, over its effect modules",
  `${added.toFixed(0)} ms`,
  `${goalImportMillis} ms`,
  added <= goalImportMillis
)
const sdk = cpuOf(importing("openai"))
const config = cpuOf([join(dist, "cli.js"), "config"])
row("holdfast config", `${config.toFixed(0)} ms`, `import of openai: ${sdk.toFixed(0)} ms`, config <= sdk)
const empty = cpuOf(importing())
row("a process that does nothing", `${empty.toFixed(0)} ms`, "", null)
