import { assert, it } from "@effect/vitest"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"

/**
 * Floors from the bottom up, with their rooms in order; a file may import its own room and every room before it.
 * A folder that is no room of its own (`provider/profiles`) belongs to the room it stands in.
 */
const order: ReadonlyArray<string> = [
  "domain/chat",
  "domain/failure",
  "domain/budget",
  "domain/provider",
  "domain/wires",
  "domain/recovery",
  "domain/route",
  "domain/agent",
  "services",
  "programs/request",
  "programs/agent",
  "layers/provider",
  "layers/stores",
  "layers",
  "promise",
  "programs/commands",
  "testing",
  "entry"
]

/** Data modules of effect that the domain may use. `Effect` only for the default values of schema fields. */
const domainModules = [
  "Data",
  "Duration",
  "Option",
  "Order",
  "Predicate",
  "Redacted",
  "Result",
  "Schema",
  "SchemaTransformation",
  "Cause",
  "Effect"
]
const unstable = ["ai", "http", "cli", "persistence", "observability", "encoding", "workflow", "cluster", "sql"]

interface Source {
  readonly path: string
  readonly text: string
}

/** The room a file stands in; null = in none, which is a fault of its own. */
const roomOf = (path: string): string | null => {
  const folders = path.split("/").slice(0, -1)
  if (folders.length === 0) return "entry"
  for (let depth = folders.length; depth > 0; depth -= 1) {
    const room = folders.slice(0, depth).join("/")
    if (order.includes(room)) return room
  }
  return null
}

const mayImport = (from: string, to: string): boolean => {
  const [room, target] = [roomOf(from), roomOf(to)]
  return room !== null && target !== null && order.indexOf(target) <= order.indexOf(room)
}

