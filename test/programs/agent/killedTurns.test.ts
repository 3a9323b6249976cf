import { assert, it } from "@effect/vitest"
import { spawn, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { build } from "vite"
import { afterAll, beforeAll } from "vitest"
import { spentBy } from "../../../src/domain/agent/turnSpent.ts"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { unpaired } from "../../../src/domain/chat/MessageGroups.ts"
import * as JournalSqlite from "../../../src/layers/stores/JournalSqlite.ts"
import { historyOf } from "../../../src/programs/agent/durableTurn.ts"
import type { JournalStoreShape, StepRow } from "../../../src/services/JournalStore.ts"
import type { Life } from "../../support/killedTurn.ts"
import { isWhole, runs } from "../../support/runs.ts"

/**
 * Processes that are ended by kill -9, each with some turns under way and at a moment of its own: 40 every day, HOLDFAST_KILLS
 * where they are counted (`npm run kills` is 200), 10,000 in the whole.
 */
const wanted = isWhole ? 10_000 : Number(process.env["HOLDFAST_KILLS"] ?? Math.min(40, runs(40)))
/** A life waits more than it works: where many are wanted, some are led side by side. */
const worldsAtOnce = wanted > 100 ? 3 : 1

const rounds = 3
const answerTokens = 18
const turnsAtOnce = 12
/** Below the ten restarts without a new fact after which a turn is given up. */
const mostKills = 8

const folder = mkdtempSync(join(tmpdir(), "killed-"))
const program = join(folder, "killedTurn.mjs")

/** One file, so that a life costs a third of a second and not two. */
beforeAll(async () => {
  await build({
    configFile: false,
    logLevel: "error",
    build: {
      ssr: join(import.meta.dirname, "../../support/killedTurn.ts"),
      outDir: folder,
      minify: false,
      target: "node22",
      rollupOptions: { output: { entryFileNames: "killedTurn.mjs" } }
    },
    ssr: { noExternal: true }
  })
}, 120_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A world is made again from its number. */
const randomOf = (seed: number) => {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    next,
    below: (limit: number): number => Math.floor(next() * limit),
    chance: (share: number): boolean => next() < share
  }
}
type Random = ReturnType<typeof randomOf>

type Kind = "plain" | "poor" | "hopeless"
const kindOf = (id: string): Kind => (id.endsWith("7") ? "poor" : id.endsWith("3") ? "hopeless" : "plain")
const poorTokens = 400
const deadlineMillis = 1_500
/** A machine that is busy with other things ends no turn that is not meant to end. */
const dayMillis = 86_400_000

/** What was asked of the provider. */
interface Asked {
  /** Whole answers that were begun, by turn and round. */
  readonly whole: Map<string, number>
  /** When the last request of a turn came. */
  readonly lastAt: Map<string, number>
}

const eventsOf = (at: number): string => {
  const calls = ["look", "send", "pay"].map((name, index) => ({
    index,
    id: `${name}-${at}`,
    type: "function",
    function: { name, arguments: JSON.stringify({ n: at }) }
  }))
  const isLast = at >= rounds
  const deltas = [
    { role: "assistant", content: `part ${at} ` },
    { content: "and more" },
    ...(isLast ? [] : [{ tool_calls: calls }])
  ]
  const usage = { prompt_tokens: 9, completion_tokens: 9, total_tokens: answerTokens }
  const chunkOf = (delta: object, finish_reason: string | null, more: object = {}): string =>
    `data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }], ...more })}\n\n`
  return [
    ...deltas.map((delta) => chunkOf(delta, null)),
    chunkOf({}, isLast ? "stop" : "tool_calls", { usage }),
    "data: [DONE]\n\n"
  ].join("")
}

/** Answers by how many replies it is shown, in pieces of any size, sometimes badly; tells every piece it writes. */
const startProvider = async (random: Random, onPiece: () => void) => {
  const asked: Asked = { whole: new Map(), lastAt: new Map() }
  const refuse = (response: ServerResponse): void => {
    const status = [429, 500, 503, 529][random.below(4)] ?? 500
    const headers = random.chance(0.5) ? { "retry-after-ms": String(random.below(60)) } : {}
    response
      .writeHead(status, { "content-type": "application/json", ...headers })
      .end('{"error":{"type":"overloaded_error"}}')
  }
  const stream = (response: ServerResponse, text: string, cutAt: number): void => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    let at = 0
    const next = (): void => {
      if (response.destroyed) return
      if (at >= cutAt) return void response.destroy()
      const piece = text.slice(at, at + 1 + random.below(160))
      at += piece.length
      response.write(piece)
      onPiece()
      if (at >= text.length) return void response.end()
      setTimeout(next, random.below(6))
    }
    next()
  }
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const { messages } = JSON.parse(Buffer.concat(chunks).toString()) as { readonly messages: ReadonlyArray<Message> }
      const id = String(messages.find(({ role }) => role === "user")?.content)
      const at = messages.filter(({ role }) => role === "assistant").length
      asked.lastAt.set(id, Date.now())
      if (kindOf(id) === "hopeless" || random.chance(0.15)) return refuse(response)
      const text = eventsOf(at)
      if (random.chance(0.1)) return stream(response, text, random.below(text.length))
      const key = `${id} step/${at + 1}/reply`
      asked.whole.set(key, (asked.whole.get(key) ?? 0) + 1)
      stream(response, text, Infinity)
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const close = (): void => {
    server.closeAllConnections()
    server.close()
  }
  return { asked, baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, close }
}

