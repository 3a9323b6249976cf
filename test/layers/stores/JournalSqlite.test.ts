import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import * as JournalSqlite from "../../../src/layers/stores/JournalSqlite.ts"
import type { JournalShape } from "../../../src/services/Journal.ts"

const fresh = (): string => join(mkdtempSync(join(tmpdir(), "journal-")), "turns.db")
const text = (repeat: "safe" | "keyed" | "never" = "safe") => ({ success: Schema.String, repeat })

/** One process that owns a turn: opens the file, does something with the journal, and lets go of it. */
const life = <A, E>(path: string, turn: string, body: (journal: JournalShape) => Effect.Effect<A, E>) =>
  Effect.scoped(
    Effect.gen(function* () {
      const store = yield* JournalSqlite.make({ path })
      return yield* body(yield* store.own(turn))
    })
  )
const withStore = <A, E>(
  path: string,
  body: (store: Effect.Success<ReturnType<typeof JournalSqlite.make>>) => Effect.Effect<A, E>
) => Effect.scoped(Effect.flatMap(JournalSqlite.make({ path }), body))

/** A process that is killed cannot take its name back. */
const leaveHolder = (path: string, turn: string): void => {
  const database = new DatabaseSync(path)
  database.prepare("update turn set holder = 'process 1' where turn = ?").run(turn)
  database.close()
}

const counting = (value: string) => {
  const runs: Array<string> = []
  return { runs, run: Effect.sync(() => (runs.push(value), value)) }
}

