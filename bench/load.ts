/** Packages that may be absent: bench/ installs them for those who want to compare (`npm ci --prefix bench`). */
import { readFileSync } from "node:fs"

/** null = the package is not installed. */
export const load = async <A>(name: string): Promise<A | null> => {
  try {
    return await import(name)
  } catch (cause) {
    // Anything but an absent package is a fault of the benchmark.
    if (cause instanceof Error && "code" in cause && cause.code === "ERR_MODULE_NOT_FOUND") return null
    throw cause
  }
}

const pinned: { readonly dependencies: Readonly<Record<string, string>> } = JSON.parse(
  readFileSync(new URL("package.json", import.meta.url), "utf8")
)

/** The version of a package that bench/ pins. */
export const versionOf = (name: string): string => pinned.dependencies[name] ?? "?"
