import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseScenarios } from "../../../../src/programs/commands/drill/Scenario.ts"
import { checkLine } from "../../../../src/programs/commands/drill/scenarioExpect.ts"
import { playEntry } from "../../../../src/programs/commands/drill/play.ts"
import { boundTo, isJson, rewritten } from "../../../support/anthropicDrills.ts"

/** The drills that mean the same on Anthropic's wire, with their answers rewritten for it. */
const path = join(import.meta.dirname, "../../../fixtures/scenarios/dev.json")
const file: unknown = JSON.parse(readFileSync(path, "utf8"))
const all = (isJson(file) && Array.isArray(file["scenarios"]) ? file["scenarios"] : [file].flat()).filter(isJson)
const parsed = parseScenarios(path, JSON.stringify(all.filter((raw) => boundTo(raw) === null).map(rewritten)))
const entries = Result.isSuccess(parsed) ? parsed.success : []

it("leaves out only what belongs to the other wire", () => {
  const left = all.flatMap((raw) => (boundTo(raw) === null ? [] : [`${String(raw["id"])} ${boundTo(raw)}`]))
  assert.deepStrictEqual(left, [
    "D-RT-08 has a wire of its own",
    "D-RT-10 has a wire of its own",
    "D-CL-05#1 is about a field of its own wire",
    "D-LP-05 has an answer without a like",
    "D-RV-01 has an answer without a like",
    "D-RV-01#1 has an answer without a like",
    "D-RV-01#2 has an answer without a like",
    "D-RV-01#3 is about the letter of its own wire",
    "D-CA-01 has a wire of its own",
    "D-CF-01 is about the command's variables",
    "D-CF-01#1 is about the command's variables",
    "D-CF-01#2 is about the command's variables",
    "D-SM-07 has a wire of its own"
  ])
})

it.live.each(entries.map((entry) => [entry.id, entry] as const))("plays %s over the other wire", ([, entry]) =>
  Effect.gen(function* () {
    assert.isTrue(Result.isSuccess(entry.scenario))
    if (Result.isFailure(entry.scenario)) return
    const line = yield* playEntry(entry, { live: false })
    assert.deepStrictEqual(checkLine({ ...entry.scenario.success }, { ...line }), [])
  })
)
