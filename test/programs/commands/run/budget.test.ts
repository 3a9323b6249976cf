import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Usage from "../../../../src/domain/chat/Usage.ts"
import { makeSummary, noteRecovery, summaryTable } from "../../../../src/programs/commands/run/summary.ts"
import { provider } from "../../../support/loopback.ts"

const cli = join(import.meta.dirname, "../../../../src/cli.ts")

/** A folder for as long as a test runs. */
const folderOf = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "holdfast-usd-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** The command against a server of this process, in a folder. */
const runIn = (folder: string, baseUrl: string, args: ReadonlyArray<string>, prices: string) =>
  Effect.promise(
    () =>
      new Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>((resolve) => {
        const child = spawn(process.execPath, [cli, "run", "--dir", folder, ...args], {
          cwd: folder,
          env: {
            PATH: process.env["PATH"] ?? "",
            OPENAI_API_KEY: "sk-run-12345678",
            OPENAI_BASE_URL: baseUrl,
            OPENAI_MODEL: "large",
            OPENAI_FALLBACK_MODEL: "none",
            HOLDFAST_PRICES: prices
          }
        })
        let out = ""
        let err = ""
        child.stdout.on("data", (text: Buffer) => (out += text.toString()))
        child.stderr.on("data", (text: Buffer) => (err += text.toString()))
        child.on("close", (code) => resolve({ code, out, err }))
      })
  )

const run = (baseUrl: string, args: ReadonlyArray<string>, prices: string) =>
  Effect.flatMap(folderOf, (folder) => runIn(folder, baseUrl, ["--prompt", "go", ...args], prices))

const usage = { prompt_tokens: 500_000, completion_tokens: 100_000, total_tokens: 600_000 }

/** Every answer asks for one more look at the folder, and costs 2 USD at 2/10. */
const looking = provider((_request, response) => {
  const call = { index: 0, id: "c1", type: "function", function: { name: "list", arguments: '{"path":"."}' } }
  const chunk = (delta: unknown, finish_reason: string | null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }], ...(finish_reason === null ? {} : { usage }) })}\n\n`
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.end(`${chunk({ tool_calls: [call] }, null)}${chunk({}, "tool_calls")}data: [DONE]\n\n`)
})

it.live(
  "run stops when its limit in USD is used up, says so and what it cost",
  () =>
    Effect.gen(function* () {
      const server = yield* looking
      const ran = yield* run(server.baseUrl, ["--max-usd", "1.5"], "large=2/10")
      assert.strictEqual(ran.code, 1)
      assert.include(ran.err, "budget of 1.5 usd is used up")
      assert.include(ran.out, "$2.0000 of $1.5 allowed")
      assert.strictEqual(server.bodies.length, 1)
    }).pipe(Effect.scoped),
  60_000
)

it.live(
  "run goes on with a session under the limit that is left of it",
  () =>
    Effect.gen(function* () {
      const server = yield* looking
      const folder = yield* folderOf
      const again = (limit: string) =>
        runIn(
          folder,
          server.baseUrl,
          ["--resume", "--session", join(folder, "s.json"), "--max-usd", limit],
          "large=2/10"
        )
      const begin = ["--prompt", "go", "--session", join(folder, "s.json"), "--max-usd", "1.5"]
      assert.strictEqual((yield* runIn(folder, server.baseUrl, begin, "large=2/10")).code, 1)
      assert.strictEqual(server.bodies.length, 1)
      // What was spent counts: the same limit pays for nothing more, a larger one for what it is larger by.
      const none = yield* again("1.5")
      assert.strictEqual(none.code, 1)
      assert.include(none.err, "budget of 1.5 usd is used up")
      assert.strictEqual(server.bodies.length, 1)
      const more = yield* again("3.5")
      assert.include(more.err, "budget of 3.5 usd is used up")
      assert.include(more.out, "$2.0000")
      assert.strictEqual(server.bodies.length, 2)
    }).pipe(Effect.scoped),
  120_000
)

it.live(
  "run sends nothing when a model of a run with a limit in USD has no price",
  () =>
    Effect.gen(function* () {
      const server = yield* looking
      const ran = yield* run(server.baseUrl, ["--max-usd", "1.5"], "other=2/10")
      assert.strictEqual(ran.code, 2)
      assert.include(ran.err, "--max-usd needs the price of large")
      assert.strictEqual(server.bodies.length, 0)
    }).pipe(Effect.scoped),
  60_000
)

const seen = (costUsd: number | null) => ({
  _tag: "UsageSeen" as const,
  requestId: "r",
  epochMs: 0,
  elapsedMs: 0,
  providerRequestId: null,
  attempt: 1,
  role: "main" as const,
  usage: Usage.unknown,
  final: costUsd !== null,
  costUsd
})

it("tells a cost that is not known from one that has no price", () => {
  const table = (hasPrices: boolean, costs: ReadonlyArray<number | null>, maxCostUsd: number | null = null): string => {
    const summary = makeSummary({ maxCostUsd, hasPrices })
    for (const cost of costs) noteRecovery(summary, seen(cost))
    return (
      summaryTable(summary)
        .split("\n")
        .find((row) => row.includes("cost")) ?? ""
    )
  }
  assert.include(table(true, [0.25, 0.5]), "$0.7500")
  assert.include(table(true, [0.25], 3), "$0.2500 of $3 allowed")
  assert.include(table(true, [0.25, null]), "without its usage")
  assert.include(table(false, [null]), "no prices for this model")
})
