import { assert, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { unpaired } from "../../../src/domain/chat/MessageGroups.ts"
import * as JournalSqlite from "../../../src/layers/stores/JournalSqlite.ts"
import { historyOf } from "../../../src/programs/agent/durableTurn.ts"
import { isWhole } from "../../support/runs.ts"

const rounds = 4
/** Kill -9, over as many turns as it takes. */
const kills = isWhole ? 200 : 6

/** A provider that answers by how many replies it is shown, counts what it is asked, and takes its time. */
const counting = async () => {
  const asked: Array<number> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const { messages } = JSON.parse(Buffer.concat(chunks).toString()) as { readonly messages: ReadonlyArray<Message> }
      const at = messages.filter(({ role }) => role === "assistant").length
      asked.push(at)
      const calls = ["look", "pay"].map((name, index) => ({
        index,
        id: `${name}-${at}`,
        type: "function",
        function: { name, arguments: JSON.stringify({ n: at }) }
      }))
      const deltas = [
        { role: "assistant", content: `part ${at} ` },
        { content: "and more" },
        ...(at < rounds ? [{ tool_calls: calls }] : [])
      ]
      const reason = at < rounds ? "tool_calls" : "stop"
      const usage = { prompt_tokens: 9, completion_tokens: 9, total_tokens: 18 }
      const lines = [
        ...deltas.map((delta) => ({
          id: "x",
          object: "chat.completion.chunk",
          choices: [{ index: 0, delta, finish_reason: null }]
        })),
        { id: "x", object: "chat.completion.chunk", choices: [{ index: 0, delta: {}, finish_reason: reason }], usage }
      ].map((line) => `data: ${JSON.stringify(line)}\n\n`)
      response.writeHead(200, { "content-type": "text/event-stream" })
      const next = (): void => {
        const line = lines.shift()
        if (line === undefined) return void response.end("data: [DONE]\n\n")
        response.write(line)
        setTimeout(next, 15)
      }
      next()
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, close: () => server.close() }
}

const life = (args: ReadonlyArray<string>) =>
  spawn(process.execPath, ["--no-warnings", join(import.meta.dirname, "../../support/killedTurn.ts"), ...args], {
    stdio: ["ignore", "pipe", "inherit"]
  })

it(
  "loses no turn to kill -9: nothing is asked twice but what was in flight, and no tool that must not runs twice",
  async () => {
    let killed = 0
    while (killed < kills) {
      const folder = mkdtempSync(join(tmpdir(), "killed-"))
      const [path, counts] = [join(folder, "turns.db"), join(folder, "counts")]
      const provider = await counting()
      let deaths = 0
      let text = ""
      while (text === "") {
        const child = life([path, provider.url, counts])
        let out = ""
        child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()))
        const before = provider.asked.length
        if (deaths < 3) {
          // Somewhere behind the life's first request, whenever the machine gets there.
          while (provider.asked.length === before && child.exitCode === null)
            await new Promise((resolve) => setTimeout(resolve, 5))
          setTimeout(() => child.kill("SIGKILL"), Math.random() * 200)
        }
        const [code] = (await once(child, "close")) as [number | null]
        if (code === null) deaths += 1
        else assert.strictEqual(code, 0)
        text = code === 0 ? out.trim() : ""
      }
      provider.close()
      killed += Math.max(1, deaths)
      assert.strictEqual(text, `part ${rounds} and more`)
      const ran = existsSync(counts) ? readFileSync(counts, "utf8").trim().split("\n") : []
      const paid = ran.filter((line) => line.startsWith("pay"))
      assert.strictEqual(paid.length, new Set(paid).size)
      assert.isAtMost(provider.asked.length, rounds + 1 + deaths)
      const history = await Effect.runPromise(
        Effect.scoped(Effect.flatMap(JournalSqlite.make({ path }), (store) => historyOf(store, "t")))
      )
      assert.isNull(unpaired(history))
      assert.strictEqual(history.filter(({ role }) => role === "assistant").length, rounds + 1)
    }
  },
  isWhole ? 1_200_000 : 120_000
)