const inStore = <A>(path: string, body: (store: JournalStoreShape) => Effect.Effect<A, unknown>): Promise<A> =>
  Effect.runPromise(Effect.scoped(Effect.flatMap(JournalSqlite.make({ path }), body)))

const stepsOf = (path: string, ids: ReadonlyArray<string>): Promise<ReadonlyArray<ReadonlyArray<StepRow>>> =>
  inStore(path, (store) => Effect.forEach(ids, store.steps))

const linesIn = (path: string): ReadonlyArray<string> =>
  existsSync(path)
    ? readFileSync(path, "utf8")
        .split("\n")
        .filter((line) => line !== "")
    : []

interface Figures {
  kills: number
  turnsCut: number
  repeatedInFlight: number
}

/** Turns of one file, killed some times at moments by chance, and then left to come to their end. */
const playWorld = async (seed: number, figures: Figures): Promise<void> => {
  const random = randomOf(seed)
  const place = mkdtempSync(join(folder, "world-"))
  let child: ChildProcess | null = null
  /** Pieces of streams until the process is killed in the middle of one; 0 = it is not. */
  let piecesLeft = 0
  const provider = await startProvider(random, () => {
    piecesLeft -= 1
    if (piecesLeft === 0) child?.kill("SIGKILL")
  })
  const ids = Array.from({ length: turnsAtOnce }, (_, at) => `t${at}`)
  const paths = { path: join(place, "turns.db"), ran: join(place, "ran"), ended: join(place, "ended") }
  /** How often a round was in flight when its process died. */
  const inFlight = new Map<string, number>()

  const live = async (isLast: boolean): Promise<void> => {
    const isFromOutside = random.chance(0.5)
    piecesLeft = isLast || !isFromOutside ? 0 : 1 + random.below(60)
    const life: Life = {
      ...paths,
      baseUrl: provider.baseUrl,
      turns: ids.map((id) => ({
        id,
        maxTokens: kindOf(id) === "poor" ? poorTokens : 1_000_000,
        deadlineMillis: kindOf(id) === "hopeless" ? deadlineMillis : dayMillis
      })),
      diesAt: isLast || isFromOutside ? null : 1 + random.below(400)
    }
    child = spawn(process.execPath, ["--no-warnings", program, JSON.stringify(life)], {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, NODE_COMPILE_CACHE: join(folder, "cache") }
    })
    const [code, signal] = (await once(child, "close")) as [number | null, string | null]
    if (code === 0) return
    assert.strictEqual(signal, "SIGKILL", `world ${seed}`)
    figures.kills += 1
    const over = new Set(linesIn(paths.ended).map((line) => (JSON.parse(line) as Ended).id))
    figures.turnsCut += ids.length - over.size
    const kept = await stepsOf(paths.path, ids)
    for (const [at, id] of ids.entries()) {
      const done = new Set(kept[at]?.filter(({ state }) => state === "done").map(({ key }) => `${id} ${key}`))
      for (const key of provider.asked.whole.keys())
        if (key.startsWith(`${id} `) && !done.has(key)) inFlight.set(key, (inFlight.get(key) ?? 0) + 1)
    }
  }

  for (let kill = 0; kill < mostKills; kill += 1) await live(false)
  await live(true)
  provider.close()
  await judge(seed, { ...paths, ids, asked: provider.asked, inFlight, figures })
  rmSync(place, { recursive: true, force: true })
}

