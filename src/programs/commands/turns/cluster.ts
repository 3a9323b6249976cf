/**
 * Turns in PostgreSQL for the commands: the package's own module, which shares its effect with the driver of the database. It
 * is another copy than the one in the command line's bundle: what goes between them are effects, plain values and tags.
 */
import { createRequire } from "node:module"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"

export type Cluster = typeof import("../../../layers/stores/shared/TurnsPostgres.ts")

const name = "holdfast/cluster"

/** The command line is one bundle with an effect of its own; in a checkout the sources are the only copy. */
const isCheckout = import.meta.url.endsWith(".ts")
const source = "../../../layers/stores/shared/TurnsPostgres.ts"

/** As a program of the user's would import it; null = its folder has no holdfast. */
const besideOf = (program: string): string | null => {
  try {
    return String(pathToFileURL(createRequire(resolve(program)).resolve(name)))
  } catch {
    return null
  }
}

/** One that shares its classes with the program that is to run; null = with none. */
export const loadCluster = async (program: string | null): Promise<Cluster> => {
  if (isCheckout) return import(/* @vite-ignore */ source)
  const beside = program === null ? null : besideOf(program)
  const { TurnsPostgres }: { readonly TurnsPostgres: Cluster } = await import(/* @vite-ignore */ beside ?? name)
  return TurnsPostgres
}

/** An address, or the variable that holds it: a password does not belong into a list of processes. */
export const databaseOf = (
  given: string,
  environment: Readonly<Record<string, string | undefined>>
): Effect.Effect<Redacted.Redacted, ConfigurationError> => {
  const variable = /^env:(.+)$/.exec(given)?.[1]
  const url = variable === undefined ? given : environment[variable]
  const bad = (reason: string) => Effect.fail(new ConfigurationError({ field: "--database", reason }))
  if (url === undefined || url === "") return bad(`names the variable ${variable ?? ""}, which is not set`)
  if (!/^postgres(ql)?:\/\/./.test(url) || !URL.canParse(url))
    return bad("must be an address postgres://HOST:PORT/NAME, or env:NAME of a variable that holds one")
  return Effect.succeed(Redacted.make(url))
}
