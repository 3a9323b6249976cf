/** Gateways as processes of their own that share budgets and the health of their routes over a real server. */
import { assert, describe, it } from "@effect/vitest"
import { spawn, type ChildProcess } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { afterAll, beforeAll } from "vitest"
import { startStore, type RunningStore, type StoreKind } from "../support/sharedStores.ts"

const kinds: ReadonlyArray<StoreKind> = ["sqlite", "redis", "postgres"]
const pause = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

/** Each answer costs a dollar and the worst case of a request two. */
const prices = { inputPerM: 0.000_001, outputPerM: 100_000 }
const body = JSON.stringify({ model: "m", max_tokens: 20, messages: [{ role: "user", content: "go" }] })
const answer = JSON.stringify({
  id: "r",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "done", refusal: null } }],
  usage: { prompt_tokens: 1, completion_tokens: 10, total_tokens: 11 }
})

const provider = async (asked: { count: number }): Promise<Server> => {
  const server = createServer((request, response) => {
    asked.count += 1
    request.resume()
    setTimeout(() => response.writeHead(200, { "content-type": "application/json" }).end(answer), 30)
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return server
}

interface Gateway {
  readonly child: ChildProcess
  readonly origin: string
  readonly said: () => ReadonlyArray<string>
}

const start = async (file: string, environment: Readonly<Record<string, string>>): Promise<Gateway> => {
  const child = spawn(process.execPath, ["--no-warnings", "src/cli.ts", "gateway", "--config", file], {
    stdio: ["ignore", "inherit", "pipe"],
    env: { ...process.env, ...environment }
  })
  const lines: Array<string> = []
  return new Promise((resolve, reject) => {
    child.once("exit", () => reject(new Error(lines.join("\n"))))
    createInterface({ input: child.stderr! }).on("line", (line) => {
      lines.push(line)
      const origin = /listening on (\S+)/.exec(line)?.[1]
      if (origin !== undefined) resolve({ child, origin, said: () => lines })
    })
  })
}

const ask = async ({ origin }: Gateway): Promise<number> => {
  const response = await fetch(`${origin}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer gw-key", "content-type": "application/json" },
    body
  })
  await response.text()
  return response.status
}

const until = async (isSo: () => Promise<boolean>, millis: number): Promise<number> => {
  const began = performance.now()
  while (!(await isSo())) {
    if (performance.now() - began > millis) throw new Error(`not within ${millis} ms`)
    await pause(50)
  }
  return performance.now() - began
}

describe.each(kinds)("gateways over %s", (kind) => {
  const folder = mkdtempSync(join(tmpdir(), "gateways-"))
  const asked = { count: 0 }
  let store: RunningStore
  let upstream: Server
  let gateways: ReadonlyArray<Gateway>

  beforeAll(async () => {
    store = await startStore(kind)
    upstream = await provider(asked)
    const file = join(folder, "gateway.json")
    const place = kind === "sqlite" ? { sqlite: store.address } : { [kind]: "env:STORE" }
    const config = {
      listen: { port: 0 },
      keys: ["env:KEY"],
      upstreams: { main: { baseUrl: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1` } },
      routes: { "*": { upstream: "main", prices } },
      budgets: { "env:KEY": { usdPerDay: 20 } },
      store: place
    }
    writeFileSync(file, JSON.stringify(config))
    gateways = await Promise.all([1, 2].map(() => start(file, { KEY: "gw-key", STORE: store.address })))
  })
  afterAll(async () => {
    for (const { child } of gateways) child.kill("SIGKILL")
    upstream.closeAllConnections()
    upstream.close()
    await store.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  it("never spend more than the budget of a key together, and all of it", async () => {
    const statuses: Array<number> = []
    // Each admits what fits beside the worst case of all that is under way; what is not spent is given back.
    for (let round = 0; round < 6; round += 1)
      statuses.push(...(await Promise.all(Array.from({ length: 20 }, (_, at) => ask(gateways[at % 2]!)))))
    const answered = statuses.filter((status) => status === 200).length
    assert.deepStrictEqual(new Set(statuses), new Set([200, 429]))
    assert.strictEqual(asked.count, answered)
    // Twenty dollars are twenty answers; the last one needs room for its worst case.
    assert.strictEqual(answered, 19)
    const metrics = await Promise.all(
      gateways.map(async ({ origin }) =>
        (await fetch(`${origin}/metrics`, { headers: { authorization: "Bearer gw-key" } })).text()
      )
    )
    for (const text of metrics) assert.match(text, /holdfast_reserved_usd\{key="KEY"\} 19(\.0+1?9?\d*)?\n/)
  })

  if (kind !== "sqlite")
    it("spend nothing while the store is gone, say so once, and are back within two seconds", async () => {
      const before = asked.count
      await store.kill()
      await until(async () => (await ask(gateways[0]!)) === 503, 5_000)
      assert.deepStrictEqual(await Promise.all(gateways.map(ask)), [503, 503])
      assert.strictEqual(asked.count, before)
      await store.start()
      const took = await Promise.all(gateways.map((one) => until(async () => (await ask(one)) !== 503, 10_000)))
      assert.isBelow(Math.max(...took), 5_000)
      console.log(`${kind}: back after ${took.map(Math.round).join(" and ")} ms`)
      for (const { said } of gateways) {
        assert.strictEqual(said().filter((line) => line.includes("is away")).length, 1, said().join("\n"))
        assert.strictEqual(said().filter((line) => line.includes("is back")).length, 1)
      }
    })
})
