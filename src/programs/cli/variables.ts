/** The variables a command sees: the environment, then `.env` of the working folder. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { ConfigurationError } from "../../domain/ConfigurationError.ts"
import type { PresetName } from "../../domain/RecoveryPolicy.ts"
import { parseDotEnv, resolveSettings, type Settings, type Variables } from "../../domain/Settings.ts"

export const variables = (environment: Variables): Effect.Effect<Variables, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* fs.readFileString(".env").pipe(Effect.catch(() => Effect.succeed("")))
    return { ...parseDotEnv(text), ...environment }
  })

/** Settings for a command; `flags` win over everything. */
export const settings = (
  environment: Variables,
  flags: Variables,
  preset: PresetName
): Effect.Effect<Settings, ConfigurationError, FileSystem.FileSystem> =>
  Effect.flatMap(variables(environment), (found) =>
    Effect.try({
      try: () => resolveSettings({ ...found, ...flags }, preset),
      catch: (cause) =>
        cause instanceof ConfigurationError
          ? cause
          : new ConfigurationError({ field: "configuration", reason: String(cause) })
    })
  )
