import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { hostname, tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterEach, beforeEach } from "vitest"
import * as SessionFile from "../../../src/layers/stores/SessionFile.ts"

let dir = ""
let outside = ""
beforeEach(() => {
  dir = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "holdfast-store-")))
  outside = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "holdfast-outside-")))
  fs.writeFileSync(join(outside, "victim"), "precious")
})
afterEach(() => {
  for (const folder of [dir, outside]) fs.rmSync(folder, { recursive: true, force: true })
})

const folder = (): string => join(dir, ".holdfast")
const session = (): string => join(folder(), "session.json")
const lock = (): string => `${session()}.lock`

/** Opens, saves once and closes; the words of what stood in the way, or "saved". */
const saved = (resume = false): Promise<string> =>
  Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const { save, fault } = yield* SessionFile.open(session(), resume)
        yield* save([{ role: "user", content: "new" }])
        return (yield* fault) ?? "saved"
      })
    ).pipe(Effect.catch((error) => Effect.succeed(error.message)))
  )

const untouched = (): void => {
  assert.deepStrictEqual(fs.readdirSync(outside), ["victim"])
  assert.strictEqual(fs.readFileSync(join(outside, "victim"), "utf8"), "precious")
}

describe("a folder that somebody else has made", () => {
  it.each<readonly [string, RegExp, () => void]>([
    ["session.json is a link to a file", /is a link/, () => fs.symlinkSync(join(outside, "victim"), session())],
    ["session.json is a link to nothing", /is a link/, () => fs.symlinkSync(join(outside, "new"), session())],
    ["session.json is a folder", /is a folder/, () => fs.mkdirSync(session())],
    ["session.json is a pipe", /is a pipe/, () => void execFileSync("mkfifo", [session()])],
    ["the lock is a link", /is a link/, () => fs.symlinkSync(join(outside, "victim"), lock())],
    ["the lock is a pipe", /is a pipe/, () => void execFileSync("mkfifo", [lock()])]
  ])("changes nothing outside when %s", async (_, words, make) => {
    fs.mkdirSync(folder())
    make()
    assert.match(await saved(), words)
    assert.match(await saved(true), words)
    untouched()
  })

  it("changes nothing outside when the folder itself is a link, or a file", async () => {
    fs.symlinkSync(outside, folder())
    assert.match(await saved(), /its folder \S+ is a link, which is not followed/)
    untouched()
    fs.unlinkSync(folder())
    fs.writeFileSync(folder(), "no folder")
    assert.match(await saved(), /no regular file|cannot be used/)
  })

  it("has a name of its own for what is being written", async () => {
    fs.mkdirSync(folder())
    for (const end of ["next", "tmp", `${process.pid}.tmp`]) fs.symlinkSync(join(outside, end), `${session()}.${end}`)
    assert.strictEqual(await saved(), "saved")
    untouched()
  })

  it("is looked at before every save", async () => {
    const said = await Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const { save, fault } = yield* SessionFile.open(session(), false)
          yield* save([])
          fs.rmSync(folder(), { recursive: true })
          fs.symlinkSync(outside, folder())
          yield* save([{ role: "user", content: "x" }])
          const first = yield* fault
          fs.unlinkSync(folder())
          yield* save([{ role: "user", content: "x" }])
          return [first, yield* fault]
        })
      )
    )
    assert.match(said[0] ?? "", /the session could not be saved: .* is a link/)
    assert.isNull(said[1])
    untouched()
  })

  it("keeps sessions and what is beside them for their owner", async () => {
    await saved()
    assert.strictEqual(fs.statSync(session()).mode & 0o777, 0o600)
    assert.strictEqual(fs.statSync(folder()).mode & 0o777, 0o700)
    assert.deepStrictEqual(fs.readdirSync(folder()), ["session.json"])
  })
})

const put = (content: unknown): void => {
  fs.mkdirSync(folder(), { recursive: true })
  fs.writeFileSync(session(), typeof content === "string" ? content : JSON.stringify(content))
}

const user = { role: "user", content: "an old task" }
const call = { id: "c", type: "function", function: { name: "n", arguments: "{}" } }

