/** All commands, and how they end. Every command is a file of its own; what a command needs is loaded when it runs. */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { type CliError, CliOutput, Command } from "effect/cli"
import { exitCodes } from "../../domain/failure/exitCode.ts"
import { isInstalled, notInstalled } from "./absent.ts"
import { outputLayer } from "./cleanStdout.ts"
import { config } from "./config/configCommand.ts"
import { drill } from "./drill/drillCommand.ts"
import { complain, complainOfDefect, type ExitCode } from "./exit.ts"
import { explain } from "./explain/explainCommand.ts"
import { gateway } from "./gateway/gatewayCommand.ts"
import { replay } from "./replay/replayCommand.ts"
import { run as runCommand } from "./run/runCommand.ts"
import { turns } from "./turns/turnsCommand.ts"
import { simulate } from "./simulate/simulateCommand.ts"

const root = Command.make("holdfast").pipe(
  Command.withDescription("keeps an agent's model calls alive"),
  Command.withSubcommands([drill, runCommand, config, replay, simulate, turns, explain, gateway])
)

const run = Command.runWith(root, { version: "0.0.0" })

/** Help is for those who ask for it: a mistake gets its one sentence, not a page before it. */
const presenter = CliOutput.layerPresenter({
  present: (event) => (event._tag === "InvalidInvocation" ? Effect.void : CliOutput.defaultPresenter.present(event))
})

/** `holdfast help run` is `holdfast run --help`. */
const withHelp = (args: ReadonlyArray<string>): ReadonlyArray<string> =>
  args[0] === "help" ? [...args.slice(1), "--help"] : args

const mistake = (help: CliError.ShowHelp) =>
  complain(
    `${help.errors.map((error) => error.message.replaceAll(/\s+/g, " ")).join("; ")} (${help.commandPath.join(" ")} --help lists what there is)`,
    exitCodes.usage
  )

/** A package that is not installed is the user's to mend. */
const onDefect = (defect: unknown) => {
  const absent = notInstalled(defect, isInstalled)
  return absent === null ? complainOfDefect(defect) : complain(absent, exitCodes.usage)
}

/** A command from its arguments to its end; what it had to say has been said. */
export const program = (args: ReadonlyArray<string>): Effect.Effect<void, ExitCode> =>
  run(withHelp(args)).pipe(
    Effect.catchTag("ConfigurationError", (error) => complain(error.message, exitCodes.usage)),
    Effect.catchTag("ShowHelp", (help) => (help.errors.length === 0 ? Effect.void : mistake(help))),
    Effect.catch((error) =>
      error._tag === "ExitCode" ? Effect.fail(error) : complain(error.message, exitCodes.failed)
    ),
    Effect.catchDefect(onDefect),
    Effect.provide([NodeServices.layer, presenter])
  )

/** A command that a signal ends has not come to its end, unless it says by the process's exit code that it has. */
const teardown: Runtime.Teardown = (exit, onExit) =>
  Runtime.defaultTeardown(exit, (code) =>
    onExit(code === exitCodes.interrupted ? Number(process.exitCode ?? code) : code)
  )

export const main = (args: ReadonlyArray<string>): void =>
  NodeRuntime.runMain(Effect.provide(program(args), outputLayer(args)), { disableErrorReporting: true, teardown })
