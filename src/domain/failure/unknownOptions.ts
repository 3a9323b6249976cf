/** Options that nobody reads: JavaScript, casts and old habits bring them, and none is passed over in silence. */
import { ConfigurationError } from "./ConfigurationError.ts"

const bare = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, "")

/** A known name that differs by case or punctuation only: `baseURL`, `base_url`. */
const meant = (name: string, known: ReadonlyArray<string>): string | undefined =>
  known.find((one) => bare(one) === bare(name))

/** Says which names there are, and the one that was most likely meant. */
export const unknownReason = (name: string, known: ReadonlyArray<string>): string => {
  const near = meant(name, known)
  return near === undefined
    ? `is not an option: there are ${known.join(", ")}`
    : `is not an option: the name is ${near}`
}

/** An option that nobody knows is a ConfigurationError that names it, and never its value. */
export const refuseUnknown = (options: unknown, known: ReadonlyArray<string>): void => {
  if (typeof options !== "object" || options === null || Array.isArray(options))
    throw new ConfigurationError({ field: "options", reason: "must be an object" })
  const unknown = Object.keys(options).find((key) => !known.includes(key))
  if (unknown !== undefined) throw new ConfigurationError({ field: unknown, reason: unknownReason(unknown, known) })
}