describe("a session that stands there", () => {
  it.each<readonly [string, ReadonlyArray<unknown>]>([
    ["a prompt", [user]],
    ["a call", [user, { role: "assistant", content: null, tool_calls: [call] }]],
    ["a result", [user, { role: "tool", tool_call_id: "c", content: "x" }]]
  ])("is kept under another name when it ends with %s", async (_, messages) => {
    put({ version: 1, messages })
    assert.strictEqual(await saved(), "saved")
    const kept = fs.readdirSync(folder()).find((name) => name !== "session.json") ?? ""
    assert.deepStrictEqual(JSON.parse(fs.readFileSync(join(folder(), kept), "utf8")), { version: 1, messages })
  })

  it.each<readonly [string, ReadonlyArray<unknown>]>([
    ["is finished", [user, { role: "assistant", content: "done" }]],
    ["is finished, with no calls", [user, { role: "assistant", content: "done", tool_calls: [] }]],
    ["is empty", []]
  ])("is replaced when it %s", async (_, messages) => {
    put({ version: 1, messages })
    assert.strictEqual(await saved(), "saved")
    assert.deepStrictEqual(fs.readdirSync(folder()), ["session.json"])
  })

  it.each([
    ["is a session of version 2", { version: 2, messages: [] }],
    ["is a session of version next", { version: "next", messages: [] }],
    ["is not a saved session", { messages: [user] }],
    ["is not a saved session", "not JSON"],
    ["is not a saved session", { version: 1, messages: [{ role: "robot", content: "x" }] }],
    ["is not a saved session", { name: "package" }]
  ])("%s: it is neither read nor replaced", async (words, content) => {
    put(content)
    const before = fs.readFileSync(session(), "utf8")
    assert.include(await saved(), words)
    assert.include(await saved(true), words)
    assert.strictEqual(fs.readFileSync(session(), "utf8"), before)
  })
})

const mark = { pid: process.pid, host: hostname(), started: "another boot 1" }

describe("the lock of a session", () => {
  it.each<readonly [string, string]>([
    ["a number that another process has now", JSON.stringify(mark)],
    ["a number that nobody has", JSON.stringify({ ...mark, pid: 4_194_000 })],
    ["garbage", "?"],
    ["nothing", ""],
    ["a number that is none", JSON.stringify({ ...mark, pid: -1 })]
  ])("is taken over with %s", async (_, text) => {
    fs.mkdirSync(folder())
    fs.writeFileSync(lock(), text)
    assert.strictEqual(await saved(), "saved")
    assert.deepStrictEqual(fs.readdirSync(folder()), ["session.json"])
  })

  it("is left alone and named when another machine has it", async () => {
    fs.mkdirSync(folder())
    fs.writeFileSync(lock(), JSON.stringify({ ...mark, pid: 7, host: "another-machine" }))
    const said = await saved()
    assert.include(said, "is in use by process 7 on another-machine")
    assert.include(said, lock())
  })

  it("has one owner in one process, too, and is given back", async () => {
    const inner = await Effect.runPromise(
      Effect.scoped(
        Effect.andThen(
          SessionFile.open(session(), false),
          Effect.promise(() => saved())
        )
      )
    )
    assert.include(inner, `is in use by process ${process.pid} on `)
    assert.strictEqual(await saved(), "saved")
  })
})

describe("what a session has spent", () => {
  const reopened = (resume: boolean) =>
    Effect.runPromise(
      Effect.scoped(Effect.map(SessionFile.open(session(), resume), ({ spentBefore }) => spentBefore)).pipe(
        Effect.catch((error) => Effect.succeed(error.message))
      )
    )
  const put = (content: unknown): void => {
    fs.mkdirSync(folder(), { recursive: true })
    fs.writeFileSync(session(), JSON.stringify(content))
  }
  const message = { role: "user", content: "x" } as const
  const spend = (spent: SessionFile.Spent) =>
    Effect.runPromise(
      Effect.scoped(Effect.flatMap(SessionFile.open(session(), false), ({ save }) => save([message], spent)))
    )

  it("is there again when it goes on, and not in a new session", async () => {
    await spend({ tokens: 70, costUsd: 0.25 })
    assert.deepStrictEqual(await reopened(true), { tokens: 70, costUsd: 0.25 })
    assert.deepStrictEqual(await reopened(false), { tokens: 0, costUsd: 0 })
  })

  it("stays unknown in USD when it was", async () => {
    await spend({ tokens: 70, costUsd: null })
    assert.deepStrictEqual(await reopened(true), { tokens: 70, costUsd: null })
  })

  it("is nothing in a file of a time when nothing was counted", async () => {
    put({ version: 1, messages: [message] })
    assert.deepStrictEqual(await reopened(true), { tokens: 0, costUsd: 0 })
  })

  it.each([{ tokens: -1, costUsd: 0 }, { tokens: "7", costUsd: 0 }, { tokens: 7 }, { tokens: 7, costUsd: "0" }, null])(
    "is not guessed from %j",
    async (spent) => {
      put({ version: 1, spent, messages: [message] })
      assert.match(String(await reopened(true)), /is not a saved session/)
    }
  )
})
