import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseScenarios } from "../../../../src/programs/commands/drill/Scenario.ts"
import { checkLine } from "../../../../src/programs/commands/drill/scenarioExpect.ts"
import { play, playEntry } from "../../../../src/programs/commands/drill/play.ts"
import { tour, tourReply } from "../../../../src/programs/commands/drill/tour.ts"

const path = join(import.meta.dirname, "../../../fixtures/scenarios/dev.json")
const parsed = parseScenarios(path, readFileSync(path, "utf8"))
const entries = Result.isSuccess(parsed) ? parsed.success : []

it("reads every scenario of the fixtures", () => {
  assert.isAbove(entries.length, 100)
  assert.deepStrictEqual(
    entries.filter((entry) => Result.isFailure(entry.scenario)).map((entry) => entry.id),
    []
  )
})

it.live.each(entries.map((entry) => [entry.id, entry] as const))("plays %s as expected", ([, entry]) =>
  Effect.gen(function* () {
    const line = yield* playEntry(entry, { live: false })
    if (line.status === "unsupported" || Result.isFailure(entry.scenario)) return
    assert.deepStrictEqual(checkLine({ ...entry.scenario.success }, { ...line }), [])
  })
)

it.live("plays the same scenario to the same line", () =>
  Effect.gen(function* () {
    const clean = (line: unknown): string => JSON.stringify(line).replaceAll(/"requestId":"[^"]*"/g, "")
    assert.strictEqual(clean(yield* play(tour, { live: false })), clean(yield* play(tour, { live: false })))
  })
)

it.live("gives the exact reply of the tour, also over real sockets", () =>
  Effect.gen(function* () {
    // Waits of seconds are cut: the roads are the same in real time.
    const quick = {
      ...tour,
      provider: tour.provider
        .map((step) => (step.http === 429 ? { ...step, headers: { "retry-after-ms": "5" } } : step))
        .filter((step) => step.http !== 529)
    }
    const line = yield* play(quick, { live: true })
    assert.strictEqual(line.status, "ran")
    if (line.status !== "ran") return
    assert.strictEqual(line.results[0]?.["reply"], tourReply)
    assert.strictEqual(line.requests.length, 7)
    assert.strictEqual(line.connectionsOpen, 0)
  })
)

it("names what does not hold in a wrong line", () => {
  const scenario = { expect: { requestCount: 2, result: { reply: "fine" }, sleepsMs: [500] } }
  const line = { requests: [{ role: "main" }], results: [{ reply: "wrong" }], sleepsMs: [] }
  assert.strictEqual(checkLine(scenario, line).length, 3)
})

it("does not know an expectation it was not told of", () => {
  assert.deepStrictEqual(checkLine({ expect: { colour: "red" } }, {}), [
    '"colour" is no expectation this version knows'
  ])
})
