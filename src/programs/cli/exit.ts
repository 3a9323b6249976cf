/** How a command ends with an exit code other than 0 without a message of its own. */
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import * as Schema from "effect/Schema"

/** Everything has been said; only the code is left. */
export class ExitCode extends Schema.TaggedError<ExitCode>()("ExitCode", { code: Schema.Int }) {
  override readonly [Runtime.errorExitCode] = this.code
  override readonly [Runtime.errorReported] = false
}

export const exitWith = (code: number): Effect.Effect<never, ExitCode> => Effect.fail(new ExitCode({ code }))
