import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseScenarios } from "../../../../src/programs/commands/drill/Scenario.ts"
import { checkLine } from "../../../../src/programs/commands/drill/scenarioExpect.ts"
import { playEntry } from "../../../../src/programs/commands/drill/play.ts"

/** Faults that users of other clients have reported, each as one example of its kind, and further ones of those kinds. */
const files = [
  ["reports.json", 29],
  ["further.json", 95]
] as const

describe.each(files)("%s", (file, count) => {
  const path = join(import.meta.dirname, "../../../fixtures/scenarios", file)
  const parsed = parseScenarios(path, readFileSync(path, "utf8"))
  const entries = Result.isSuccess(parsed) ? parsed.success : []

  it("is read whole", () => {
    assert.strictEqual(entries.length, count)
    assert.strictEqual(new Set(entries.map((entry) => entry.id)).size, count)
  })

  it.live.each(entries.map((entry) => [entry.id, entry] as const))("plays %s as expected", ([, entry]) =>
    Effect.gen(function* () {
      const line = yield* playEntry(entry, { live: false })
      assert.isTrue(Result.isSuccess(entry.scenario) && line.status === "ran")
      if (Result.isFailure(entry.scenario)) return
      assert.deepStrictEqual(checkLine({ ...entry.scenario.success }, { ...line }), [])
    })
  )
})
