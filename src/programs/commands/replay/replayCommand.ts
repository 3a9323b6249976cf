/** `holdfast replay`: folds a recorded event log through the machine and shows the decisions. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { Argument, Command, Flag } from "effect/cli"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { exitWith } from "../exit.ts"

const flags = {
  log: Argument.String("LOG").pipe(
    Argument.withDescription("an NDJSON log of recovery events, such as `holdfast run --json` prints")
  ),
  json: Flag.Boolean("json").pipe(Flag.withDescription("one JSON line per decision"), Flag.withDefault(false))
}

export const replay = Command.make(
  "replay",
  flags,
  Effect.fnUntraced(function* (input) {
    const { replayLog } = yield* Effect.promise(() => import("./replayLog.ts"))
    const { actionText, outcomeText } = yield* Effect.promise(() => import("../decisionText.ts"))
    const fs = yield* FileSystem.FileSystem
    const text = yield* fs
      .readFileString(input.log)
      .pipe(Effect.mapError(() => new ConfigurationError({ field: input.log, reason: "cannot be read" })))
    const replayed = yield* Effect.try({
      try: () => replayLog(text),
      catch: (cause) =>
        cause instanceof ConfigurationError
          ? new ConfigurationError({ field: `${input.log}: ${cause.field}`, reason: cause.reason })
          : new ConfigurationError({ field: input.log, reason: String(cause) })
    })
    if (replayed.requests === 0)
      return yield* new ConfigurationError({ field: input.log, reason: "has no Started event: it is no log of events" })
    for (const step of replayed.steps)
      yield* Console.log(
        input.json
          ? JSON.stringify(step)
          : `${step.requestId}  ${outcomeText(step.outcome)}: ${actionText(step.decided)}${step.isSame ? "" : `  DIFFERS from the log: ${actionText(step.recorded)}`}`
      )
    if (!input.json)
      yield* Console.log(
        `\n${replayed.steps.length} decisions, ${replayed.steps.filter((step) => !step.isSame).length} differ from the log`
      )
    return replayed.steps.every((step) => step.isSame) ? undefined : yield* exitWith(1)
  })
).pipe(Command.withDescription("fold a recorded event log through the machine"))
