/**
 * `npm run examples` (after `npm run build` and `npm ci --prefix examples --ignore-scripts`): starts every example as a
 * process of its own against a scripted provider on loopback that fails, and looks at what it printed and sent.
 */
import assert from "node:assert/strict"
import { spawn, type ChildProcess } from "node:child_process"
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { chaosServer, type ChaosServer, type ChaosStep } from "../src/testing.ts"

const here = import.meta.dirname
const link = join(here, "node_modules", "holdfast")
if (!existsSync(link)) symlinkSync(join(here, ".."), link)

interface Started {
  readonly process: ChildProcess
  /** What it has printed so far. */
  readonly out: () => string
  readonly printed: (pattern: RegExp) => Promise<RegExpExecArray>
  readonly ended: Promise<number | null>
}

const start = (example: string, provider: ChaosServer, env: Readonly<Record<string, string>> = {}): Started => {
  const child = spawn(process.execPath, ["--no-warnings", join(here, example, "main.ts")], {
    env: { ...process.env, OPENAI_API_KEY: "not-a-key", OPENAI_BASE_URL: provider.baseUrl, PORT: "0", ...env },
    stdio: ["pipe", "pipe", "pipe"]
  })
  let text = ""
  let listeners: ReadonlyArray<() => void> = []
  const heard = (data: Buffer): void => {
    text += data.toString("utf8")
    for (const listen of listeners) listen()
  }
  child.stdout.on("data", heard)
  child.stderr.on("data", heard)
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve))
  return {
    process: child,
    out: () => text,
    ended,
    printed: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const found = pattern.exec(text)
          if (found !== null) resolve(found)
        }
        listeners = [...listeners, look]
        look()
        void ended.then((code) => reject(new Error(`${example} ended with ${code} before ${pattern}:\n${text}`)))
      })
  }
}

const finished = async (one: Started): Promise<string> => {
  const code = await one.ended
  assert.equal(code, 0, one.out())
  return one.out()
}

const over = async (steps: ReadonlyArray<ChaosStep>, look: (provider: ChaosServer) => Promise<void>): Promise<void> => {
  const provider = await chaosServer(steps)
  try {
    await look(provider)
  } finally {
    await provider.close()
  }
}

const overloaded: ChaosStep = { status: 529 }

const checks: Readonly<Record<string, () => Promise<void>>> = {
  node: () =>
    over([overloaded, { cut: "" }, { reply: "Hello there." }], async (provider) => {
      assert.equal(await finished(start("node", provider)), "Hello there.\n")
      assert.equal(provider.requests.length, 3)
    }),
  "ai-sdk": () =>
    over(
      [
        { status: 500 },
        { reply: { toolCalls: [{ name: "weather", args: { city: "Bonn" } }] } },
        overloaded,
        { reply: "Take an umbrella." }
      ],
      async (provider) => {
        assert.equal(await finished(start("ai-sdk", provider)), "Take an umbrella.\n")
        assert.equal(provider.requests.length, 4)
        assert.match(JSON.stringify(provider.requests.at(-1)?.body), /It rains in Bonn/)
      }
    ),
  hono: () =>
    over([overloaded, { reply: "Hello from Hono." }, { stall: "It will" }], async (provider) => {
      const app = start("hono", provider)
      const [, url = ""] = await app.printed(/(http:\S+)/)
      const ask = (signal?: AbortSignal) =>
        fetch(`${url}/ask`, { method: "POST", body: '{"prompt":"Hi"}', ...(signal === undefined ? {} : { signal }) })
      assert.equal(await (await ask()).text(), "Hello from Hono.")
      const leaving = new AbortController()
      const half = await ask(leaving.signal)
      const reader = half.body?.getReader()
      await reader?.read()
      leaving.abort()
      await waitFor(() => provider.connectionsOpen() === 0, "the model call of a client that left")
      app.process.kill("SIGTERM")
      await app.ended
    }),
  "effect-app": () =>
    over([overloaded, { reply: "Hello from Effect." }, { stall: "" }], async (provider) => {
      const app = start("effect-app", provider)
      const [, url = ""] = await app.printed(/(http:\S+)/)
      const headers = { "content-type": "application/json" }
      const ask = (body: string, signal?: AbortSignal) =>
        fetch(`${url}/ask`, { method: "POST", headers, body, ...(signal === undefined ? {} : { signal }) })
      assert.deepEqual(await (await ask('{"prompt":"Hi"}')).json(), { text: "Hello from Effect.", model: "large" })
      assert.equal((await ask("{}")).status, 502)
      const leaving = new AbortController()
      const left = ask('{"prompt":"Hi"}', leaving.signal).catch(() => null)
      await waitFor(() => provider.requests.length === 3, "the request of a client that leaves")
      leaving.abort()
      await left
      await waitFor(() => provider.connectionsOpen() === 0, "the model call of a client that left")
      app.process.kill("SIGTERM")
      await app.ended
    }),
  batch: async () => {
    const folder = mkdtempSync(join(tmpdir(), "batch-"))
    const count = 1_000
    const steps = Array.from({ length: 2 * count }, (_, at): ChaosStep =>
      at % 10 === 3 ? overloaded : { reply: "A number." }
    )
    await over(steps, async (provider) => {
      const env = { PROMPTS: String(count), JOURNAL: join(folder, "batch.db") }
      const first = start("batch", provider, env)
      await first.printed(/300 of 1000/)
      first.process.kill("SIGKILL")
      await first.ended
      const said = await finished(start("batch", provider, env))
      assert.match(said, /1000 of 1000/)
      const asked = provider.requests.map(({ body }) => /the number (\d+)/.exec(JSON.stringify(body))?.[1])
      assert.equal(new Set(asked).size, count)
      // Only what failed, and what was in flight when it was killed, was asked for twice.
      assert.ok(asked.length <= count + count / 8 + 8 + 8, `${asked.length} requests`)
    })
    rmSync(folder, { recursive: true })
  },
  agent: () =>
    over(
      [
        { reply: { toolCalls: [{ name: "in_stock", args: { article: "7" } }] } },
        overloaded,
        { reply: { text: "Only three. ", toolCalls: [{ name: "order", args: { article: "7", count: 50 } }] } },
        { cut: "Fifty mo" },
        { reply: "Fifty more are on their way." }
      ],
      async (provider) => {
        const agent = start("agent", provider)
        await agent.printed(/order .*\(yes\/no\)/)
        agent.process.stdin?.write("yes\n")
        const said = await finished(agent)
        assert.match(said, /7: 3/)
        assert.match(said, /ordered 50 x 7/)
        assert.match(said, /Fifty more are on their way\.\n/)
        assert.equal(provider.requests.length, 5)
      }
    )
}

/** Waits for something that other processes do. */
const waitFor = async (isSo: () => boolean, what: string): Promise<void> => {
  for (let waited = 0; waited < 10_000; waited += 20) {
    if (isSo()) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`${what} is still there`)
}

let isGreen = true
for (const [name, check] of Object.entries(checks))
  try {
    await check()
    console.log(`${name}: ok`)
  } catch (error) {
    isGreen = false
    console.error(`${name}: FAILED`, error)
  }
process.exitCode = isGreen ? 0 : 1
