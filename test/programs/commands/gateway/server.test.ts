import { assert, describe, it } from "@effect/vitest"
import { once } from "node:events"
import { connect } from "node:net"
import { afterEach } from "vitest"
import { pathOf, wholeText, type WireName } from "../../../../bench/wall/answers.ts"
import { ask, bodyOf as wallBody } from "../../../../bench/wall/client.ts"
import { startProvider, type Provider } from "../../../../bench/wall/provider.ts"
import { makeBudgets } from "../../../../src/programs/commands/gateway/budgets.ts"
import { makeParts, makeShared, type Shared } from "../../../../src/programs/commands/gateway/gateway.ts"
import { resolveConfig } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"
import { startServer, type GatewayServer } from "../../../../src/programs/commands/gateway/server.ts"

const secret = "sk-upstream-canary"
const callerKey = "gw-caller-canary"
const environment = { UPSTREAM: secret, CALLER: callerKey, OTHER: "gw-other" }
const wires: ReadonlyArray<WireName> = ["chat", "responses", "messages"]

interface Started {
  readonly provider: Provider
  readonly server: GatewayServer
  readonly shared: Shared
  readonly faults: ReadonlyArray<unknown>
}

const running: Array<Started> = []

/** A gateway over loopback sockets before the provider of the wall. One second of the provider is 20 ms. */
const start = async (config: object = {}, options: { readonly keepAliveMillis?: number } = {}): Promise<Started> => {
  const provider = await startProvider({ unit: 20 })
  const value = {
    listen: { port: 0 },
    upstreams: { main: { baseUrl: provider.baseUrl, apiKey: "env:UPSTREAM" } },
    routes: { "*": { upstream: "main", policy: { backoff: { base: 5, factor: 2, cap: 50, jitter: 0 } } } },
    ...config
  }
  const resolved = resolveConfig("test", { value, placeOf: () => null }, environment)
  const faults: Array<unknown> = []
  const budgets = makeBudgets(() => Date.now())
  let server: GatewayServer | null = null
  const shared = makeShared(budgets, () => server?.inFlight() ?? 0, options)
  server = await startServer({ parts: makeParts(resolved, shared), budgets, onFault: (cause) => faults.push(cause) })
  const started: Started = { provider, server, shared, faults }
  running.push(started)
  return started
}

afterEach(async () => {
  for (const { provider, server } of running.splice(0)) {
    await server.drain(0)
    await provider.close()
  }
})

const post = (
  server: GatewayServer,
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {}
) =>
  fetch(`${server.address}${path}`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", ...headers }
  })

const chatBody = (model: string, more: object = {}): string =>
  JSON.stringify({ model, messages: [{ role: "user", content: "canary-prompt" }], ...more })

/** Bytes over a bare socket; everything that comes back until it is closed. */
const raw = async (server: GatewayServer, text: string): Promise<string> => {
  const { hostname, port } = new URL(server.address)
  const socket = connect(Number(port), hostname)
  let heard = ""
  socket.on("data", (chunk) => {
    heard += chunk.toString("latin1")
  })
  socket.on("error", () => undefined)
  socket.write(text)
  await Promise.race([once(socket, "close"), new Promise((resolve) => setTimeout(resolve, 3_000))])
  socket.destroy()
  return heard
}