describe("a journal in a file", () => {
  it.effect("runs a step once over any number of lives, in any order of keys", () =>
    Effect.gen(function* () {
      const path = fresh()
      const [a, b] = [counting("a"), counting("b")]
      const first = yield* life(path, "t", (journal) =>
        Effect.all([journal.step("a", text(), a.run), journal.step("b", text("never"), b.run)])
      )
      const second = yield* life(path, "t", (journal) =>
        Effect.all([journal.step("b", text("never"), b.run), journal.step("a", text(), a.run)])
      )
      assert.deepStrictEqual(
        [first, second],
        [
          ["a", "b"],
          ["b", "a"]
        ]
      )
      assert.deepStrictEqual([a.runs, b.runs], [["a"], ["b"]])
    })
  )

  it.effect("does not keep a failure: the step runs again", () =>
    Effect.gen(function* () {
      const path = fresh()
      const failed = yield* Effect.exit(
        life(path, "t", (journal) => journal.step("a", text(), Effect.fail("no" as const)))
      )
      assert.isTrue(Exit.isFailure(failed))
      assert.strictEqual(yield* life(path, "t", (journal) => journal.step("a", text(), Effect.succeed("yes"))), "yes")
    })
  )

  it.effect("tells of a step that must not run twice when it has begun and has no end", () =>
    Effect.gen(function* () {
      const path = fresh()
      for (const repeat of ["never", "keyed", "safe"] as const) {
        const cut = yield* Effect.forkChild(
          life(path, repeat, (journal) => journal.step("a", text(repeat), Effect.never))
        )
        yield* Effect.yieldNow
        yield* Fiber.interrupt(cut)
        const again = yield* Effect.result(
          life(path, repeat, (journal) => journal.step("a", text(repeat), Effect.succeed("x")))
        )
        if (repeat === "never") {
          assert.strictEqual(again._tag === "Failure" && again.failure._tag, "StepInDoubt")
        } else assert.strictEqual(again._tag, "Success")
      }
    })
  )

  it.effect("keeps the instant of a sleep: after a restart only the rest is slept", () =>
    Effect.gen(function* () {
      const path = fresh()
      const cut = yield* Effect.forkChild(life(path, "t", (journal) => journal.sleepUntil("nap", 10_000)))
      yield* TestClock.adjust("4 seconds")
      yield* Fiber.interrupt(cut)
      const rest = yield* Effect.forkChild(life(path, "t", (journal) => journal.sleepUntil("nap", 99_000)))
      yield* TestClock.adjust("5999 millis")
      assert.isUndefined(rest.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      yield* Fiber.join(rest)
    })
  )

  it.effect("parks until somebody answers; a second answer changes nothing; after 30 days it goes on", () =>
    Effect.gen(function* () {
      const path = fresh()
      const ask = life(path, "t", (journal) => journal.wait("approval"))
      const parked = yield* Effect.flip(ask)
      assert.strictEqual(parked._tag, "TurnParked")
      const [listed] = yield* withStore(path, (store) => store.list)
      assert.deepStrictEqual([listed?.waitsFor, listed?.holder], ["approval", null])
      yield* TestClock.adjust("30 days")
      const answers = yield* withStore(path, (store) =>
        Effect.all([store.answer("t", "approval", "approve"), store.answer("t", "approval", "deny")])
      )
      assert.deepStrictEqual(answers, [true, false])
      assert.strictEqual(yield* ask, "approve")
    })
  )

  it.effect("names the field of a kept value that it cannot read any more", () =>
    Effect.gen(function* () {
      const path = fresh()
      const old = { success: Schema.Struct({ size: Schema.String }), repeat: "safe" as const }
      const now = { success: Schema.Struct({ size: Schema.Finite }), repeat: "safe" as const }
      yield* life(path, "t", (journal) => journal.step("a", old, Effect.succeed({ size: "large" })))
      const refused = yield* Effect.flip(
        life(path, "t", (journal) => journal.step("a", now, Effect.succeed({ size: 1 })))
      )
      assert.strictEqual(refused._tag, "JournalMismatch")
      assert.match(refused.message, /a\["size"\]/)
    })
  )

  it.effect("gives up a turn that dies ten times without a new fact, and not one that gets further", () =>
    Effect.gen(function* () {
      const path = fresh()
      // What a killed process leaves: its name as the holder.
      const die = (turn: string) =>
        withStore(path, (store) => Effect.scoped(store.own(turn))).pipe(
          Effect.tap(() => Effect.sync(() => leaveHolder(path, turn)))
        )
      for (let restart = 0; restart < 10; restart += 1) yield* die("stuck")
      assert.strictEqual((yield* Effect.flip(die("stuck")))._tag, "TurnStuck")
      for (let restart = 0; restart < 15; restart += 1) {
        yield* life(path, "going", (journal) => journal.step(`s${restart}`, text(), Effect.succeed("x")))
        yield* Effect.sync(() => leaveHolder(path, "going"))
      }
    })
  )

  it.effect("forks before a step, and forgets without leaving a byte of the text", () =>
    Effect.gen(function* () {
      const path = fresh()
      const canary = `canary-${"x".repeat(3_000)}`
      yield* life(path, "t", (journal) =>
        Effect.gen(function* () {
          for (const key of ["a", "b", "c"]) yield* journal.step(key, text(), Effect.succeed(`${canary} ${key}`))
          yield* journal.tell("s", canary)
        })
      )
      yield* withStore(path, (store) => store.fork("t", "u", "c"))
      const kept = yield* withStore(path, (store) => store.steps("u"))
      assert.deepStrictEqual(
        kept.map((row) => row.key),
        ["a", "b"]
      )
      yield* withStore(path, (store) => Effect.all([store.forget("t"), store.forget("u")]))
      for (const name of readdirSync(join(path, "..")))
        assert.notInclude(readFileSync(join(path, "..", name), "latin1"), "canary", name)
    })
  )

  it.effect("forgets what a killed process has left, and nothing that somebody runs", () =>
    Effect.gen(function* () {
      const path = fresh()
      yield* life(path, "t", (journal) => journal.step("a", text(), Effect.succeed("x")))
      yield* Effect.sync(() => leaveHolder(path, "t"))
      const held = yield* life(path, "t", () => Effect.flip(withStore(path, (store) => store.forget("t"))))
      assert.strictEqual(held._tag, "TurnOwned")
      yield* Effect.sync(() => leaveHolder(path, "t"))
      yield* withStore(path, (store) => store.forget("t"))
      assert.deepStrictEqual(yield* withStore(path, (store) => store.list), [])
    })
  )

  it.effect("stores a large value once, and nothing twice", () =>
    Effect.gen(function* () {
      const path = fresh()
      const large = "y".repeat(100_000)
      yield* life(path, "t", (journal) =>
        Effect.forEach(Array.from({ length: 50 }), (_, index) =>
          journal.step(`s${index}`, text(), Effect.succeed(large))
        )
      )
      assert.isBelow(statSync(path).size, 400_000)
      assert.strictEqual(statSync(path).mode & 0o777, 0o600)
    })
  )

  it.effect("follows no link in the place of its file", () =>
    Effect.gen(function* () {
      const path = fresh()
      const victim = `${path}.victim`
      writeFileSync(victim, "precious")
      symlinkSync(victim, path)
      assert.strictEqual((yield* Effect.flip(withStore(path, (store) => store.list)))._tag, "JournalUnavailable")
      assert.strictEqual(readFileSync(victim, "utf8"), "precious")
    })
  )

  it.live("refuses a second process and says who holds the turn; kill -9 frees it; a cancel from outside is seen", () =>
    Effect.gen(function* () {
      const path = fresh()
      const program = `
          import * as Effect from "effect/Effect"
          const { make } = await import(${JSON.stringify(new URL("../../../src/layers/stores/JournalSqlite.ts", import.meta.url).href)})
          await Effect.runPromise(Effect.scoped(Effect.gen(function* () {
            const store = yield* make({ path: process.argv[1] })
            yield* store.own("t")
            // Nothing else keeps the process alive: it would end by itself, and give the turn back before it is killed.
            yield* Effect.sync(() => { setInterval(() => {}, 1_000); console.log("held") })
            yield* Effect.never
          })))`
      const child = spawn(process.execPath, ["--input-type=module", "-e", program, path], {
        stdio: ["ignore", "pipe", "ignore"]
      })
      yield* Effect.promise(() => once(child.stdout, "data"))
      // Long enough for what nobody refers to any more to be collected.
      yield* Effect.sleep(1_500)
      // Whoever is refused waits for nobody. The best of ten: the machine may be busy with other things.
      const took = yield* withStore(path, (store) =>
        Effect.forEach(Array.from({ length: 10 }), () =>
          Effect.gen(function* () {
            const begun = performance.now()
            const refused = yield* Effect.flip(Effect.scoped(store.own("t")))
            assert.strictEqual(refused._tag, "TurnOwned")
            assert.include(refused.message, String(child.pid))
            return performance.now() - begun
          })
        )
      )
      assert.isBelow(Math.min(...took), 100)
      yield* life(path, "other", () => Effect.void)
      yield* withStore(path, (store) => store.cancel("t"))
      child.kill("SIGKILL")
      yield* Effect.promise(() => once(child, "exit"))
      assert.strictEqual(child.signalCode, "SIGKILL")
      yield* life(path, "t", () => Effect.void)
      assert.isTrue(yield* withStore(path, (store) => store.isCancelled("t")))
    })
  )
})
