/** `holdfast config`: the resolved policy, models and limits. The key is never shown. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { Command, Flag } from "effect/cli"
import { describe } from "../../../domain/recovery/describe.ts"
import { shownAddress } from "../../../domain/provider/address.ts"
import { notSetModel } from "../Settings.ts"
import { outline } from "../variables.ts"

const flags = {
  preset: Flag.Literals("preset", ["strict", "broad", "unattended", "background"]).pipe(
    Flag.withDescription("preset to show; wins over HOLDFAST_PRESET"),
    Flag.optional
  ),
  json: Flag.Boolean("json").pipe(Flag.withDescription("one JSON object"), Flag.withDefault(false))
}

/** A variable as it is set; the fallback alone has a word for none. */
const howToSet = (name: string): string => (name === "OPENAI_FALLBACK_MODEL" ? `${name} (a model, or none)` : name)

export const config = Command.make(
  "config",
  flags,
  Effect.fnUntraced(function* (input) {
    const chosen = input.preset._tag === "Some" ? { HOLDFAST_PRESET: input.preset.value } : {}
    const found = yield* outline(process.env, chosen, "strict")
    const { notSet } = found
    const baseUrl = found.baseUrl === null ? null : shownAddress(found.baseUrl)
    const apiKey = notSet.includes("OPENAI_API_KEY") ? "not set" : "set"
    if (input.json) {
      const unnamed = notSet.map(notSetModel)
      const routes = found.policy.routes.map((route) =>
        unnamed.includes(route.model) ? { ...route, model: null } : route
      )
      const policy = unnamed.length === 0 ? { ...found.policy } : { ...found.policy, routes }
      yield* Console.log(JSON.stringify({ preset: found.preset, baseUrl, apiKey, notSet, policy }))
      return
    }
    yield* Console.log(`preset    ${found.preset}\nbase URL  ${baseUrl ?? "the provider's own"}\nAPI key   ${apiKey}\n`)
    yield* Console.log(describe(found.policy))
    if (notSet.length > 0) yield* Console.log(`\nnot set, and needed by run: ${notSet.map(howToSet).join(", ")}`)
    yield* Console.log("\nrun, gateway and holdfast/fetch begin with the preset broad: see it with --preset broad")
  })
).pipe(Command.withDescription("show the resolved policy, models and limits"))
