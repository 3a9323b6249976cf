import { assert, describe, it } from "@effect/vitest"
import { spawn, type ChildProcess } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterEach, beforeEach } from "vitest"
import type { Message } from "../../../../src/domain/chat/Message.ts"
import * as JournalSqlite from "../../../../src/layers/stores/JournalSqlite.ts"
import { historyOf } from "../../../../src/programs/agent/durableTurn.ts"
import type { JournalStoreShape } from "../../../../src/services/JournalStore.ts"
import { provider } from "../../../support/loopback.ts"
import { cli, inProcess } from "../../../support/command.ts"

let dir = ""
const children: Array<ChildProcess> = []
beforeEach(() => {
  dir = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "holdfast-journal-")))
  fs.writeFileSync(join(dir, "a.txt"), "TODO: rest\n")
})
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL")
  fs.rmSync(dir, { recursive: true, force: true })
})

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Starts the command as a user's shell does. */
const start = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) => {
  const child = spawn(process.execPath, [cli, "run", "--dir", dir, ...args], {
    cwd: dir,
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdio: ["ignore", "pipe", "pipe"]
  })
  children.push(child)
  let stdout = ""
  let stderr = ""
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()))
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()))
  const ended = new Promise<Ended>((resolve) => child.on("close", (code) => resolve({ code, stdout, stderr })))
  return { child, ended, stdout: () => stdout }
}

/** Where the process is not the point. */
const run = async (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}): Promise<Ended> => {
  const { code, out, err } = await inProcess(["run", "--dir", dir, ...args], env)
  return { code, stdout: out, stderr: err }
}

const embedded = (...args: ReadonlyArray<string>): Promise<Ended> => run(["--provider", "embedded", ...args])

const envOf = (baseUrl: string): Readonly<Record<string, string>> => ({
  OPENAI_API_KEY: "sk-run-12345678",
  OPENAI_BASE_URL: baseUrl,
  OPENAI_MODEL: "large",
  OPENAI_FALLBACK_MODEL: "none",
  HOLDFAST_PRICES: "large=2/10"
})

const until = async (condition: () => boolean): Promise<void> => {
  for (let turn = 0; turn < 6_000 && !condition(); turn += 1) await new Promise((resolve) => setTimeout(resolve, 10))
  assert.isTrue(condition())
}

const journal = (): string => join(dir, ".holdfast", "turns.db")
const inStore = <A>(body: (store: JournalStoreShape) => Effect.Effect<A, unknown>): Promise<A> =>
  Effect.runPromise(Effect.scoped(Effect.flatMap(JournalSqlite.make({ path: journal() }), body)))
const turns = () => inStore((store) => store.list)
const textsOf = (history: ReadonlyArray<Message>) => history.map(({ content }) => content)

describe("a run without further ado", () => {
  it(
    "is kept in one file that its owner alone reads, and leaves nothing else behind",
    { timeout: 120_000 },
    async () => {
      const { code, stderr } = await embedded("--prompt", "go")
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.deepStrictEqual(fs.readdirSync(join(dir, ".holdfast")), ["turns.db"])
      assert.strictEqual(fs.statSync(journal()).mode & 0o777, 0o600)
      const [turn] = await turns()
      assert.strictEqual(turn?.status, "done")
      const history = await inStore((store) => historyOf(store, turn?.turn ?? ""))
      assert.strictEqual(history.map(({ role }) => role[0]).join(""), "uatata")
      const again = await embedded("--resume", "--json")
      assert.strictEqual(again.code, 0)
      assert.include(again.stderr, "nobody is asked")
      assert.notInclude(again.stdout, "AttemptStarted")
    }
  )
})

