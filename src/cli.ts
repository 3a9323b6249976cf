#!/usr/bin/env node
/** The command line. Every command is a file of programs/cli; what a command needs is loaded when it runs. */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import * as Effect from "effect/Effect"
import { Command } from "effect/cli"
import { exitCodes } from "./domain/exitCode.ts"
import { config } from "./programs/cli/config.ts"
import { drill } from "./programs/cli/drill.ts"
import { complain, complainOfDefect } from "./programs/cli/exit.ts"
import { explain } from "./programs/cli/explain.ts"
import { replay } from "./programs/cli/replay.ts"
import { run as runCommand } from "./programs/cli/run.ts"
import { simulate } from "./programs/cli/simulate.ts"

const root = Command.make("holdfast").pipe(
  Command.withDescription("keeps an agent's model calls alive"),
  Command.withSubcommands([drill, runCommand, config, replay, simulate, explain])
)

const run = Command.runWith(root, { version: "0.0.0", renderErrors: false })

run(process.argv.slice(2)).pipe(
  Effect.catchTag("ConfigurationError", (error) => complain(error.message, exitCodes.usage)),
  Effect.catchTag("ShowHelp", (help) =>
    help.errors.length === 0
      ? Effect.void
      : complain(help.errors.map((error) => error.message.replaceAll(/\s+/g, " ")).join("; "), exitCodes.usage)
  ),
  Effect.catchDefect(complainOfDefect),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
