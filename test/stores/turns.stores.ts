import { assert, describe, it } from "@effect/vitest"
import { spawn, type ChildProcess } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { once } from "node:events"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { afterAll, beforeAll } from "vitest"
import * as TurnsPostgres from "../../src/layers/stores/shared/TurnsPostgres.ts"
import { inProcess } from "../support/command.ts"
import { freePort, startStore, type RunningStore } from "../support/sharedStores.ts"

interface Asked {
  readonly turn: string
  readonly round: number
  readonly at: number
}

interface Said {
  readonly role: string
  readonly content: unknown
}

const rounds = 4

/** A provider that answers each round after a while: a call of a tool, and the text at last. */
const scripted = async (asked: Array<Asked>): Promise<Server> => {
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => {
      const { messages } = JSON.parse(Buffer.concat(parts).toString()) as { readonly messages: ReadonlyArray<Said> }
      const turn = String(messages.find(({ role }) => role === "user")?.content)
      const round = messages.filter(({ role }) => role === "tool").length
      asked.push({ turn, round, at: Date.now() })
      const name = turn.startsWith("ask") && round === 0 ? "ask" : "pay"
      const isLast = round >= (turn.startsWith("ask") ? 1 : rounds)
      const call = { id: `c${round}`, type: "function", function: { name, arguments: JSON.stringify({ n: round }) } }
      const message = isLast
        ? { role: "assistant", content: `done ${turn}`, refusal: null }
        : { role: "assistant", content: null, refusal: null, tool_calls: [call] }
      const body = {
        id: "r",
        object: "chat.completion",
        created: 1,
        model: "m",
        choices: [{ index: 0, finish_reason: isLast ? "stop" : "tool_calls", message }],
        usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
      }
      setTimeout(() => {
        response.setHeader("content-type", "application/json")
        response.end(JSON.stringify(body))
      }, 400)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return server
}

const runners = new Set<ChildProcess>()

/** `holdfast turns serve` as a process that may be killed at any moment. */
const runner = async (database: string, baseUrl: string, ran: string): Promise<ChildProcess> => {
  const program = join(import.meta.dirname, "../support/turnProgram.ts")
  const flags = ["--database", "env:TURN_DATABASE", "--program", program, "--port", String(await freePort())]
  const child = spawn(process.execPath, ["--no-warnings", "src/cli.ts", "turns", "serve", ...flags], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, TURN_DATABASE: database, TURN_PROVIDER: baseUrl, TURN_RAN: ran }
  })
  runners.add(child)
  for await (const line of createInterface({ input: child.stderr! }))
    if (line.includes("serves turns at")) {
      child.stderr?.resume()
      return child
    }
  throw new Error("the runner has ended")
}

const pause = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