interface Ended {
  readonly id: string
  readonly how: string
  readonly tokens: number
}

interface World {
  readonly path: string
  readonly ran: string
  readonly ended: string
  readonly ids: ReadonlyArray<string>
  readonly asked: Asked
  readonly inFlight: ReadonlyMap<string, number>
  readonly figures: Figures
}

const finished = `part ${rounds} and more`

/** A poor turn comes to its end when little of what was in flight had to be booked as lost. */
const expected: Readonly<Record<Kind, ReadonlyArray<string>>> = {
  plain: [finished],
  poor: ["BudgetExceeded", finished],
  hopeless: ["RecoveryDeadlineExceeded"]
}

const judge = async (seed: number, world: World): Promise<void> => {
  const { ids, asked, inFlight } = world
  const ended = new Map(linesIn(world.ended).map((line) => [(JSON.parse(line) as Ended).id, JSON.parse(line) as Ended]))
  const kept = await stepsOf(world.path, ids)
  const histories = await inStore(world.path, (store) => Effect.forEach(ids, (id) => historyOf(store, id)))
  const ran = linesIn(world.ran)

  // Nothing is asked again but what was in flight.
  for (const [key, times] of asked.whole) {
    assert.isAtMost(times, 1 + (inFlight.get(key) ?? 0), `world ${seed}: ${key} was asked again`)
    world.figures.repeatedInFlight += times - 1
  }
  // What must not run twice has not.
  const paid = ran.filter((line) => line.startsWith("pay "))
  assert.strictEqual(paid.length, new Set(paid).size, `world ${seed}: a payment ran twice`)

  for (const [at, id] of ids.entries()) {
    const where = `world ${seed}, ${id}`
    const steps = kept[at] ?? []
    const history = histories[at] ?? []
    const one = ended.get(id)
    assert.isNull(unpaired(history), where)
    // No turn is lost.
    assert.include(expected[kindOf(id)], one?.how, where)
    // What is booked is what the facts say, and no less than what the provider has counted.
    const booked = spentBy(steps).tokens
    assert.strictEqual(one?.tokens, booked, where)
    const answered = [...asked.whole]
      .filter(([key]) => key.startsWith(`${id} `))
      .reduce((sum, [, times]) => sum + times, 0)
    assert.isAtLeast(booked, answered * answerTokens, where)
    if (kindOf(id) === "plain") {
      const said = history.filter(({ role }) => role === "assistant").map(({ content }) => content)
      assert.deepStrictEqual(
        said,
        Array.from({ length: rounds + 1 }, (_, part) => `part ${part} and more`),
        where
      )
      for (let step = 1; step <= rounds; step += 1)
        for (const [call, name] of [
          [0, "look"],
          [1, "send"]
        ] as const)
          assert.include(ran, `${name} ${id}/step/${step}/call/${call}`, where)
    }
    if (kindOf(id) === "poor") assert.isAtMost(answered * answerTokens, poorTokens + answerTokens, where)
    if (kindOf(id) === "hopeless") {
      const open = steps.find(({ key }) => key === "step/1/reply")?.value as {
        readonly atEpochMs: number
        readonly usedMs: number
      }
      // The clocks of two processes, and the way to the provider.
      const tolerance = 300
      assert.isAtMost((asked.lastAt.get(id) ?? 0) - (open.atEpochMs - open.usedMs), deadlineMillis + tolerance, where)
    }
  }
}

it(
  `loses no turn to kill -9 at any moment: ${wanted} times, no request again but what was in flight, no payment twice, no invalid history`,
  async () => {
    const figures: Figures = { kills: 0, turnsCut: 0, repeatedInFlight: 0 }
    const first = Number(process.env["HOLDFAST_KILL_SEED"] ?? Math.floor(Math.random() * 2 ** 31))
    const told = (): void => console.info(`${worlds} worlds from ${first}: ${JSON.stringify(figures)}`)
    let worlds = 0
    const lead = async (): Promise<void> => {
      while (figures.kills < wanted) {
        worlds += 1
        await playWorld(first + worlds - 1, figures)
        if (worlds % 50 === 0) told()
      }
    }
    await Promise.all(Array.from({ length: worldsAtOnce }, lead))
    told()
  },
  Math.max(300_000, wanted * 5_000)
)
