/** What nobody may see: keys, prompts and replies, whatever a provider says and whatever goes wrong. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Redacted from "effect/Redacted"
import { afterEach } from "vitest"
import { pathOf, type WireName } from "../../../../bench/wall/answers.ts"
import { ask } from "../../../../bench/wall/client.ts"
import { startProvider } from "../../../../bench/wall/provider.ts"
import { makeBudgets } from "../../../../src/programs/commands/gateway/budgets.ts"
import { makeParts, makeShared } from "../../../../src/programs/commands/gateway/gateway.ts"
import { resolveConfig } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"
import { makeKeyCheck } from "../../../../src/programs/commands/gateway/keys.ts"
import { startServer } from "../../../../src/programs/commands/gateway/server.ts"

const upstreamKey = "sk-upstream-canary-0123456789"
const callerKey = "gw-caller-canary-0123456789"
const wires: ReadonlyArray<WireName> = ["chat", "responses", "messages"]

const open: Array<() => Promise<void>> = []
afterEach(async () => {
  for (const close of open.splice(0)) await close()
})

/** Refuses everything and repeats the key it was asked with, in its words and in its headers. */
const startEcho = async () => {
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      const key = String(request.headers["x-api-key"] ?? request.headers.authorization)
      const status = Number(/status=(\d+)/.exec(request.url ?? "")?.[1] ?? 401)
      response.writeHead(status, { "content-type": "application/json", "x-echo": key })
      const text = JSON.stringify({
        type: "error",
        error: { type: "authentication_error", message: `Wrong key: ${key} äöü ${key}.` }
      })
      // In two pieces, the key in both.
      response.write(text.slice(0, text.indexOf("canary") + 2))
      setTimeout(() => response.end(text.slice(text.indexOf("canary") + 2)), 5)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  open.push(() => new Promise((resolve) => (server.closeAllConnections(), server.close(() => resolve()))))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}

describe("the key of an upstream", () => {
  it("is shown to no caller when its provider repeats it", async () => {
    const value = {
      listen: { port: 0 },
      keys: ["env:CALLER"],
      upstreams: { main: { baseUrl: await startEcho(), apiKey: "env:UPSTREAM" } },
      routes: {
        "*": {
          upstream: "main",
          policy: { maxAttempts: 2, routeHealth: null, backoff: { base: 1, factor: 1, cap: 1, jitter: 0 } }
        }
      }
    }
    const config = resolveConfig("test", { value, placeOf: () => null }, { UPSTREAM: upstreamKey, CALLER: callerKey })
    const budgets = makeBudgets(() => Date.now())
    const parts = makeParts(
      config,
      makeShared(budgets, () => 0)
    )
    const server = await startServer({ parts, budgets, onFault: () => undefined })
    open.push(() => server.drain(0))
    const body = (stream: boolean) =>
      JSON.stringify({ model: "m", stream, max_tokens: 9, messages: [{ role: "user", content: "go" }], input: "go" })
    const calls: ReadonlyArray<readonly [method: string, path: string, body: string | null]> = [
      ...wires.flatMap((wire) => [true, false].map((stream) => ["POST", pathOf[wire], body(stream)] as const)),
      ...wires.map((wire) => ["POST", `${pathOf[wire]}?status=500`, body(true)] as const),
      ["GET", "/v1/models", null],
      ["GET", "/v1/files/x", null],
      ["POST", "/v1/files", "{}"],
      ["POST", "/v1/embeddings?status=503", '{"model":"m","input":"x"}'],
      ["DELETE", "/v1/files/x", null]
    ]
    for (const [method, path, text] of calls) {
      const headers = { authorization: `Bearer ${callerKey}`, "content-type": "application/json" }
      const answer = await fetch(`${server.address}${path}`, { method, headers, body: text })
      const told = `${[...answer.headers].join("\n")}\n${await answer.text()}`
      assert.isAtLeast(answer.status, 400, `${method} ${path}`)
      assert.notInclude(told, upstreamKey, `${method} ${path}`)
      assert.notInclude(told, "canary", `${method} ${path}`)
      assert.include(told, "äöü", `${method} ${path}`)
    }
  })
})

