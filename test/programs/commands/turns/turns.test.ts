import { assert, it } from "@effect/vitest"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as JournalSqlite from "../../../../src/layers/stores/JournalSqlite.ts"
import { asProcess, folderWith } from "../../../support/command.ts"

it("lists, shows, approves, forks and forgets turns, and says what is wrong with what it is told", async () => {
  const folder = folderWith()
  const file = join(folder, "turns.db")
  await Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const store = yield* JournalSqlite.make({ path: file })
        const journal = yield* Effect.scoped(
          Effect.gen(function* () {
            const own = yield* store.own("t")
            yield* own.step("prompt", { success: Schema.String, repeat: "safe" }, Effect.succeed("a secret word"))
            return yield* Effect.exit(own.wait("step/1/call/0/approval"))
          })
        )
        assert.strictEqual(journal._tag, "Failure")
        yield* store.setStatus("t", "parked")
      })
    )
  )
  const turns = (...args: ReadonlyArray<string>) => asProcess(["turns", ...args, "--file", file], {}, {})
  const listed = turns("list")
  assert.strictEqual(listed.out, "t  parked  1 steps  waits for step/1/call/0/approval\n")
  assert.strictEqual(listed.err, "")
  assert.include(turns("approve", "t").out, "step/1/call/0/approval: approved")
  assert.include(turns("deny", "t").out, "answered before")
  assert.strictEqual(turns("fork", "t", "--into", "u").code, 0)
  assert.include(turns("export", "u").out, "a secret word")
  assert.strictEqual(turns("forget", "u").code, 0)
  const missing = turns("show", "u")
  assert.strictEqual(missing.code, 2)
  assert.include(missing.err, "is no turn of")
})