describe("turns over two runners", () => {
  let store: RunningStore
  let provider: Server
  let folder: string
  const asked: Array<Asked> = []
  const baseUrl = () => `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`
  const ranFile = () => join(folder, "ran")
  const ran = () =>
    readFileSync(ranFile(), "utf8")
      .split("\n")
      .filter((line) => line !== "")
  const withClient = <A>(body: (turns: TurnsPostgres.TurnsShape) => Effect.Effect<A, unknown>) =>
    Effect.runPromise(
      Effect.scoped(Effect.flatMap(TurnsPostgres.client({ database: Redacted.make(store.address) }), body))
    )

  beforeAll(async () => {
    store = await startStore("postgres")
    provider = await scripted(asked)
    folder = mkdtempSync(join(tmpdir(), "holdfast-turns-"))
    writeFileSync(ranFile(), "")
  })
  afterAll(async () => {
    for (const child of runners) child.kill("SIGKILL")
    provider.closeAllConnections()
    provider.close()
    await store.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  it("complete all when one runner is killed in the middle, and ask nothing twice but what was in flight", async () => {
    const first = await runner(store.address, baseUrl(), ranFile())
    const second = await runner(store.address, baseUrl(), ranFile())
    const names = [1, 2, 3, 4, 5, 6].map((number) => `turn-${number}`)
    await withClient((turns) =>
      Effect.gen(function* () {
        const ends = yield* Effect.forkChild(
          Effect.forEach(names, (id) => turns.run({ id, prompt: id }), { concurrency: "unbounded" })
        )
        // All are under way, on both runners.
        yield* Effect.promise(async () => {
          while (new Set(asked.map(({ turn }) => turn)).size < names.length) await pause(20)
          await pause(600)
        })
        const all = yield* turns.store.list
        const heldBy = ({ pid }: ChildProcess) =>
          all.filter(({ holder }) => holder?.startsWith(`process ${pid} `)).map(({ turn }) => turn)
        const victim = heldBy(first).length >= heldBy(second).length ? first : second
        const lost = heldBy(victim)
        assert.isAbove(lost.length, 0)
        victim.kill("SIGKILL")
        const killedAt = Date.now()
        const done = yield* Fiber.join(ends)
        assert.deepStrictEqual(
          done,
          names.map((id) => ({ text: `done ${id}`, failure: null }))
        )
        const counts = new Map<string, number>()
        for (const { turn, round } of asked) counts.set(`${turn}/${round}`, (counts.get(`${turn}/${round}`) ?? 0) + 1)
        const repeated = [...counts.values()].filter((count) => count > 1)
        assert.isAtMost(repeated.length, lost.length)
        assert.isTrue(repeated.every((count) => count === 2))
        assert.strictEqual(counts.size, names.length * (rounds + 1))
        // A tool that must not run twice ran once at most.
        assert.strictEqual(new Set(ran()).size, ran().length)
        const again = asked
          .filter(({ turn, at }) => lost.includes(turn) && at > killedAt)
          .map(({ at }) => at - killedAt)
        console.log(
          `${lost.length} turns of the killed runner went on after ${again.sort((a, b) => a - b).join(", ")} ms`
        )
        console.log(`all six had ended ${Date.now() - killedAt} ms after the kill`)
      })
    )
  })

  it("park for a person, in no process, and go on when they are answered; a second answer changes nothing", async () => {
    await withClient((turns) =>
      Effect.gen(function* () {
        const database = ["--database", store.address]
        const command = (...args: ReadonlyArray<string>) =>
          Effect.map(
            Effect.promise(() => inProcess(["turns", ...args, ...database])),
            ({ out }) => out
          )
        assert.include(yield* command("start", "ask-1", "--prompt", "ask-1"), "ask-1 is under way")
        const parked = yield* Effect.promise(async () => {
          for (let turn = 0; turn < 300; turn += 1) {
            const all = await Effect.runPromise(turns.store.list)
            const found = all.find(({ turn: name, status }) => name === "ask-1" && status === "parked")
            if (found !== undefined) return found
            await pause(100)
          }
          throw new Error("it was never parked")
        })
        const key = parked.waitsFor ?? ""
        assert.include(yield* command("list"), `ask-1  parked  4 steps  waits for ${key}`)
        assert.strictEqual(yield* command("approve", "ask-1"), `${key}: approved\n`)
        assert.isFalse(yield* turns.answer("ask-1", key, "denied"))
        const end = yield* turns.run({ id: "ask-1", prompt: "ask-1" })
        assert.deepStrictEqual(end, { text: "done ask-1", failure: null })
        assert.strictEqual(ran().filter((line) => line.startsWith("ask ")).length, 1)
      })
    )
  })

  it("go to another runner at once when theirs is told to stop, which ends with 0", async () => {
    const leaving = await runner(store.address, baseUrl(), ranFile())
    await withClient((turns) =>
      Effect.gen(function* () {
        const names = [1, 2, 3, 4].map((number) => `left-${number}`)
        const ends = yield* Effect.forkChild(
          Effect.forEach(names, (id) => turns.run({ id, prompt: id }), { concurrency: "unbounded" })
        )
        yield* Effect.promise(async () => {
          while (names.some((name) => !asked.some(({ turn }) => turn === name))) await pause(20)
          leaving.kill("SIGTERM")
        })
        const [code] = yield* Effect.promise(() => once(leaving, "exit"))
        assert.strictEqual(code, 0)
        assert.deepStrictEqual(
          yield* Fiber.join(ends),
          names.map((id) => ({ text: `done ${id}`, failure: null }))
        )
      })
    )
  })

  it("end when they are cancelled from elsewhere", async () => {
    await withClient((turns) =>
      Effect.gen(function* () {
        yield* turns.start({ id: "cancel-1", prompt: "cancel-1" })
        yield* Effect.promise(async () => {
          while (!asked.some(({ turn }) => turn === "cancel-1")) await pause(20)
        })
        yield* turns.store.cancel("cancel-1")
        const end = yield* turns.run({ id: "cancel-1", prompt: "cancel-1" })
        assert.strictEqual(end.failure?.tag, "TurnCancelled")
      })
    )
  })
})