describe("the gateway", () => {
  it.each(wires)("gives a healthy %s stream on and recovers a failing one", async (wire) => {
    const { server, provider } = await start()
    for (const model of ["ok", "s03", "s05", "s08"]) {
      const heard = await ask({
        baseUrl: `${server.address}/v1`,
        wire,
        model,
        headers: { "x-holdfast-fallback": "fb-ok" }
      })
      assert.deepStrictEqual([heard.text, heard.isWhole, heard.error], [wholeText, true, null], model)
    }
    assert.isAbove(provider.asked.length, 4)
  })

  it("keeps the status and the words of a failure, and tells the client not to try again", async () => {
    const { server, provider } = await start()
    const answer = await post(server, pathOf.chat, chatBody("s13"))
    assert.deepStrictEqual([answer.status, answer.headers.get("x-should-retry")], [400, "false"])
    assert.include(await answer.text(), "content_policy_violation")
    assert.strictEqual(provider.asked.length, 1)
  })

  it("asks for a key, of whichever header the client sends it in, and says nothing without one", async () => {
    const { server, provider } = await start({ keys: ["env:CALLER", "env:OTHER"] })
    const withHeaders = (headers: Record<string, string>) =>
      post(server, pathOf.chat, chatBody("ok", { stream: true }), headers)
    for (const headers of [{}, { authorization: "Bearer wrong" }, { "x-api-key": "" }, { authorization: callerKey }])
      assert.strictEqual((await withHeaders(headers as Record<string, string>)).status, 401)
    assert.strictEqual(provider.asked.length, 0)
    for (const headers of [
      { authorization: `Bearer ${callerKey}` },
      { "x-api-key": "gw-other" },
      { "api-key": callerKey }
    ])
      assert.strictEqual((await withHeaders(headers as Record<string, string>)).status, 200)
  })

  it.each([
    { path: pathOf.chat, body: "{", status: 400, says: "not a JSON object" },
    { path: pathOf.chat, body: "[1]", status: 400, says: "not a JSON object" },
    { path: pathOf.messages, body: new Uint8Array([0x7b, 0xff, 0x7d]), status: 400, says: "not UTF-8" },
    { path: pathOf.responses, body: "{}", status: 400, says: "model is missing" },
    { path: pathOf.chat, body: JSON.stringify({ model: 7 }), status: 400, says: "model is missing" },
    { path: "/v1/chat/../chat/completions", body: "{}", status: 400, says: "model is missing" },
    { path: "/v1//chat/completions", body: "{}", status: 400, says: "another one" },
    { path: "/nowhere", body: "{}", status: 404, says: "nothing at POST" }
  ])("answers $body at $path with $status", async ({ path, body, status, says }) => {
    const { server, provider } = await start()
    const answer = await post(server, path, body as string)
    assert.strictEqual(answer.status, status)
    assert.include(await answer.text(), says)
    assert.strictEqual(provider.asked.length, 0)
  })

  it("refuses a body that is too large, told or chunked, and goes on", async () => {
    const { server } = await start({ limits: { bodyBytes: 1_000 } })
    assert.strictEqual((await post(server, pathOf.chat, "x".repeat(2_000))).status, 413)
    const chunked = "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n7d0\r\n"
    assert.match(await raw(server, `${chunked}${"x".repeat(2_000)}\r\n`), /^HTTP\/1\.1 413/)
    assert.strictEqual((await fetch(`${server.address}/healthz`)).status, 200)
  })

  it.each([
    { text: "NONSENSE\r\n\r\n", status: 400 },
    { text: "GET http://elsewhere/v1/models HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", status: 400 },
    { text: `GET /healthz HTTP/1.1\r\nhost: a\r\nx: ${"y".repeat(70_000)}\r\n\r\n`, status: 431 },
    {
      text: "POST /v1/responses HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
      status: 400
    },
    {
      text: "POST /v1/responses HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcd",
      status: 400
    },
    { text: "POST /v1/%2e%2e/secret HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", status: 400 },
    { text: "GET /healthz HTTP/1.1\r\nhost: a\r\n x: folded\r\n\r\n", status: 400 }
  ])("answers $text with $status and stays up", async ({ text, status }) => {
    const { server } = await start()
    assert.match(await raw(server, text), new RegExp(`^HTTP/1\\.1 ${status}`))
    assert.strictEqual((await fetch(`${server.address}/healthz`)).status, 200)
  })

  it("reserves before and settles after: an exhausted budget is a 429 that names its window", async () => {
    const { server, provider } = await start({
      keys: ["env:CALLER"],
      budgets: { "env:CALLER": { requestsPerMinute: 3 } }
    })
    const call = () =>
      post(server, pathOf.chat, chatBody("ok", { stream: true }), { authorization: `Bearer ${callerKey}` })
    const statuses = await Promise.all([call(), call(), call(), call(), call()])
    assert.deepStrictEqual(statuses.map(({ status }) => status).sort(), [200, 200, 200, 429, 429])
    const refused = statuses.find(({ status }) => status === 429)
    assert.isAtLeast(Number(refused?.headers.get("retry-after")), 1)
    assert.isAtMost(Number(refused?.headers.get("retry-after")), 60)
    await Promise.all(statuses.map((answer) => answer.text()))
    assert.strictEqual(provider.asked.length, 3)
  })

  it("tells those it has no room for to come back, and serves them then", async () => {
    const { server } = await start({ limits: { concurrent: 2 } })
    const call = () => post(server, pathOf.chat, chatBody("ok", { stream: true }))
    const answers = await Promise.all(Array.from({ length: 6 }, call))
    const busy = answers.filter(({ status }) => status === 503)
    assert.isAbove(busy.length, 0)
    for (const answer of busy) assert.strictEqual(answer.headers.get("retry-after"), "1")
    await Promise.all(answers.map((answer) => answer.text()))
    const late = await call()
    assert.strictEqual(late.status, 200)
    await late.text()
  })

  it("ends the request at the provider when the client goes away", async () => {
    const { server, provider, faults } = await start()
    const controller = new AbortController()
    const answer = await fetch(`${server.address}${pathOf.chat}`, {
      method: "POST",
      body: chatBody("s09", { stream: true }),
      signal: controller.signal
    })
    await answer.body?.getReader().read()
    assert.isAbove(provider.openSockets(), 0)
    controller.abort()
    const began = performance.now()
    while (server.inFlight() > 0 && performance.now() - began < 2_000)
      await new Promise((resolve) => setTimeout(resolve, 5))
    assert.strictEqual(server.inFlight(), 0)
    assert.deepStrictEqual(faults, [])
  })

  it("shows a waiting client that its stream lives", async () => {
    const { server } = await start({}, { keepAliveMillis: 60 })
    const answer = await post(server, pathOf.chat, chatBody("s07", { stream: true }))
    const text = await answer.text()
    assert.match(text, /^:/)
    assert.include(text, "word60.")
  })

  /** Recovery that gives up after five waits, 1.5 seconds in all. */
  const tires = {
    maxAttempts: 6,
    routeHealth: null,
    backoff: { base: 300, factor: 1, cap: 300, jitter: 0 }
  }

  it.each(wires)(
    "tells a failure again to who repeats the request at once, also one that was told in a stream, on %s",
    async (wire) => {
      const { server, provider } = await start(
        { routes: { "*": { upstream: "main", policy: tires } } },
        { keepAliveMillis: 60 }
      )
      const once = () => ask({ baseUrl: `${server.address}/v1`, wire, model: "s04" })
      const first = await once()
      assert.deepStrictEqual([first.status, first.isWhole], [200, false])
      assert.notStrictEqual(first.error, null)
      const asked = provider.asked.length
      assert.isAbove(asked, 1)
      const again = await post(
        server,
        pathOf[wire],
        // Agents write what changes from one repetition to the next beside the conversation.
        JSON.stringify({ ...wallBody(wire, "s04"), metadata: { turn: "2" } })
      )
      assert.strictEqual(again.status, 503)
      assert.deepStrictEqual(
        ["x-should-retry", "x-holdfast-repeated"].map((name) => again.headers.get(name)),
        ["false", "true"]
      )
      await again.text()
      assert.strictEqual(provider.asked.length, asked)
      assert.strictEqual((await ask({ baseUrl: `${server.address}/v1`, wire, model: "ok" })).text, wholeText)
    }
  )

  it.each([
    ["ok", true],
    ["ok", false],
    ["s03", true],
    ["s13", true]
  ] as const)("names the request in every answer, so that its trail is found: %s, stream %s", async (model, stream) => {
    const { server } = await start()
    const answer = await post(server, pathOf.chat, chatBody(model, { stream }))
    await answer.text()
    const id = answer.headers.get("x-holdfast-request-id") ?? ""
    const trail = await fetch(`${server.address}/trail/${id}`)
    assert.strictEqual(trail.status, 200)
    assert.deepInclude(await trail.json(), { id, ok: answer.ok })
  })

  it("asks again for who repeats a request that failed without a recovery", async () => {
    const { server, provider } = await start({ routes: { "*": { upstream: "main", preset: "strict" } } })
    // Its provider answers after 2.4 seconds by cutting the connection: strict sends no second request.
    for (const requests of [1, 2]) {
      const answer = await post(server, pathOf.chat, chatBody("s06"))
      assert.isAtLeast(answer.status, 500)
      await answer.text()
      assert.strictEqual(provider.asked.length, requests)
    }
  })

  it("takes a new configuration between requests and loses none", async () => {
    const { server, shared, provider } = await start()
    let isOver = false
    const outcomes: Array<string> = []
    const caller = async (): Promise<void> => {
      while (!isOver) {
        const heard = await ask({ baseUrl: `${server.address}/v1`, wire: "chat", model: "ok" })
        outcomes.push(heard.isWhole && heard.text === wholeText ? "whole" : (heard.error ?? "cut"))
      }
    }
    const callers = [caller(), caller(), caller()]
    for (let reload = 0; reload < 100; reload += 1) {
      const value = {
        upstreams: { main: { baseUrl: provider.baseUrl } },
        routes: { "*": { upstream: "main", stream: reload % 2 === 0 ? "live" : "verified" } }
      }
      server.use(makeParts(resolveConfig("test", { value, placeOf: () => null }, {}), shared))
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    isOver = true
    await Promise.all(callers)
    assert.isAbove(outcomes.length, 3)
    assert.deepStrictEqual(new Set(outcomes), new Set(["whole"]))
  })

  it("lets requests under way end while it stops, and takes no new one", async () => {
    const { server } = await start()
    const under = ask({ baseUrl: `${server.address}/v1`, wire: "chat", model: "ok" })
    while (server.inFlight() === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    const drained = server.drain(10_000)
    assert.strictEqual((await under).text, wholeText)
    await drained
    assert.isNull((await ask({ baseUrl: `${server.address}/v1`, wire: "chat", model: "ok" })).status)
  })

  it("has no key, prompt or reply in metrics, trails, the page or its data", async () => {
    const { server, shared } = await start({
      keys: ["env:CALLER"],
      routes: { "*": { upstream: "main", prices: { inputPerM: 1, outputPerM: 1 } } },
      budgets: { "env:CALLER": { usdPerDay: 5 } }
    })
    const headers = { authorization: `Bearer ${callerKey}` }
    for (const model of ["ok", "s03", "s13"])
      await (await post(server, pathOf.chat, chatBody(model, { stream: true }), headers)).text()
    const [latest] = shared.activity.latest(1)
    const pages = ["/metrics", "/dashboard", "/dashboard/data.json", `/trail/${latest?.id ?? ""}`]
    for (const page of pages) {
      const answer = await fetch(`${server.address}${page}`)
      const text = await answer.text()
      assert.strictEqual(answer.status, 200, page)
      for (const canary of [secret, callerKey, "canary-prompt", "word60"]) assert.notInclude(text, canary, page)
    }
    const metrics = await (await fetch(`${server.address}/metrics`)).text()
    assert.match(metrics, /holdfast_attempts\{[^}]*outcome="completed"[^}]*\} \d/)
    assert.match(metrics, /holdfast_recoveries\{[^}]*action="retry"[^}]*\} 1/)
    assert.match(metrics, /gen_ai_client_token_usage\{gen_ai_request_model="ok",gen_ai_token_type="output"\} 60/)
  })

  it("passes on the other paths of the API, and lists the routes as models", async () => {
    const { server } = await start({ routes: { large: { upstream: "main" }, "*": { upstream: "main" } } })
    const models = await (await fetch(`${server.address}/v1/models`)).json()
    assert.deepStrictEqual(
      (models as { data: ReadonlyArray<{ id: string }> }).data.map(({ id }) => id),
      ["large"]
    )
    assert.strictEqual((await fetch(`${server.address}/v1/files`)).status, 404)
  })
})
