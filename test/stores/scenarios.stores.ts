/** Scripts of agents whose turns are kept in PostgreSQL, on the real clock: those that take less than three seconds of it. */
import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { afterAll, beforeAll } from "vitest"
import * as JournalPostgres from "../../src/layers/stores/shared/JournalPostgres.ts"
import { play } from "../../src/programs/commands/drill/play.ts"
import { parseScenarios } from "../../src/programs/commands/drill/Scenario.ts"
import { checkLine, withoutClock } from "../../src/programs/commands/drill/scenarioExpect.ts"
import { startStore, type RunningStore } from "../support/sharedStores.ts"

const longestMillis = 3_000
const fixtures = join(import.meta.dirname, "../fixtures/scenarios")

const agents = ["dev.json", "reports.json", "further.json"]
  .flatMap((name) => Result.getOrThrow(parseScenarios(name, readFileSync(join(fixtures, name), "utf8"))))
  .flatMap(({ scenario }) =>
    Result.isSuccess(scenario) && scenario.success.mode === "agent" ? [scenario.success] : []
  )

let store: RunningStore
beforeAll(async () => {
  store = await startStore("postgres")
})
afterAll(() => store.stop())

it("hold over PostgreSQL", () =>
  Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const journals = yield* JournalPostgres.make({ url: Redacted.make(store.address) })
        let played = 0
        for (const scenario of agents) {
          const quick = yield* play(scenario, { live: false })
          if (quick.status === "unsupported" || quick.elapsedMs > longestMillis) continue
          const line = yield* play(scenario, { live: true, journals })
          assert.deepStrictEqual(
            checkLine({ ...scenario, expect: withoutClock(scenario.expect) }, { ...line }),
            [],
            scenario.id
          )
          played += 1
          // Every script names its turns alike.
          const kept = yield* journals.list
          assert.isAbove(kept.length, 0, scenario.id)
          for (const { turn } of kept) yield* journals.forget(turn)
        }
        console.log(`${played} of ${agents.length} scripts`)
        assert.isAtLeast(played, 15)
      })
    )
  ))
