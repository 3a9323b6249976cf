import { assert, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as JournalSqlite from "../../../../src/layers/stores/JournalSqlite.ts"
import { tail } from "../../../../src/programs/commands/turns/tail.ts"
import { folderWith, inProcess } from "../../../support/command.ts"

const fresh = (): string => join(folderWith(), "turns.db")
const text = { success: Schema.String, repeat: "safe" } as const

it("tail tells what is kept as it comes, with the text of the reply that is being written, and ends with the turn", () => {
  const file = fresh()
  return Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        let said = ""
        const reader = yield* JournalSqlite.make({ path: file })
        const store = yield* JournalSqlite.make({ path: file })
        const until = (part: string) =>
          Effect.gen(function* () {
            for (let look = 0; look < 200 && !said.includes(part); look += 1) yield* Effect.sleep(50)
            assert.include(said, part)
          })
        yield* Effect.scoped(
          Effect.gen(function* () {
            const journal = yield* store.own("t")
            yield* Effect.forkDetach(tail(reader, "t", (more) => Effect.sync(() => void (said += more))))
            yield* journal.step("prompt", text, Effect.succeed("what is it?"))
            yield* until("  what is it?\n")
            yield* journal.tell("step/1/reply", "It is a ")
            yield* until("It is a ")
            yield* journal.tell("step/1/reply", "tree")
            yield* until("It is a tree")
            yield* journal.tell("step/1/reply", null)
            yield* journal.tell("step/1/reply", "A house.")
            yield* until("It is a tree\n↺ the answer broke off; it begins again\nA house.")
            yield* store.setStatus("t", "done")
          })
        )
        yield* until("A house.\nt  done\n")
      })
    )
  )
})

it("forget leaves no byte of a run in its folder, and is refused while a process runs the turn", async () => {
  const folder = folderWith({ "a.txt": "TODO canary-in-a-file" })
  const canary = "canary-in-the-prompt"
  const ran = await inProcess([
    "run",
    "--dir",
    folder,
    "--provider",
    "embedded",
    "--prompt",
    `${canary} ${"x".repeat(3_000)}`
  ])
  assert.strictEqual(ran.code, 0)
  const file = join(folder, ".holdfast", "turns.db")
  const bytes = (): string =>
    readdirSync(join(folder, ".holdfast"))
      .map((name) => readFileSync(join(folder, ".holdfast", name), "latin1"))
      .join("")
  assert.include(bytes(), canary)
  assert.include(bytes(), "canary-in-a-file")
  const [id = ""] = (await inProcess(["turns", "list", "--file", file])).out.split(" ")
  await Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        // Another process looks at the file, and one runs the turn.
        const store = yield* JournalSqlite.make({ path: file })
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* store.own(id)
            const refused = yield* Effect.promise(() => inProcess(["turns", "forget", id, "--file", file]))
            assert.strictEqual(refused.code, 1)
            assert.include(refused.err, "is run by process")
          })
        )
        const forgotten = yield* Effect.promise(() => inProcess(["turns", "forget", id, "--file", file]))
        assert.deepStrictEqual([forgotten.code, forgotten.err], [0, ""])
      })
    )
  )
  assert.notInclude(bytes(), "canary")
})

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
  const turns = (...args: ReadonlyArray<string>) => inProcess(["turns", ...args, "--file", file])
  const listed = await turns("list")
  assert.strictEqual(listed.out, "t  parked  1 steps  waits for step/1/call/0/approval\n")
  assert.strictEqual(listed.err, "")
  assert.include((await turns("approve", "t")).out, "step/1/call/0/approval: approved")
  assert.include((await turns("deny", "t")).out, "answered before")
  assert.strictEqual((await turns("fork", "t", "--into", "u")).code, 0)
  assert.include((await turns("export", "u")).out, "a secret word")
  assert.strictEqual((await turns("forget", "u")).code, 0)
  assert.match((await turns("fork", "t", "--into", "t")).err, /--into \(t\) is a turn already/)
  assert.match((await turns("fork", "t", "--into", "w", "--from", "none")).err, /--from \(none\) is no step of t/)
  assert.include((await turns("show", "t")).out, "  a secret word\n")
  assert.strictEqual((await turns("cancel", "t")).code, 0)
  assert.match((await turns("list")).out, /^t {2}cancelled {2}1 steps/)
  assert.match((await turns("tail", "t")).out, /prompt\n {2}a secret word\nt {2}cancelled/)
  const missing = await turns("show", "u")
  assert.strictEqual(missing.code, 2)
  assert.include(missing.err, "is no turn of")
})
