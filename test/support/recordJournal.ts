/**
 * Records the journal of a release: `node test/support/recordJournal.ts FILE.sql`. One turn of each kind: done with tools and
 * a nested agent, parked, in trouble, in mid-stream, and one that comes after another.
 */
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as JournalSqlite from "../../src/layers/stores/JournalSqlite.ts"
import { fixtureTurn } from "./fixtureTurns.ts"

const [target = ""] = process.argv.slice(2)
const path = join(mkdtempSync(join(tmpdir(), "record-")), "turns.db")

await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const store = yield* JournalSqlite.make({ path })
      for (const id of ["done", "after", "parked"]) yield* Effect.exit(fixtureTurn(store, id))
      for (const id of ["trouble", "stream"]) {
        const fiber = yield* Effect.forkChild(fixtureTurn(store, id))
        yield* Effect.sleep(2_500)
        yield* Fiber.interrupt(fiber)
      }
    })
  )
)

const quoted = (value: unknown): string =>
  value === null ? "null" : typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value)

const database = new DatabaseSync(path)
// A process that is killed cannot take its name back.
database.exec("update turn set holder = 'process 1 on a machine' where turn = 'stream'")
const lines: Array<string> = []
for (const { name, sql } of database
  .prepare("select name, sql from sqlite_master where type = 'table' order by name")
  .all()) {
  lines.push(`${String(sql)};`)
  for (const row of database.prepare(`select * from ${String(name)}`).all())
    lines.push(`insert into ${String(name)} values (${Object.values(row).map(quoted).join(", ")});`)
}
database.close()
writeFileSync(target, `${lines.join("\n")}\n`)
