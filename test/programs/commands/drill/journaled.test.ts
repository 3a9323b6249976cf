import { assert, describe, it } from "@effect/vitest"
import { mkdtempSync, readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as JournalSqlite from "../../../../src/layers/stores/JournalSqlite.ts"
import { play } from "../../../../src/programs/commands/drill/play.ts"
import { parseScenarios } from "../../../../src/programs/commands/drill/Scenario.ts"

const fixtures = join(import.meta.dirname, "../../../fixtures/scenarios")
const scenarios = ["dev.json", "reports.json", "further.json"]
  .flatMap((name) => Result.getOrThrow(parseScenarios(name, readFileSync(join(fixtures, name), "utf8"))))
  .flatMap(({ scenario }) =>
    Result.isSuccess(scenario) && scenario.success.mode === "agent" ? [scenario.success] : []
  )

const stores = {
  memory: JournalSqlite.makeMemory,
  "a file of SQLite": Effect.suspend(() =>
    JournalSqlite.make({ path: join(mkdtempSync(join(tmpdir(), "drill-")), "turns.db") })
  )
}

describe.each(["memory", "a file of SQLite"] as const)("an agent whose turns are kept in %s", (where) => {
  it.each(scenarios.map((scenario) => [scenario.id, scenario] as const))(
    "does what it does without: %s",
    (_, scenario) =>
      Effect.runPromise(
        Effect.scoped(
          Effect.gen(function* () {
            const journals = yield* stores[where]
            const without = yield* play(scenario, { live: false })
            const kept = yield* play(scenario, { live: false, journals })
            assert.deepStrictEqual(JSON.parse(JSON.stringify(kept)), JSON.parse(JSON.stringify(without)))
            const turns = yield* journals.list
            assert.isAbove(turns.length, 0)
          })
        )
      )
  )
})
