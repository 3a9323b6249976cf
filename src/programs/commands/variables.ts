/** The variables a command sees: its flags, then the environment, then `.env` of the working folder. */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import type { PresetName } from "../../domain/recovery/RecoveryPolicy.ts"
import { requestSettings, settingsOutline } from "./Settings.ts"
import { variableNames } from "./settingVariables.ts"

export type Variables = Readonly<Record<string, string | undefined>>

/** An empty value is a value: it hides what a weaker source says. */
const kept = { preserveEmptyStrings: true }

const noVariables = ConfigProvider.fromDotEnvContents("", kept)

/** `NAME=value` lines; a folder without the file has none. A pipe of that name would be waited for without end. */
const dotEnv: Effect.Effect<ConfigProvider.ConfigProvider, never, FileSystem.FileSystem> = Effect.gen(function* () {
  const { type } = yield* (yield* FileSystem.FileSystem).stat(".env")
  return yield* type === "File" ? ConfigProvider.fromDotEnv(kept) : Effect.succeed(noVariables)
}).pipe(Effect.catch(() => Effect.succeed(noVariables)))

/** Whole names only: `OPENAI_MODEL_OLD` in one source does not hide `OPENAI_MODEL` in a weaker one. */
const flat = (source: ConfigProvider.ConfigProvider): ConfigProvider.ConfigProvider =>
  ConfigProvider.make((path) =>
    Effect.map(source.load(path), (node) =>
      node?.value === undefined ? undefined : ConfigProvider.makeValue(node.value)
    )
  )

/** Names a source has under a beginning. Sources split names at `_` and tell one part at a time. */
const namesUnder = (
  source: ConfigProvider.ConfigProvider,
  path: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>, ConfigProvider.SourceError> =>
  Effect.gen(function* () {
    const node = yield* source.load(path)
    if (node === undefined) return []
    const own = node.value === undefined ? [] : [path.join("_")]
    const parts =
      node._tag === "Record" ? [...node.keys] : node._tag === "Array" ? [...Array(node.length).keys()].map(String) : []
    const below = yield* Effect.forEach(parts, (part) => namesUnder(source, [...path, part]))
    return [...own, ...below.flat()]
  })

/** A `HOLDFAST_*` variable that no command reads is most likely a misspelt one. */
export const refuseUnknown = (source: ConfigProvider.ConfigProvider): Effect.Effect<void, ConfigurationError> =>
  Effect.gen(function* () {
    const names = yield* namesUnder(source, ["HOLDFAST"]).pipe(Effect.catch(() => Effect.succeed([])))
    const found = names.find((name) => !variableNames.includes(name))
    if (found === undefined) return
    const known = variableNames.filter((name) => name.startsWith("HOLDFAST_"))
    return yield* new ConfigurationError({ field: found, reason: `is none of ${known.join(", ")}` })
  })

const has = (source: ConfigProvider.ConfigProvider, name: string): Effect.Effect<boolean> =>
  flat(source)
    .load([name])
    .pipe(
      Effect.map((node) => node !== undefined),
      Effect.catch(() => Effect.succeed(false))
    )

/** The flag that allows what `refuseForeignAddress` refuses. */
export const trustEnvFile = "--trust-env-file"

/**
 * A `.env` comes with the folder, which may be a stranger's: an address in it would get the key that the user has set
 * elsewhere. Both in one place are fine.
 */
const refuseForeignAddress = (
  outer: ConfigProvider.ConfigProvider,
  file: ConfigProvider.ConfigProvider
): Effect.Effect<void, ConfigurationError> =>
  Effect.gen(function* () {
    const isFromFile = (yield* has(file, "OPENAI_BASE_URL")) && !(yield* has(outer, "OPENAI_BASE_URL"))
    if (!isFromFile || !(yield* has(outer, "OPENAI_API_KEY"))) return
    return yield* new ConfigurationError({
      field: "OPENAI_BASE_URL",
      reason: `comes from the file .env of this folder and OPENAI_API_KEY does not: the key would go to an address the folder chose. Set both in one place, or allow it with ${trustEnvFile}`
    })
  })

/** Reads settings for a command; `flags` win over everything. */
const read =
  (environment: Variables, flags: Variables, guard: typeof refuseForeignAddress | null = null) =>
  <A>(self: Effect.Effect<A, ConfigurationError>): Effect.Effect<A, ConfigurationError, FileSystem.FileSystem> =>
    Effect.gen(function* () {
      const file = yield* dotEnv
      const outer = ConfigProvider.fromEnvRecord({ ...environment }, kept)
      yield* refuseUnknown(outer)
      yield* refuseUnknown(file)
      if (guard !== null) yield* guard(outer, file)
      const inOrder = flat(ConfigProvider.fromEnvRecord({ ...flags }, kept)).pipe(
        ConfigProvider.orElse(flat(outer)),
        ConfigProvider.orElse(flat(file))
      )
      return yield* Effect.provideService(self, ConfigProvider.ConfigProvider, inOrder)
    })

/** Settings of a command that sends requests. */
export const settings = (environment: Variables, flags: Variables, preset: PresetName, trustsEnvFile = false) =>
  read(environment, flags, trustsEnvFile ? null : refuseForeignAddress)(requestSettings(preset))

/** Settings of a command that only shows them: nothing has to be set. */
export const outline = (environment: Variables, flags: Variables, preset: PresetName) =>
  read(environment, flags)(settingsOutline(preset))
