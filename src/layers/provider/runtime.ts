/** What the place we run in has: nothing here imports a module of Node, so the library loads where there is none. */
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"

/** The environment's variables; empty where there is no process. */
export const environment = (): Readonly<Record<string, string | undefined>> =>
  typeof process === "object" && typeof process.env === "object" ? process.env : {}

/** A module of Node's own, without an import that a bundler would follow; null = there is none here. */
export const builtin = <Name extends string & keyof BuiltinModules>(name: Name): BuiltinModules[Name] | null => {
  if (typeof process !== "object" || typeof process.getBuiltinModule !== "function") return null
  return process.getBuiltinModule(name) ?? null
}

/** The same where there is no other way. */
export const needed = <Name extends string & keyof BuiltinModules>(name: Name): BuiltinModules[Name] => {
  const found = builtin(name)
  if (found === null) throw new ConfigurationError({ field: name, reason: "is not here: files need Node, Bun or Deno" })
  return found
}

interface BuiltinModules {
  readonly "node:child_process": typeof import("node:child_process")
  readonly "node:fs": typeof import("node:fs")
  readonly "node:os": typeof import("node:os")
  readonly "node:path": typeof import("node:path")
  readonly "node:module": typeof import("node:module")
  readonly "node:fs/promises": typeof import("node:fs/promises")
}
