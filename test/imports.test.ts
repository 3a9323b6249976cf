import { assert, it } from "@effect/vitest"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"

/** Rooms from the bottom up; an arrow may point to its own room or down. */
const allowed: Readonly<Record<string, ReadonlyArray<string>>> = {
  domain: ["domain"],
  services: ["domain", "services"],
  layers: ["domain", "services", "layers", "programs"],
  programs: ["domain", "services", "layers", "programs"],
  entry: ["domain", "services", "layers", "programs", "entry"]
}

/** Data modules of effect that the domain may use. `Effect` only for the default values of schema fields. */
const domainModules = ["Data", "Duration", "Option", "Order", "Predicate", "Redacted", "Result", "Schema", "Effect"]
const unstable = ["ai", "http", "cli", "persistence", "observability", "encoding", "workflow", "cluster", "sql"]

interface Source {
  readonly path: string
  readonly text: string
}

const roomOf = (path: string): string => {
  const [first = "", second] = path.split("/")
  return second === undefined ? "entry" : first
}

const importsOf = (text: string): ReadonlyArray<string> =>
  [
    ...text.matchAll(
      /(?:^|\n)\s*(?:import|export)[^"'\n;]*?(?:\{[^}]*\}[^"'\n;]*?)?from\s+["']([^"']+)["']|import\(\s*["']([^"']+)["']\s*\)/g
    )
  ].map((found) => found[1] ?? found[2] ?? "")

const sdkHome: Readonly<Record<string, RegExp>> = {
  openai: /^layers\/[Oo]penAi/,
  "@anthropic-ai/sdk": /^layers\/[Aa]nthropic/
}

/** Everything that is wrong with one file, in words. */
export const faultsOf = (source: Source): ReadonlyArray<string> => {
  const room = roomOf(source.path)
  const isCommand = source.path === "cli.ts" || source.path.startsWith("programs/cli/")
  const fromImports = importsOf(source.text).flatMap((specifier): ReadonlyArray<string> => {
    const say = (what: string): ReadonlyArray<string> => [`${source.path}: ${what} (${specifier})`]
    if (specifier.startsWith(".")) {
      if (!specifier.endsWith(".ts")) return say("an own file is imported without its extension")
      const target = relative("/src", resolve("/src", dirname(source.path), specifier))
      return allowed[room]?.includes(roomOf(target)) === true ? [] : say("an arrow points up")
    }
    const sdk = Object.keys(sdkHome).find((name) => specifier === name || specifier.startsWith(`${name}/`))
    if (sdk !== undefined) return sdkHome[sdk]?.test(source.path) === true ? [] : say("an SDK outside its adapter")
    if (specifier === "effect") return say("effect is imported by its root")
    const [, module = ""] = /^effect\/(.+)$/.exec(specifier) ?? []
    if (unstable.includes(module.split("/")[0] ?? "") && !isCommand)
      return say("an unstable module outside its entry point")
    if (room === "domain") {
      if (module === "") return say("the domain imports a package")
      if (!domainModules.includes(module)) return say("the domain imports more than data modules")
    }
    return []
  })
  const inDomain = room === "domain"
  const chance = inDomain
    ? [
        ...source.text.matchAll(
          /\bDate\.now\(|\bMath\.random\(|\bsetTimeout\(|\bnew Date\(\)|\bprocess\.|\bEffect\.(?!succeed\b)\w+/g
        )
      ].map((found) => `${source.path}: time, chance or an effect in the domain (${found[0]})`)
    : []
  return [...fromImports, ...chance]
}

const root = join(import.meta.dirname, "../src")

const sourcesIn = (folder: string): ReadonlyArray<Source> =>
  readdirSync(folder).flatMap((name): ReadonlyArray<Source> => {
    const path = join(folder, name)
    if (statSync(path).isDirectory()) return sourcesIn(path)
    return name.endsWith(".ts") ? [{ path: relative(root, path), text: readFileSync(path, "utf8") }] : []
  })

it("has no arrow that points up, no SDK outside its adapter, no time or chance in the domain", () => {
  const sources = sourcesIn(root)
  assert.isAbove(sources.length, 40)
  assert.deepStrictEqual(sources.flatMap(faultsOf), [])
})

it.each([
  { path: "domain/A.ts", text: 'import { b } from "../services/B.ts"' },
  { path: "domain/A.ts", text: 'import {\n  b\n} from "../layers/B.ts"' },
  { path: "domain/A.ts", text: 'export { b } from "../programs/b.ts"' },
  { path: "domain/A.ts", text: 'import * as Clock from "effect/Clock"' },
  { path: "domain/A.ts", text: "const now = Date.now()" },
  { path: "domain/A.ts", text: "Effect.gen(function* () {})" },
  { path: "domain/A.ts", text: 'import { readFileSync } from "node:fs"' },
  { path: "services/A.ts", text: 'import { b } from "../layers/B.ts"' },
  { path: "programs/a.ts", text: 'import OpenAI from "openai"' },
  { path: "layers/Other.ts", text: 'import Anthropic from "@anthropic-ai/sdk"' },
  { path: "layers/A.ts", text: 'import { Effect } from "effect"' },
  { path: "programs/a.ts", text: 'const x = import("effect/cli")' },
  { path: "programs/a.ts", text: 'import { b } from "../index.ts"' },
  { path: "programs/a.ts", text: 'import { b } from "./b"' }
])("finds the fault in $path: $text", (source) => {
  assert.isAbove(faultsOf(source).length, 0)
})
