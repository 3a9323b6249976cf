/** What the place we run in has: nothing here imports a module of Node, so the library loads where there is none. */

/** The environment's variables; empty where there is no process. */
export const environment = (): Readonly<Record<string, string | undefined>> =>
  typeof process === "object" && typeof process.env === "object" ? process.env : {}

/** Node itself: Bun and Deno name themselves, and bring a fetch of their own that does what undici does here. */
export const isNode = (): boolean =>
  typeof process === "object" &&
  typeof process.versions?.node === "string" &&
  process.versions["bun"] === undefined &&
  !("Deno" in globalThis) &&
  !("WebSocketPair" in globalThis)

/** A module of Node's own, without an import that a bundler would follow; null = there is none here. */
export const builtin = <Name extends string & keyof BuiltinModules>(name: Name): BuiltinModules[Name] | null => {
  if (typeof process !== "object" || typeof process.getBuiltinModule !== "function") return null
  return process.getBuiltinModule(name) ?? null
}

interface BuiltinModules {
  readonly "node:module": typeof import("node:module")
  readonly "node:fs/promises": typeof import("node:fs/promises")
}
