/** `holdfast turns serve`: a runner of the turns of a database, until it is told to stop. */
import { existsSync } from "node:fs"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import type { RunnerOptions, TurnProgram } from "../../../layers/stores/shared/TurnsPostgres.ts"
import { exitCodes } from "../../../domain/failure/exitCode.ts"
import { complain, type ExitCode } from "../exit.ts"
import { quietly } from "../journalFile.ts"
import { ownModule } from "../ownModule.ts"
import { databaseOf } from "./database.ts"

export interface ServeInput {
  readonly database: string | null
  readonly program: string | null
  readonly host: string
  readonly port: number
}

/** A name, never the words of the database: they may quote its address. */
const brokenBy = (cause: unknown): string =>
  cause instanceof ConfigurationError
    ? cause.message
    : typeof cause === "object" && cause !== null && "_tag" in cause
      ? cause._tag === "SqlError"
        ? "the database cannot be reached, or refuses us"
        : String(cause._tag)
      : cause instanceof Error
        ? cause.name
        : "it failed"

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

const isProgram = (value: unknown): value is TurnProgram => typeof value === "function"

/** The default export of a module of the user's; what it throws while it is loaded is the user's to mend. */
const programOf = (path: string): Effect.Effect<TurnProgram, ConfigurationError> =>
  Effect.flatMap(
    Effect.tryPromise({
      try: (): Promise<{ readonly default?: unknown }> =>
        quietly(() => import(/* @vite-ignore */ String(pathToFileURL(resolve(path))))),
      catch: (cause) =>
        bad("--program", `(${path}) cannot be loaded: ${cause instanceof Error ? cause.message : "it failed"}`)
    }),
    (module) =>
      isProgram(module.default)
        ? Effect.succeed(module.default)
        : Effect.fail(
            bad("--program", `(${path}) has no function as its default export, ({ id, prompt, store }) => Effect`)
          )
  )

const say = (text: string): void => void process.stderr.write(`holdfast: ${text}\n`)

/** Runs until it is interrupted: the turns go to the other runners, and the process ends well. */
const serving = (
  cluster: typeof import("../../../layers/stores/shared/TurnsPostgres.ts"),
  options: RunnerOptions
): Effect.Effect<never, ExitCode> =>
  Effect.callback((resume) => {
    const controller = new AbortController()
    const onReady = (): void => say(`serves turns at ${options.host}:${options.port}`)
    const ended = cluster.serve({ ...options, onReady }, controller.signal).catch((cause: unknown) => {
      resume(complain(`the runner ended: ${brokenBy(cause)}`, exitCodes.failed))
    })
    return Effect.promise(() => {
      controller.abort()
      process.exitCode = 0
      return ended
    })
  })

export const serve = Effect.fnUntraced(function* ({ database, program, host, port }: ServeInput) {
  if (database === null) return yield* bad("--database", "is missing: it names the turns to run")
  if (program === null) return yield* bad("--program", "is missing: a module whose default export runs a turn")
  if (!existsSync(program)) return yield* bad("--program", `(${program}) does not exist`)
  const url = yield* databaseOf(database, process.env)
  // A package that is not installed is told by name.
  const cluster = yield* Effect.promise(() => ownModule("holdfast/cluster", program))
  const run = yield* programOf(program)
  return yield* serving(cluster, { database: Redacted.value(url), host, port, run })
})
