/** The variables a command sees: the environment, then `.env` of the working folder. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import type { PresetName } from "../../domain/recovery/RecoveryPolicy.ts"
import { outlineSettings, parseDotEnv, resolveSettings, unknownVariable, type Variables } from "./Settings.ts"

export const variables = (environment: Variables): Effect.Effect<Variables, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* fs.readFileString(".env").pipe(Effect.catch(() => Effect.succeed("")))
    return { ...parseDotEnv(text), ...environment }
  })

/** Reads the variables for a command; `flags` win over everything. A variable nobody knows is a fault, too. */
const read = <A>(
  environment: Variables,
  flags: Variables,
  resolve: (variables: Variables) => A
): Effect.Effect<A, ConfigurationError, FileSystem.FileSystem> =>
  Effect.flatMap(variables(environment), (found) =>
    Effect.try({
      try: () => {
        const unknown = unknownVariable(found)
        if (unknown !== null) throw unknown
        return resolve({ ...found, ...flags })
      },
      catch: (cause) =>
        cause instanceof ConfigurationError
          ? cause
          : new ConfigurationError({ field: "configuration", reason: String(cause) })
    })
  )

/** Settings of a command that sends requests. */
export const settings = (environment: Variables, flags: Variables, preset: PresetName) =>
  read(environment, flags, (found) => resolveSettings(found, preset))

/** Settings of a command that only shows them: nothing has to be set. */
export const outline = (environment: Variables, flags: Variables, preset: PresetName) =>
  read(environment, flags, (found) => outlineSettings(found, preset))