describe("a turn that is taken up", () => {
  it.each(["SIGINT", "SIGKILL"] as const)(
    "asks no question twice that was answered, and tells a second run who has the journal: %s",
    async (signal) => {
      const asked: Array<number> = []
      const model = provider((_request, response, body) => {
        const messages = body["messages"] as ReadonlyArray<Message>
        const at = messages.filter(({ role }) => role === "assistant").length
        asked.push(at)
        // The second answer never comes while the first process lives.
        if (at === 1 && asked.length === 2) return void response.writeHead(200, { "content-type": "text/event-stream" })
        const call = { index: 0, id: "c1", type: "function", function: { name: "list", arguments: '{"path":"."}' } }
        const chunk = (delta: unknown, finish_reason: string | null) =>
          `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } })}\n\n`
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.end(
          at === 0
            ? `${chunk({ role: "assistant", tool_calls: [call] }, null)}${chunk({}, "tool_calls")}data: [DONE]\n\n`
            : `${chunk({ role: "assistant", content: "the end" }, null)}${chunk({}, "stop")}data: [DONE]\n\n`
        )
      })
      await Effect.runPromise(
        Effect.scoped(
          Effect.gen(function* () {
            const { baseUrl } = yield* model
            const env = envOf(baseUrl)
            const first = start(["--prompt", "go"], env)
            yield* Effect.promise(() => until(() => asked.length === 2))
            const second = yield* Effect.promise(() => run(["--prompt", "other"], env))
            assert.strictEqual(second.code, 2)
            assert.include(second.stderr, `is in use by process ${first.child.pid} on `)
            first.child.kill(signal)
            yield* Effect.promise(() => first.ended)
            const third = yield* Effect.promise(() => run(["--resume"], env))
            assert.strictEqual(third.code, 0)
            assert.include(third.stdout, "the end")
            assert.include(third.stderr, "taking up run-")
            assert.deepStrictEqual(asked, [0, 1, 1])
          })
        )
      )
      assert.deepStrictEqual(
        (await turns()).map(({ status }) => status),
        ["done"]
      )
      assert.deepStrictEqual(fs.readdirSync(join(dir, ".holdfast")), ["turns.db"])
    },
    120_000
  )

  it("gives way to another prompt, which comes after what it did", { timeout: 120_000 }, async () => {
    assert.strictEqual((await embedded("--prompt", "first", "--scenario", "auth")).code, 1)
    const told = await embedded("--prompt", "apart")
    assert.match(told.stderr, /an unfinished turn is kept: go on with it by --resume --turn run-/)
    const [first] = await turns()
    const name = first?.turn ?? ""
    assert.strictEqual((await embedded("--resume", "--turn", name, "--prompt", "second")).code, 0)
    const last = (await turns()).at(-1)?.turn ?? ""
    const texts = textsOf(await inStore((store) => historyOf(store, last)))
    assert.deepStrictEqual(
      texts.filter((text) => text === "first" || text === "second" || text === "apart"),
      ["first", "second"]
    )
  })

  it("counts what the turns before it have spent", { timeout: 120_000 }, async () => {
    const answers = provider((_request, response) => {
      const usage = { prompt_tokens: 500_000, completion_tokens: 0, total_tokens: 500_000 }
      response.writeHead(200, { "content-type": "text/event-stream" })
      response.end(
        `data: ${JSON.stringify({ choices: [{ index: 0, delta: { role: "assistant", content: "done" }, finish_reason: "stop" }], usage })}\n\ndata: [DONE]\n\n`
      )
    })
    await Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const server = yield* answers
          const env = envOf(server.baseUrl)
          const paid = (...args: ReadonlyArray<string>) => Effect.promise(() => run([...args, "--max-usd", "1.5"], env))
          assert.strictEqual((yield* paid("--prompt", "go")).code, 0)
          assert.strictEqual((yield* paid("--prompt", "go on", "--resume")).code, 0)
          const third = yield* paid("--prompt", "and on", "--resume")
          assert.strictEqual(third.code, 1)
          assert.include(third.stderr, "budget of 1.5 usd is used up")
          assert.strictEqual(server.bodies.length, 2)
          // What stands for itself has a budget of its own.
          assert.strictEqual((yield* paid("--prompt", "anew")).code, 0)
        })
      )
    )
  })
})

describe("a session file of before", () => {
  const put = (content: unknown): string => {
    fs.mkdirSync(join(dir, ".holdfast"), { recursive: true, mode: 0o700 })
    const path = join(dir, ".holdfast", "session.json")
    fs.writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content))
    return path
  }
  const unfinished = {
    version: 1,
    spent: { tokens: 7, costUsd: 1 },
    messages: [{ role: "user", content: "an old task" }]
  }

  it("is taken over once, goes on with --resume, and stays as it is", { timeout: 120_000 }, async () => {
    const path = put(unfinished)
    assert.strictEqual((await embedded("--resume")).code, 0)
    const history = await inStore((store) => historyOf(store, "session"))
    assert.strictEqual(history[0]?.content, "an old task")
    assert.isAbove(history.length, 1)
    assert.strictEqual(fs.readFileSync(path, "utf8"), JSON.stringify(unfinished))
    fs.writeFileSync(path, JSON.stringify({ version: 1, messages: [{ role: "user", content: "changed" }] }))
    assert.strictEqual((await embedded("--resume", "--prompt", "more")).code, 0)
    const all = await turns()
    assert.strictEqual(all.length, 2)
    const texts = textsOf(await inStore((store) => historyOf(store, all[1]?.turn ?? "")))
    assert.includeMembers([...texts], ["an old task", "more"])
    assert.notInclude(texts, "changed")
  })

  it("is kept beside a new turn, with what it has spent; one that is none is told", { timeout: 120_000 }, async () => {
    put(unfinished)
    const { code, stderr } = await embedded("--prompt", "go")
    assert.strictEqual(code, 0)
    assert.include(stderr, "--resume --turn session")
    const refused = await embedded("--resume", "--turn", "session", "--max-usd", "0.5")
    assert.strictEqual(refused.code, 1)
    assert.include(refused.stderr, "budget of 0.5 usd is used up")
    fs.rmSync(journal())
    put("{ no session")
    const other = await embedded("--prompt", "go")
    assert.strictEqual(other.code, 0)
    assert.include(other.stderr, "is not taken over")
  })
})

describe("what does not go together", () => {
  it.each<readonly [ReadonlyArray<string>, string]>([
    [["--resume"], "holds no saved session"],
    [["--resume", "--turn", "none"], "--turn (none) is no turn of"],
    [["--prompt", "go", "--turn", "none"], "--turn names the turn"],
    [["--prompt", "go", "--session", "s.json", "--journal", "j.db"], "--session is a file of JSON"]
  ])("%s is told in one sentence", async (args, sentence) => {
    const { code, stderr } = await embedded(...args)
    assert.strictEqual(code, 2)
    assert.include(stderr, sentence)
  })

  it("saves the history in a session file, and says so, where Node has no SQLite", { timeout: 120_000 }, async () => {
    const env = { NODE_OPTIONS: "--no-experimental-sqlite" }
    const { code, stderr } = await start(["--provider", "embedded", "--prompt", "go"], env).ended
    assert.strictEqual(code, 0)
    assert.include(stderr, "this Node has no node:sqlite: no journal is kept")
    assert.deepStrictEqual(fs.readdirSync(join(dir, ".holdfast")), ["session.json"])
    const named = await start(["--provider", "embedded", "--prompt", "go", "--journal", "j.db"], env).ended
    assert.strictEqual(named.code, 2)
    assert.include(named.stderr, "--journal cannot be used")
  })
})
