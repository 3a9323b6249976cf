/**
 * Modules of the package for the commands that stand outside their bundle: they share their effect with a driver that npm
 * installs. That is another copy than the bundle's: what goes between the two are effects, plain values and tags.
 */
import { createRequire } from "node:module"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"

interface Modules {
  readonly "holdfast/cluster": typeof import("../../layers/stores/shared/TurnsPostgres.ts")
  readonly "holdfast/postgres": typeof import("../../layers/stores/shared/StorePostgres.ts")
}

/** Where a module stands in the sources, and under which name in its entry point. */
const places: { readonly [Entry in keyof Modules]: { readonly source: string; readonly name: string } } = {
  "holdfast/cluster": { source: "../../layers/stores/shared/TurnsPostgres.ts", name: "TurnsPostgres" },
  "holdfast/postgres": { source: "../../layers/stores/shared/StorePostgres.ts", name: "StorePostgres" }
}

/** In a checkout the sources are the only copy. */
const isCheckout = import.meta.url.endsWith(".ts")

/** As a program of the user's would import it; null = its folder has no holdfast. */
const besideOf = (program: string, entry: string): string | null => {
  try {
    return String(pathToFileURL(createRequire(resolve(program)).resolve(entry)))
  } catch {
    return null
  }
}

/** `program`: a file whose copy is meant, so that both share their classes; null = ours. */
export const ownModule = async <Entry extends keyof Modules>(
  entry: Entry,
  program: string | null = null
): Promise<Modules[Entry]> => {
  const { source, name } = places[entry]
  if (isCheckout) return import(/* @vite-ignore */ source)
  const beside = program === null ? null : besideOf(program, entry)
  const module: Readonly<Record<string, Modules[Entry]>> = await import(/* @vite-ignore */ beside ?? entry)
  const found = module[name]
  if (found === undefined) throw new Error(`${entry} has no ${name}`)
  return found
}
