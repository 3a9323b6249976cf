/** The gateway as a process of its own: it reads its file again while it serves, and tells what it cannot take. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { wholeText } from "../../../../bench/wall/answers.ts"
import { ask } from "../../../../bench/wall/client.ts"
import { startProvider } from "../../../../bench/wall/provider.ts"
import { isWhole } from "../../../support/runs.ts"

const untilSaid = async (said: () => string, word: RegExp, count: number): Promise<void> => {
  for (let waited = 0; waited < 20_000; waited += 20) {
    if ((said().match(new RegExp(word, "g")) ?? []).length >= count) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`not said ${count} times: ${word} in ${said().slice(-2_000)}`)
}

describe("a gateway process", () => {
  it("reads its file again by SIGHUP and by itself under load and loses no request; a bad file changes nothing", async () => {
    const provider = await startProvider({ unit: 5 })
    const folder = mkdtempSync(join(tmpdir(), "gateway-"))
    const file = join(folder, "gateway.json")
    const write = (stream: string): void =>
      writeFileSync(
        file,
        JSON.stringify({
          listen: { port: 0 },
          upstreams: { main: { baseUrl: provider.baseUrl } },
          routes: { "*": { upstream: "main", stream } }
        })
      )
    write("live")
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
        await untilSaid(() => said, /was read again/, reload)
      }
      said = ""
      write("verified")
      await untilSaid(() => said, /was read again/, 1)
      said = ""
      writeFileSync(file, '{"upstreams": {}, "routes": {"*": {"upstream": "main", "strem": "live"}}}')
      await untilSaid(() => said, /was not taken/, 1)
      assert.match(said, /strem/)
      assert.match(said, /line 1, column \d+/)
      writeFileSync(file, "{ this is no JSON")
      child.kill("SIGHUP")
      await untilSaid(() => said, /was not taken/, 2)
      const before = outcomes.length
      while (outcomes.length < before + 3) await new Promise((resolve) => setTimeout(resolve, 20))
      isOver = true
      await Promise.all(callers)
      assert.deepStrictEqual(new Set(outcomes), new Set(["whole"]))
      child.kill("SIGTERM")
      assert.strictEqual(await ended, 130)
    } finally {
      child.kill("SIGKILL")
      rmSync(folder, { recursive: true, force: true })
      await provider.close()
    }
  }, 120_000)
})