describe("the key of a caller", () => {
  const keys = ["first-key", "second-key", "x".repeat(200)].map((secret, index) => ({
    name: `KEY${index}`,
    secret: Redacted.make(secret),
    budget: null
  }))
  const check = makeKeyCheck(keys)

  it("is found wherever it stands among the keys and in whichever header it comes", () => {
    for (const { name, secret } of keys)
      for (const headers of [
        { authorization: `Bearer ${Redacted.value(secret)}` },
        { authorization: `bearer ${Redacted.value(secret)}` },
        { "x-api-key": Redacted.value(secret) },
        { "api-key": Redacted.value(secret) }
      ])
        assert.strictEqual(check(headers)?.name, name)
  })

  it.each([
    "",
    "first-ke",
    "first-key ",
    "First-key",
    "first-keyfirst-key",
    "x".repeat(199),
    "x".repeat(201),
    "\u0000"
  ])("is not %j", (given) => {
    assert.isNull(check({ "x-api-key": given }))
    assert.isNull(check({ authorization: `Bearer ${given}` }))
    assert.isNull(check({ authorization: given }))
  })
})

describe("a gateway process", () => {
  it("writes no key, prompt or reply to its log, its metrics, its trails or its errors, whatever fails", async () => {
    const provider = await startProvider({ unit: 5 })
    open.push(() => provider.close())
    const folder = mkdtempSync(join(tmpdir(), "gateway-"))
    const file = join(folder, "gateway.json")
    const config = {
      listen: { port: 0 },
      keys: ["env:CALLER"],
      upstreams: { main: { baseUrl: provider.baseUrl, apiKey: "env:UPSTREAM" } },
      routes: { "*": { upstream: "main", policy: { deadline: "2 seconds", idleTimeout: "300 millis" } } },
      limits: { bodyBytes: 100_000 }
    }
    writeFileSync(file, JSON.stringify(config))
    const child = spawn(process.execPath, ["--no-warnings", "src/cli.ts", "gateway", "--config", file], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, CALLER: callerKey, UPSTREAM: upstreamKey }
    })
    const ended = new Promise<number | null>((resolve) => child.on("exit", resolve))
    open.push(async () => {
      child.kill("SIGKILL")
      await ended
      rmSync(folder, { recursive: true, force: true })
    })
    let log = ""
    const origin = await new Promise<string>((resolve) => {
      for (const stream of [child.stdout, child.stderr])
        stream.on("data", (chunk) => {
          log += String(chunk)
          const found = /listening on (\S+)/.exec(log)?.[1]
          if (found !== undefined) resolve(found)
        })
    })
    const authorization = `Bearer ${callerKey}`
    const told: Array<string> = []
    const post = async (path: string, body: string, headers: Record<string, string> = {}) => {
      const answer = await fetch(`${origin}${path}`, { method: "POST", body, headers: { authorization, ...headers } })
      const text = await answer.text().catch(String)
      // The answer itself is the caller's; what is refused says nothing of it.
      if (answer.status >= 400) told.push(text)
      told.push([...answer.headers].join("\n"))
      return answer.headers.get("x-holdfast-failure")
    }
    const names = ["ok", "s03", "s05", "s08", "s09", "s12", "s13", "nowhere"]
    const failures = await Promise.all(
      names.flatMap((model) =>
        wires.map((wire) =>
          post(
            pathOf[wire],
            JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "canary-prompt" }] })
          )
        )
      )
    )
    await post(pathOf.chat, '{"model":"ok","messages":"canary-prompt')
    await post(pathOf.chat, `{"model":"ok","messages":"${"canary-prompt".repeat(20_000)}"}`)
    await post(pathOf.chat, '{"model":"ok"}', { authorization: `Bearer ${callerKey}-wrong` })
    await post("/v1/files?canary-prompt", "canary-prompt")
    writeFileSync(file, JSON.stringify({ ...config, keys: [callerKey] }))
    child.kill("SIGHUP")
    while (!log.includes("was not taken")) await new Promise((resolve) => setTimeout(resolve, 20))
    const ids = failures.flatMap((id) => (id === null ? [] : [id]))
    for (const page of ["/metrics", "/dashboard", "/dashboard/data.json", ...ids.map((id) => `/trail/${id}`)])
      told.push(await (await fetch(`${origin}${page}`)).text())
    const whole = await ask({ baseUrl: `${origin}/v1`, wire: "chat", model: "ok", headers: { authorization } })
    assert.isTrue(whole.isWhole)
    assert.isAtLeast(ids.length, 3)
    child.kill("SIGTERM")
    assert.strictEqual(await ended, 0)
    assert.include(log, "must name a variable")
    for (const canary of [upstreamKey, callerKey, "canary-prompt", "word60"])
      for (const text of [log, ...told]) assert.notInclude(text, canary)
  }, 60_000)
})
