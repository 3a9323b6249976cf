/**
 * What a step of a journal costs, against one bare row into a file of the same kind: write-ahead log, every commit synced.
 * CPU is compared; wall time and taking up a turn of 500 steps have targets of their own, in milliseconds.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { openSqlite } from "../src/layers/stores/sqliteFile.ts"
import { make } from "../src/layers/stores/JournalSqlite.ts"
import type { JournalShape, Repeat } from "../src/services/Journal.ts"
import { compare, medianOf, type Row, type Table } from "./measure.ts"

const success = Schema.Struct({ text: Schema.String, usage: Schema.Struct({ tokens: Schema.Finite }) })
const value = { text: "an answer of a usual length, ".repeat(20), usage: { tokens: 120 } }
const text = JSON.stringify(value)

const folder = mkdtempSync(join(tmpdir(), "durable-"))
let files = 0
const fresh = (): string => join(folder, `${(files += 1)}.db`)

const bare: Row = {
  name: "a bare row",
  run: async (count) => {
    const file = openSqlite(
      fresh(),
      "create table step (turn text, key text, state text, value text, at integer, primary key (turn, key)) without rowid"
    )
    for (let at = 0; at < count; at += 1) file.run("insert into step values ('t', ?, 'done', ?, 1)", `step/${at}`, text)
    file.close()
  }
}

const inJournal = <A>(path: string, body: (journal: JournalShape) => Effect.Effect<A, unknown>): Promise<A> =>
  Effect.runPromise(Effect.scoped(Effect.flatMap(make({ path }), (store) => Effect.flatMap(store.own("t"), body))))

const steps = (journal: JournalShape, repeat: Repeat, count: number) =>
  Effect.gen(function* () {
    for (let at = 0; at < count; at += 1) yield* journal.step(`step/${at}`, { success, repeat }, Effect.succeed(value))
  })

const stepRow = (name: string, repeat: Repeat): Row => ({
  name,
  run: (count) => inJournal(fresh(), (journal) => steps(journal, repeat, count))
})

/** Median milliseconds of wall time per step: a disk has moments. */
const wallOf = async (repeat: Repeat): Promise<number> => {
  const times: Array<number> = []
  await inJournal(fresh(), (journal) =>
    Effect.gen(function* () {
      for (let at = 0; at < 600; at += 1) {
        const begun = performance.now()
        yield* journal.step(`step/${at}`, { success, repeat }, Effect.succeed(value))
        times.push(performance.now() - begun)
      }
    })
  )
  return times.toSorted((left, right) => left - right)[300] ?? Number.NaN
}

/** Milliseconds to take up a turn of 500 steps and read every one of them. */
const resumeMillis = async (): Promise<number> => {
  const path = fresh()
  await inJournal(path, (journal) => steps(journal, "safe", 500))
  const begun = performance.now()
  await inJournal(path, (journal) => steps(journal, "safe", 500))
  return performance.now() - begun
}

export const durable = async (): Promise<Table> => {
  const safe = "a step that may be repeated"
  const figures = await compare([bare, stepRow(safe, "safe"), stepRow("a step that must not run twice", "never")], {
    rounds: 15,
    count: 200,
    warmUp: 200
  })
  const targets = [
    { name: "CPU per step, ms", value: medianOf(figures, safe) / 1_000, limit: 0.4 },
    { name: "wall time per step, ms", value: await wallOf("safe"), limit: 2 },
    { name: "taking up 500 steps, ms", value: await resumeMillis(), limit: 100 }
  ]
  rmSync(folder, { recursive: true, force: true })
  return { title: "One step of a durable turn", unit: "us CPU", figures, base: bare.name, targets }
}
