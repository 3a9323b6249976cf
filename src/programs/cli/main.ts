/** All commands, and how they end. Every command is a file of its own; what a command needs is loaded when it runs. */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import * as Effect from "effect/Effect"
import { Command } from "effect/cli"
import { exitCodes } from "../../domain/exitCode.ts"
import { isInstalled, notInstalled } from "./absent.ts"
import { config } from "./config.ts"
import { drill } from "./drill.ts"
import { complain, complainOfDefect } from "./exit.ts"
import { explain } from "./explain.ts"
import { replay } from "./replay.ts"
import { run as runCommand } from "./run.ts"
import { simulate } from "./simulate.ts"

const root = Command.make("holdfast").pipe(
  Command.withDescription("keeps an agent's model calls alive"),
  Command.withSubcommands([drill, runCommand, config, replay, simulate, explain])
)

const run = Command.runWith(root, { version: "0.0.0", renderErrors: false })

/** A package that is not installed is the user's to mend. */
const onDefect = (defect: unknown) => {
  const absent = notInstalled(defect, isInstalled)
  return absent === null ? complainOfDefect(defect) : complain(absent, exitCodes.usage)
}

export const main = (args: ReadonlyArray<string>): void =>
  run(args).pipe(
    Effect.catchTag("ConfigurationError", (error) => complain(error.message, exitCodes.usage)),
    Effect.catchTag("ShowHelp", (help) =>
      help.errors.length === 0
        ? Effect.void
        : complain(help.errors.map((error) => error.message.replaceAll(/\s+/g, " ")).join("; "), exitCodes.usage)
    ),
    Effect.catch((error) =>
      error._tag === "ExitCode" ? Effect.fail(error) : complain(error.message, exitCodes.failed)
    ),
    Effect.catchDefect(onDefect),
    Effect.provide(NodeServices.layer),
    NodeRuntime.runMain({ disableErrorReporting: true })
  )
