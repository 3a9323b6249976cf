/** `holdfast gateway`: its flags. What it needs is loaded when it runs. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Command, Flag } from "effect/cli"

const flags = {
  config: Flag.String("config").pipe(Flag.withDescription("configuration file, JSON or YAML"), Flag.optional),
  port: Flag.Int("port").pipe(Flag.withDescription("port to listen on; wins over the file"), Flag.optional),
  check: Flag.Boolean("check").pipe(Flag.withDescription("check the configuration and end"), Flag.withDefault(false)),
  fromLitellm: Flag.String("from-litellm").pipe(
    Flag.withDescription("print a LiteLLM configuration as one of this gateway, and what it does not map"),
    Flag.optional
  )
}

export const gateway = Command.make(
  "gateway",
  flags,
  Effect.fnUntraced(function* (input) {
    const { describe, load, mapLitellm, say, serve } = yield* Effect.promise(() => import("./serveGateway.ts"))
    const litellm = Option.getOrNull(input.fromLitellm)
    if (litellm !== null) {
      const given = yield* mapLitellm(litellm)
      yield* Console.log(JSON.stringify(given.config, null, 2))
      const lines = [...given.mapped.map((line) => `mapped: ${line}`), ...given.left.map((line) => `left: ${line}`)]
      return yield* Effect.sync(() => say(lines.join("\n")))
    }
    const path = Option.getOrNull(input.config)
    const port = Option.getOrNull(input.port)
    const config = yield* load(path, port)
    if (input.check) return yield* Console.log(`${path ?? "the environment"}: fine\n${describe(config)}`)
    return yield* serve(path, port, config)
  })
).pipe(
  Command.withDescription("serve any client: chat completions, Responses and Messages in, the same out, recovered")
)
