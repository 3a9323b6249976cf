/** With `--json` stdout carries JSON lines and nothing else: what libraries print to the console goes to stderr. */
import { Console as NodeConsole } from "node:console"
import * as Console from "effect/Console"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"

/** Logs are never output of a command. */
const logsToStderr = Layer.succeed(Logger.LogToStderr, true)

/** The commands keep the console as it was; everybody else gets one over stderr. */
const consoleForCommands = (): Layer.Layer<never> => {
  const own: Console.Console = { ...console }
  Object.assign(console, new NodeConsole({ stdout: process.stderr, stderr: process.stderr }))
  return Layer.succeed(Console.Console, own)
}

export const outputLayer = (args: ReadonlyArray<string>): Layer.Layer<never> =>
  args.some((arg) => arg === "--json" || arg.startsWith("--json="))
    ? Layer.merge(logsToStderr, consoleForCommands())
    : logsToStderr
