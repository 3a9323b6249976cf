/** `holdfast turns`: looks at the durable turns of a journal file, and answers, cancels, forks or forgets one. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Argument, Command, Flag } from "effect/cli"

const flags = {
  action: Argument.Literals("ACTION", [
    "list",
    "show",
    "tail",
    "export",
    "approve",
    "deny",
    "cancel",
    "fork",
    "forget"
  ]).pipe(Argument.withDescription("what to do")),
  id: Argument.String("ID").pipe(Argument.withDescription("the turn"), Argument.optional),
  file: Flag.String("file").pipe(
    Flag.withDescription("the journal; default: .holdfast/turns.db"),
    Flag.withDefault(".holdfast/turns.db")
  ),
  from: Flag.String("from").pipe(Flag.withDescription("fork: the first step that is left out"), Flag.optional),
  into: Flag.String("into").pipe(Flag.withDescription("fork: the name of the new turn"), Flag.optional),
  why: Flag.String("why").pipe(Flag.withDescription("deny: what the model is told"), Flag.optional)
}

export const turns = Command.make(
  "turns",
  flags,
  Effect.fnUntraced(function* ({ action, id, file, from, into, why }) {
    const { perform } = yield* Effect.promise(() => import("./perform.ts"))
    yield* perform({
      action,
      file,
      id: Option.getOrNull(id),
      from: Option.getOrNull(from),
      into: Option.getOrNull(into),
      why: Option.getOrNull(why)
    })
  })
).pipe(Command.withDescription("look at durable turns, answer, cancel, fork or forget one"))
