/** `holdfast run`: an agent over a folder, with recovery. What it needs is loaded when it runs. */
import * as Effect from "effect/Effect"
import { Command } from "effect/cli"
import { checkedInput, flags } from "./input.ts"

export const run = Command.make(
  "run",
  flags,
  Effect.fnUntraced(function* (given) {
    const input = yield* checkedInput(given)
    const { perform } = yield* Effect.promise(() => import("./perform.ts"))
    return yield* Effect.scoped(perform(input))
  })
).pipe(Command.withDescription("run an agent over a folder, with recovery"))