const importsOf = (text: string): ReadonlyArray<string> =>
  [
    ...text.matchAll(
      /(?:^|\n)\s*(?:import|export)[^"'\n;]*?(?:\{[^}]*\}[^"'\n;]*?)?from\s+["']([^"']+)["']|import\(\s*["']([^"']+)["']\s*\)/g
    )
  ].map((found) => found[1] ?? found[2] ?? "")

/** Rooms that only entries of their own import, and those entries where they name such a module. */
const unstableHome = /^(?:layers\/(?:telemetry|ai|stores\/shared)\/|ai\.ts$)/

/** Where an optional peer, or an unstable module of effect, has its home. */
const sdkHome: Readonly<Record<string, RegExp>> = {
  "@effect/sql-pg": /Postgres\.ts$/,
  redis: /^$/,
  openai: /^layers\/provider\/OpenAi/,
  "@anthropic-ai/sdk": /^layers\/provider\/Anthropic/
}

/** Everything that is wrong with one file, in words. */
export const faultsOf = (source: Source): ReadonlyArray<string> => {
  const room = roomOf(source.path)
  if (room === null) return [`${source.path}: stands in no room`]
  const inDomain = room.startsWith("domain/")
  const isCommand = source.path === "cli.ts" || room === "programs/commands"
  const fromImports = importsOf(source.text).flatMap((specifier): ReadonlyArray<string> => {
    const say = (what: string): ReadonlyArray<string> => [`${source.path}: ${what} (${specifier})`]
    if (specifier.startsWith(".")) {
      if (!specifier.endsWith(".ts")) return say("an own file is imported without its extension")
      const target = relative("/src", resolve("/src", dirname(source.path), specifier))
      return mayImport(source.path, target) ? [] : say("an arrow points up")
    }
    const sdk = Object.keys(sdkHome).find((name) => specifier === name || specifier.startsWith(`${name}/`))
    if (sdk !== undefined) return sdkHome[sdk]?.test(source.path) === true ? [] : say("an SDK outside its adapter")
    if (specifier === "effect") return say("effect is imported by its root")
    const [, module = ""] = /^effect\/(.+)$/.exec(specifier) ?? []
    if (unstable.includes(module.split("/")[0] ?? "") && !isCommand && !unstableHome.test(source.path))
      return say("an unstable module outside its entry point")
    if (inDomain) {
      if (module === "") return say("the domain imports a package")
      if (!domainModules.includes(module)) return say("the domain imports more than data modules")
    }
    return []
  })
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
  { path: "domain/failure/A.ts", text: 'import { b } from "../../services/B.ts"' },
  { path: "domain/failure/A.ts", text: 'import {\n  b\n} from "../../layers/B.ts"' },
  { path: "domain/failure/A.ts", text: 'export { b } from "../../programs/request/b.ts"' },
  { path: "domain/failure/A.ts", text: 'export { b } from "../recovery/b.ts"' },
  { path: "domain/chat/A.ts", text: 'import { b } from "../failure/b.ts"' },
  { path: "domain/provider/profiles/a.ts", text: 'import { b } from "../../wires/b.ts"' },
  { path: "domain/A.ts", text: "export const roomless = 1" },
  { path: "domain/chat/A.ts", text: 'import * as Clock from "effect/Clock"' },
  { path: "domain/chat/A.ts", text: "const now = Date.now()" },
  { path: "domain/chat/A.ts", text: "Effect.gen(function* () {})" },
  { path: "domain/chat/A.ts", text: 'import { readFileSync } from "node:fs"' },
  { path: "services/A.ts", text: 'import { b } from "../layers/B.ts"' },
  { path: "programs/request/a.ts", text: 'import OpenAI from "openai"' },
  { path: "programs/request/a.ts", text: 'import { b } from "../agent/b.ts"' },
  { path: "programs/agent/a.ts", text: 'import { b } from "../../layers/stores/B.ts"' },
  { path: "layers/Other.ts", text: 'import Anthropic from "@anthropic-ai/sdk"' },
  { path: "layers/A.ts", text: 'import { Effect } from "effect"' },
  { path: "layers/A.ts", text: 'import { b } from "../programs/commands/b.ts"' },
  { path: "programs/request/a.ts", text: 'const x = import("effect/cli")' },
  { path: "programs/commands/a.ts", text: 'import { b } from "../../index.ts"' },
  { path: "programs/request/a.ts", text: 'import { b } from "./b"' }
])("finds the fault in $path: $text", (source) => {
  assert.isAbove(faultsOf(source).length, 0)
})

/** Modules a program gets with an entry point, by what they import at run time. */
const reachedFrom = (entry: string): ReadonlyMap<string, ReadonlyArray<string>> => {
  const reached = new Map<string, ReadonlyArray<string>>()
  const visit = (path: string): void => {
    if (reached.has(path)) return
    const text = readFileSync(join(root, path), "utf8").replaceAll(/(?:import|export) type [^"]*from\s+"[^"]+"/g, "")
    const specifiers = importsOf(text)
    reached.set(path, specifiers)
    for (const specifier of specifiers)
      if (specifier.startsWith(".")) visit(relative("/src", resolve("/src", dirname(path), specifier)))
  }
  visit(entry)
  return reached
}

it("needs no provider's profile for the loop over a client of one's own", () => {
  const isProfile = (path: string): boolean => path.startsWith("domain/provider/profiles/")
  assert.isTrue([...reachedFrom("openai.ts").keys()].some(isProfile))
  assert.deepStrictEqual([...reachedFrom("layers/RecoveryLive.ts").keys()].filter(isProfile), [])
})

it("needs no SDK and nothing of Node to recover a fetch", () => {
  const reached = reachedFrom("fetch.ts")
  assert.isAbove(reached.size, 40)
  const foreign = [...reached.values()]
    .flat()
    .filter((specifier) => !specifier.startsWith(".") && !specifier.startsWith("effect/"))
  assert.deepStrictEqual([...new Set(foreign)], [])
  for (const path of reached.keys())
    assert.notMatch(
      readFileSync(join(root, path), "utf8"),
      /\b(?:Buffer\.|process\.env|process\.on|setImmediate\()/,
      path
    )
})
