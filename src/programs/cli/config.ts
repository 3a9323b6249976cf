/** `holdfast config`: the resolved policy, models and limits. The key is never shown. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { Command, Flag } from "effect/cli"
import { describe } from "../../domain/describe.ts"
import { settings } from "./variables.ts"

const flags = {
  preset: Flag.Literals("preset", ["strict", "broad", "unattended", "background"]).pipe(
    Flag.withDescription("preset to show; wins over HOLDFAST_PRESET"),
    Flag.optional
  ),
  json: Flag.Boolean("json").pipe(Flag.withDescription("one JSON object"), Flag.withDefault(false))
}

export const config = Command.make(
  "config",
  flags,
  Effect.fnUntraced(function* (input) {
    const chosen = input.preset._tag === "Some" ? { HOLDFAST_PRESET: input.preset.value } : {}
    const found = yield* settings(process.env, chosen, "strict")
    if (input.json) {
      yield* Console.log(
        JSON.stringify({ preset: found.preset, baseUrl: found.baseUrl, apiKey: "set", policy: { ...found.policy } })
      )
      return
    }
    yield* Console.log(`preset    ${found.preset}\nbase URL  ${found.baseUrl ?? "the provider's own"}\nAPI key   set\n`)
    yield* Console.log(describe(found.policy))
  })
).pipe(Command.withDescription("show the resolved policy, models and limits"))
