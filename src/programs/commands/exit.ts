/** How a command ends with an exit code other than 0: one clear sentence on stderr, never a stack trace. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import * as Schema from "effect/Schema"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { exitCodes } from "../../domain/failure/exitCode.ts"

/** Everything has been said; only the code is left. */
export class ExitCode extends Schema.TaggedError<ExitCode>()("ExitCode", { code: Schema.Int }) {
  override readonly [Runtime.errorExitCode] = this.code
  override readonly [Runtime.errorReported] = false
}

export const exitWith = (code: number): Effect.Effect<never, ExitCode> => Effect.fail(new ExitCode({ code }))

export const complain = (sentence: string, code: number): Effect.Effect<never, ExitCode> =>
  Effect.andThen(Console.error(`holdfast: ${sentence}`), exitWith(code))

/** A bad configuration that was found late is still one; everything else is a fault of our own, and is never silent. */
export const complainOfDefect = (defect: unknown): Effect.Effect<never, ExitCode> =>
  defect instanceof ConfigurationError
    ? complain(defect.message, exitCodes.usage)
    : complain(
        `stopped by a fault of its own: ${defect instanceof Error ? `${defect.name}: ${defect.message}` : String(defect)}`,
        exitCodes.failed
      )
