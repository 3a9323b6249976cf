/** The database that `holdfast turns` is told of. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"

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
