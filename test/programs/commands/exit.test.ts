import { assert, it } from "@effect/vitest"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { ConfigurationError } from "../../../src/domain/failure/ConfigurationError.ts"
import { complainOfDefect } from "../../../src/programs/commands/exit.ts"

it.effect.each([
  { defect: new Error("boom"), code: 1, says: "stopped by a fault of its own: Error: boom" },
  { defect: "thrown text", code: 1, says: "stopped by a fault of its own: thrown text" },
  {
    defect: new ConfigurationError({ field: "routes[0].prices", reason: "is missing" }),
    code: 2,
    says: "routes[0].prices"
  }
])("is never silent about a defect and ends with $code: $says", ({ defect, code, says }) =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    const console: Console.Console = { ...globalThis.console, error: (line: string) => lines.push(line) }
    const ended = yield* Effect.die(defect).pipe(
      Effect.catchDefect(complainOfDefect),
      Effect.flip,
      Effect.provideService(Console.Console, console)
    )
    assert.strictEqual(ended.code, code)
    assert.strictEqual(lines.length, 1)
    assert.include(lines[0], says)
  })
)
