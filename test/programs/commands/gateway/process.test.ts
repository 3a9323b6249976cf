/** The gateway as a process of its own: it reads its file again while it serves, tells what it cannot take, and stops in order. */
import { assert, describe, it } from "@effect/vitest"
import { spawn, type ChildProcess } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { wholeText } from "../../../../bench/wall/answers.ts"
import { ask, type Heard } from "../../../../bench/wall/client.ts"
import { startProvider, type Provider } from "../../../../bench/wall/provider.ts"
import { isWhole } from "../../../support/runs.ts"

const untilSaid = async (said: () => string, word: RegExp, count: number): Promise<void> => {
  for (let waited = 0; waited < 20_000; waited += 20) {
    if ((said().match(new RegExp(word, "g")) ?? []).length >= count) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`not said ${count} times: ${word} in ${said().slice(-2_000)}`)
}

interface Started {
  readonly child: ChildProcess
  readonly origin: string
  readonly file: string
  readonly said: () => string
  /** What was said until now is of no interest. */
  readonly forget: () => void
  readonly ended: Promise<number | null>
}

const configOf = (provider: Provider, stream: string): string =>
  JSON.stringify({
    listen: { port: 0 },
    upstreams: { main: { baseUrl: provider.baseUrl } },
    routes: { "*": { upstream: "main", stream } }
  })

/** A gateway before a provider whose events come `unit / 50` milliseconds apart. */
const withGateway = async (unit: number, body: (started: Started, provider: Provider) => Promise<void>) => {
  const provider = await startProvider({ unit })
  const folder = mkdtempSync(join(tmpdir(), "gateway-"))
  const file = join(folder, "gateway.json")
  writeFileSync(file, configOf(provider, "live"))
  const child = spawn(process.execPath, ["--no-warnings", "src/cli.ts", "gateway", "--config", file], {
    stdio: ["ignore", "ignore", "pipe"]
  })
  let said = ""
  child.stderr.on("data", (chunk) => {
    said += String(chunk)
  })
  const ended = new Promise<number | null>((resolve) => child.on("exit", resolve))
  try {
    await untilSaid(() => said, /listening on/, 1)
    const origin = /listening on (\S+)/.exec(said)?.[1] ?? ""
    const forget = (): void => {
      said = ""
    }
    await body({ child, origin, file, said: () => said, forget, ended }, provider)
  } finally {
    child.kill("SIGKILL")
    rmSync(folder, { recursive: true, force: true })
    await provider.close()
  }
}

/** How a stream ends that has begun when the signals come. */
const throughSignals = (signals: ReadonlyArray<"SIGTERM" | "SIGINT">) => {
  let seen: { readonly heard: Heard; readonly code: number | null; readonly ready: ReadonlyArray<number> } | null = null
  const play = withGateway(2_000, async ({ child, origin, said, ended }, provider) => {
    const wire = "chat"
    const baseUrl = `${origin}/v1`
    const ready = async (): Promise<number> => (await fetch(`${origin}/readyz`)).status
    const before = await ready()
    const asked = ask({ baseUrl, wire, model: "ok" })
    while (provider.asked.length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
    await new Promise((resolve) => setTimeout(resolve, 300))
    child.kill(signals[0])
    await untilSaid(said, /1 under way/, 1)
    const during = await ready()
    const refused = await fetch(`${baseUrl}/chat/completions`, { method: "POST", body: "{}" })
    assert.deepStrictEqual([refused.status, refused.headers.get("retry-after")], [503, "1"])
    await refused.text()
    for (const signal of signals.slice(1)) child.kill(signal)
    seen = { heard: await asked, code: await ended, ready: [before, during] }
    assert.strictEqual(provider.asked.length, 1)
  })
  return play.then(() => seen)
}

describe("a gateway process", () => {
  it("reads its file again by SIGHUP and by itself under load and loses no request; a bad file changes nothing", async () => {
    await withGateway(5, async ({ child, origin, file, said, forget, ended }, provider) => {
      let isOver = false
      const outcomes: Array<string> = []
      const caller = async (): Promise<void> => {
        while (!isOver) {
          const heard = await ask({ baseUrl: `${origin}/v1`, wire: "chat", model: "ok" })
          outcomes.push(heard.isWhole && heard.text === wholeText ? "whole" : (heard.error ?? "cut"))
        }
      }
      const callers = [caller(), caller(), caller()]
      const reloads = isWhole ? 100 : 10
      for (let reload = 1; reload <= reloads; reload += 1) {
        child.kill("SIGHUP")
        await untilSaid(said, /was read again/, reload)
      }
      forget()
      writeFileSync(file, configOf(provider, "verified"))
      await untilSaid(said, /was read again/, 1)
      forget()
      writeFileSync(file, '{"upstreams": {}, "routes": {"*": {"upstream": "main", "strem": "live"}}}')
      await untilSaid(said, /was not taken/, 1)
      assert.match(said(), /strem/)
      assert.match(said(), /line 1, column \d+/)
      writeFileSync(file, "{ this is no JSON")
      child.kill("SIGHUP")
      await untilSaid(said, /was not taken/, 2)
      const before = outcomes.length
      while (outcomes.length < before + 3) await new Promise((resolve) => setTimeout(resolve, 20))
      isOver = true
      await Promise.all(callers)
      assert.deepStrictEqual(new Set(outcomes), new Set(["whole"]))
      child.kill("SIGTERM")
      assert.strictEqual(await ended, 0)
    })
  }, 120_000)

  it("lets a stream that has begun end whole when it is told to stop, refuses what comes later, and ends with 0", async () => {
    const seen = await throughSignals(["SIGTERM"])
    assert.deepStrictEqual([seen?.heard.isWhole, seen?.heard.text, seen?.heard.error], [true, wholeText, null])
    assert.deepStrictEqual([seen?.code, seen?.ready], [0, [200, 503]])
  }, 60_000)

  it("cuts what is under way when it is told to stop once more", async () => {
    const seen = await throughSignals(["SIGTERM", "SIGINT"])
    assert.deepStrictEqual([seen?.heard.isWhole, seen?.code], [false, 0])
    assert.notStrictEqual(seen?.heard.error, null)
  }, 60_000)
})
