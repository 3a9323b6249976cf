/** `holdfast turns`: looks at durable turns, answers, cancels, forks or forgets one; and runs those of a database. */
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
    "forget",
    "start",
    "serve"
  ]).pipe(Argument.withDescription("what to do")),
  id: Argument.String("ID").pipe(Argument.withDescription("the turn"), Argument.optional),
  file: Flag.String("file").pipe(
    Flag.withDescription("the journal; default: .holdfast/turns.db"),
    Flag.withDefault(".holdfast/turns.db")
  ),
  database: Flag.String("database").pipe(
    Flag.withDescription("turns in PostgreSQL: postgres://HOST:PORT/NAME, or env:NAME of a variable that holds it"),
    Flag.optional
  ),
  prompt: Flag.String("prompt").pipe(Flag.withDescription("start: what the turn is asked"), Flag.optional),
  program: Flag.String("program").pipe(
    Flag.withDescription("serve: the module whose default export runs a turn"),
    Flag.optional
  ),
  host: Flag.String("host").pipe(
    Flag.withDescription("serve: where the other runners reach this one"),
    Flag.withDefault("127.0.0.1")
  ),
  port: Flag.Int("port").pipe(Flag.withDescription("serve: its port; default: 34431"), Flag.withDefault(34_431)),
  from: Flag.String("from").pipe(Flag.withDescription("fork: the first step that is left out"), Flag.optional),
  into: Flag.String("into").pipe(Flag.withDescription("fork: the name of the new turn"), Flag.optional),
  why: Flag.String("why").pipe(Flag.withDescription("deny: what the model is told"), Flag.optional)
}

export const turns = Command.make(
  "turns",
  flags,
  Effect.fnUntraced(function* ({ action, id, file, database, from, into, why, prompt, program, host, port }) {
    if (action === "serve") {
      const { serve } = yield* Effect.promise(() => import("./serve.ts"))
      return yield* serve({ database: Option.getOrNull(database), program: Option.getOrNull(program), host, port })
    }
    const { perform } = yield* Effect.promise(() => import("./perform.ts"))
    yield* perform({
      action,
      file,
      database: Option.getOrNull(database),
      prompt: Option.getOrNull(prompt),
      id: Option.getOrNull(id),
      from: Option.getOrNull(from),
      into: Option.getOrNull(into),
      why: Option.getOrNull(why)
    })
  })
).pipe(Command.withDescription("look at durable turns, answer, cancel, fork or forget one; run those of a database"))
