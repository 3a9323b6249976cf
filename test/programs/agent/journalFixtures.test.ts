import { assert, describe, it } from "@effect/vitest"
import { mkdtempSync, readdirSync, readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { TestClock } from "effect/testing"
import { unpaired } from "../../../src/domain/chat/MessageGroups.ts"
import * as JournalSqlite from "../../../src/layers/stores/JournalSqlite.ts"
import { historyOf } from "../../../src/programs/agent/durableTurn.ts"
import type { JournalStoreShape } from "../../../src/services/JournalStore.ts"
import { drive, roles } from "../../support/agentRuns.ts"
import { fixtureTurn, nothingSeen, type Seen } from "../../support/fixtureTurns.ts"

const folder = join(import.meta.dirname, "../../fixtures/journals")

/** One file per form of the journal, as the release that wrote it left it. Never changed, only joined by later ones. */
const recorded = readdirSync(folder).filter((name) => name.endsWith(".sql"))

const loaded = (name: string): string => {
  const path = join(mkdtempSync(join(tmpdir(), "fixture-")), "turns.db")
  const database = new DatabaseSync(path)
  database.exec(readFileSync(join(folder, name), "utf8"))
  database.close()
  return path
}

const inFixture = (name: string, body: (store: JournalStoreShape) => Effect.Effect<void, unknown>) =>
  Effect.scoped(Effect.flatMap(JournalSqlite.make({ path: loaded(name) }), body))

/** The provider says so much, and is asked for no more. */
const life = (store: JournalStoreShape, id: string, seen: Seen, ...texts: ReadonlyArray<string>) =>
  fixtureTurn(
    store,
    id,
    seen,
    texts.map((text) => ({ reply: { text } }))
  )

it("there is a recorded journal", () => {
  assert.include(recorded, "1.sql")
})

describe.each(recorded)("a journal of another release: %s", (name) => {
  it.effect("is listed, and gives the result of a turn that is done without asking anybody", () =>
    inFixture(name, (store) =>
      Effect.gen(function* () {
        assert.deepStrictEqual((yield* store.list).map(({ turn, status }) => `${turn} ${status}`).toSorted(), [
          "after done",
          "done done",
          "parked parked",
          "stream running",
          "trouble running"
        ])
        const seen = nothingSeen()
        const result = yield* life(store, "done", seen)
        assert.deepStrictEqual([result.reply.text, result.steps, result.toolCalls], ["All is done.", 2, 2])
        assert.deepStrictEqual([seen.requests, seen.ran], [0, []])
        const history = yield* historyOf(store, "after")
        assert.strictEqual(roles(history), "suattaua")
        assert.isNull(unpaired(history))
        // What is large stands once, under its digest.
        assert.strictEqual(history[3]?.content, "look 1 ".repeat(600))
        assert.strictEqual(history[4]?.content, "counted")
      })
    )
  )

  it.effect("goes on with a turn that waited for a person, with another program after 30 days", () =>
    inFixture(name, (store) =>
      Effect.gen(function* () {
        yield* TestClock.adjust("30 days")
        const seen = nothingSeen()
        const waits = yield* Effect.exit(life(store, "parked", seen))
        assert.isTrue(Exit.isFailure(waits))
        assert.isTrue(yield* store.answer("parked", "step/1/call/0/approval", "approved"))
        assert.isFalse(yield* store.answer("parked", "step/1/call/0/approval", "denied"))
        const result = yield* life(store, "parked", seen, "Paid.")
        assert.strictEqual(result.reply.text, "Paid.")
        assert.deepStrictEqual([seen.requests, seen.ran], [1, ["pay parked/step/1/call/0"]])
      })
    )
  )

  it.effect("goes on with a request in trouble, with the attempts it had, when its wait is over", () =>
    inFixture(name, (store) =>
      Effect.gen(function* () {
        const [open] = (yield* store.steps("trouble")).filter(({ state }) => state === "begun")
        // Recorded years before or after this machine's clock: the wait is over a minute behind it.
        yield* TestClock.setTime((open?.at ?? 0) + 120_000)
        const seen = nothingSeen()
        const result = yield* drive(yield* Effect.forkChild(life(store, "trouble", seen, "At last.")))
        assert.strictEqual(result.reply.text, "At last.")
        assert.strictEqual(seen.requests, 1)
        const [fact] = (yield* store.steps("trouble")).filter(({ key }) => key === "step/1/reply")
        type Entry = { readonly attempt: number; readonly outcome: string }
        const { trail } = (fact?.value ?? { trail: [] }) as { readonly trail: ReadonlyArray<Entry> }
        assert.deepStrictEqual(
          trail.map(({ attempt, outcome }) => [attempt, outcome]),
          [
            [1, "overloaded"],
            [2, "ok"]
          ]
        )
      })
    )
  )

  it.effect("tells the text of a stream again that was cut off by a kill", () =>
    inFixture(name, (store) =>
      Effect.gen(function* () {
        const seen = nothingSeen()
        const result = yield* drive(
          yield* Effect.forkChild(life(store, "stream", seen, "The first half and the second."))
        )
        assert.strictEqual(result.reply.text, "The first half and the second.")
        const told = seen.parts.flatMap((part) =>
          part._tag === "TextDelta" ? [part.text] : part._tag === "Reset" ? ["Reset"] : []
        )
        assert.deepStrictEqual([told[0], told.slice(1).join("")], ["The first half ", "and the second."])
      })
    )
  )
})
