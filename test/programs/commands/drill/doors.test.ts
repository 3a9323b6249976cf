/**
 * The scripts of the suite through nine doors: the same verdict through each. Every day each script goes through some of
 * them; `npm run test:whole` plays all, and `npm run docs` writes the table.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { doorScripts, doorsPage, doorsPart } from "../../../../scripts/doorsPage.ts"
import type { Json } from "../../../../src/domain/chat/json.ts"
import { doors, type Door } from "../../../../src/programs/commands/drill/doors/Door.ts"
import { doorRows, faultLines, reasonRows } from "../../../../src/programs/commands/drill/doors/doorsTable.ts"
import { playDoors, type Passage, type Passed } from "../../../../src/programs/commands/drill/doors/playDoors.ts"
import { rewrite } from "../../../../src/programs/commands/drill/doors/rewrite.ts"
import { inProcess } from "../../../support/command.ts"
import { isWhole } from "../../../support/runs.ts"

const scripts = doorScripts()
const { part } = doorsPage()

/** Which scripts end otherwise at which doors, as the page says it. */
const told = new Map<string, string>()
for (const [, id, rule, names] of part.matchAll(/^\| (D-\S+) *\| (.*?) *\| (.*?) *\|$/gm))
  for (const name of names!.split(", ")) told.set(`${id} ${name}`, rule!)

const tellingOf = (raw: Json, door: Door): Passage => {
  const rewritten = rewrite(raw, door)
  if (rewritten._tag === "NoLike") return rewritten
  const rule = told.get(`${String(raw["id"])} ${door.name}`)
  return rule === undefined ? { _tag: "Same" } : { _tag: "Otherwise", rule, found: [] }
}

const passedAs = (raw: Json, door: Door, passage: Passage): Passed => ({
  id: String(raw["id"]),
  area: String(raw["area"]),
  door,
  passage
})

/** Doors that a script goes through today: another two for each, so that every door sees every area. */
const doorsFor = (index: number): ReadonlyArray<Door> =>
  isWhole ? doors : doors.filter((_, at) => at === index % doors.length || at === (index * 2 + 5) % doors.length)

describe("the doors", () => {
  it("stand in the documents as the scripts of the suite find them", () => {
    const passed = scripts.flatMap((raw) => doors.map((door) => passedAs(raw, door, tellingOf(raw, door))))
    assert.strictEqual(doorsPart(passed), part)
  })

  it.each(scripts.map((raw, index) => [String(raw["id"]), raw, doorsFor(index)] as const))(
    "let %s end as the documents say",
    async (_, raw, through) => {
      const passed = await Effect.runPromise(playDoors(raw, through))
      assert.deepStrictEqual(faultLines(passed), [])
      assert.deepStrictEqual(
        passed.map(({ door, passage }) => [door.name, passage._tag]),
        through.map((door) => [door.name, tellingOf(raw, door)._tag])
      )
    }
  )
})

const hello: Json = {
  id: "hello",
  area: "retry",
  preset: "strict",
  request: { messages: [{ role: "user", content: "hello" }] },
  provider: [
    { http: 529, body: { error: { type: "overloaded_error" } } },
    {
      http: 200,
      body: { choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "hi" } }] }
    }
  ],
  expect: { requestCount: 2, sleepsMs: [500], result: { reply: "hi" } }
}

describe("the table of doors", () => {
  it("calls it a fault when a script expects what does not happen", async () => {
    const passed = await Effect.runPromise(playDoors({ ...hello, expect: { result: { reply: "other" } } }))
    assert.strictEqual(faultLines(passed).length, 9)
    assert.strictEqual(doorRows(passed).at(-1)?.[1], "0, 1 differs")
  })

  it("says of a script why it is not played", async () => {
    const passed = await Effect.runPromise(playDoors({ ...hello, config: { env: { OPENAI_MODEL: "x" } } }))
    assert.deepStrictEqual(reasonRows(passed, "NoLike"), [
      ["hello", "it is about the command's variables", doors.map(({ name }) => name).join(", ")]
    ])
  })
})

describe("holdfast drill --doors", () => {
  it("prints the table and what stands behind it", async () => {
    const ran = await inProcess(["drill", "--doors", "hello.json"], {}, { "hello.json": JSON.stringify(hello) })
    assert.deepStrictEqual([ran.code, ran.err], [0, ""])
    assert.match(ran.out, /^area +complete chat +complete responses/)
    assert.match(ran.out, /^retry( +1){9}$/m)
  })
})
