/** The other paths of the API through the gateway: each reaches the upstream it belongs to. */
import { assert, describe, it } from "@effect/vitest"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { afterEach } from "vitest"
import { makeBudgets } from "../../../../src/programs/commands/gateway/budgets.ts"
import { makeParts, makeShared } from "../../../../src/programs/commands/gateway/gateway.ts"
import { resolveConfig } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"
import { startServer } from "../../../../src/programs/commands/gateway/server.ts"

const open: Array<() => Promise<void>> = []
afterEach(async () => {
  for (const close of open.splice(0)) await close()
})

/** A provider that keeps the responses it made and answers everything else with what it was asked. */
const startUpstream = async (name: string) => {
  const asked: Array<{ readonly line: string; readonly body: string; readonly key: string }> = []
  const kept = new Set<string>()
  const responseOf = (id: string) => ({
    id,
    object: "response",
    created_at: 1,
    status: "completed",
    model: "m",
    output: [
      {
        id: "msg_1",
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: `of ${name}`, annotations: [] }]
      }
    ],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  })
  const server = createServer((request, response) => {
    const url = request.url ?? ""
    let body = ""
    request.on("data", (chunk) => {
      body += String(chunk)
    })
    request.on("end", () => {
      asked.push({ line: `${request.method} ${url}`, body, key: String(request.headers.authorization) })
      const json = (status: number, value: unknown) => {
        response.writeHead(status, { "content-type": "application/json" })
        response.end(JSON.stringify(value))
      }
      const found = /^\/v1\/responses\/([^/?]+)/.exec(url)?.[1]
      if (request.method === "POST" && url === "/v1/responses") {
        if (body.includes('"down"')) return json(503, { error: { message: "Down.", type: "server_error" } })
        const id = `resp_${name}_${kept.size}`
        kept.add(id)
        if (!body.includes('"stream":true')) return json(200, responseOf(id))
        response.writeHead(200, { "content-type": "text/event-stream" })
        const created = {
          type: "response.created",
          sequence_number: 0,
          response: { ...responseOf(id), status: "in_progress" }
        }
        const text = {
          type: "response.output_text.delta",
          sequence_number: 1,
          item_id: "msg_1",
          output_index: 0,
          content_index: 0,
          delta: `of ${name}`
        }
        const completed = { type: "response.completed", sequence_number: 2, response: responseOf(id) }
        for (const event of [created, text, completed])
          response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
        return response.end()
      }
      if (found !== undefined && !kept.has(found))
        return json(404, { error: { message: `${name} has no ${found}.`, type: "invalid_request_error" } })
      if (url.includes("starting_after=1")) {
        response.writeHead(200, { "content-type": "text/event-stream" })
        return response.end(`data: ${JSON.stringify({ type: "response.completed", sequence_number: 2 })}\n\n`)
      }
      json(200, found === undefined ? { from: name, input_tokens: 7 } : { ...responseOf(found), asked: request.method })
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  open.push(() => new Promise((resolve) => (server.closeAllConnections(), server.close(() => resolve()))))
  return { asked, baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` }
}

const environment = { LEFT: "key-left", RIGHT: "key-right", ONE: "caller-one", TWO: "caller-two" }

const start = async () => {
  const left = await startUpstream("left")
  const right = await startUpstream("right")
  const valueWith = (more: object) => ({
    listen: { port: 0 },
    keys: ["env:ONE", "env:TWO"],
    upstreams: {
      left: { baseUrl: left.baseUrl, apiKey: "env:LEFT" },
      right: { baseUrl: right.baseUrl, apiKey: "env:RIGHT" }
    },
    routes: {
      large: { upstream: "right", model: "large-2026" },
      falling: {
        upstream: "left",
        model: "down",
        fallbacks: [{ upstream: "right", model: "up" }],
        policy: { backoff: { base: 1, factor: 1, cap: 1, jitter: 0 } }
      },
      "*": { upstream: "left" }
    },
    ...more
  })
  const configOf = (more: object = {}) =>
    resolveConfig("test", { value: valueWith(more), placeOf: () => null }, environment)
  const budgets = makeBudgets(() => Date.now())
  const shared = makeShared(budgets, () => 0)
  const server = await startServer({ parts: makeParts(configOf(), shared), budgets, onFault: () => undefined })
  open.push(() => server.drain(0))
  const call = (method: string, path: string, body: unknown = null, key = "caller-one") =>
    fetch(`${server.address}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(body === null ? {} : { body: JSON.stringify(body) })
    })
  return { left, right, call, reload: () => server.use(makeParts(configOf({ limits: { concurrent: 500 } }), shared)) }
}

interface Made {
  readonly id: string
}

describe("a stored response", () => {
  it.each([
    { how: "a route's own upstream", model: "large", stream: false },
    { how: "a stream of a route's own upstream", model: "large", stream: true },
    { how: "the upstream that took over", model: "falling", stream: false },
    { how: "a stream of the upstream that took over", model: "falling", stream: true }
  ])("is fetched, cancelled and read on at $how, also after a reload", async ({ model, stream }) => {
    const { left, right, call, reload } = await start()
    const made = await (await call("POST", "/v1/responses", { model, input: "go", store: true, stream })).text()
    const id = stream ? (/"id":"(resp_[^"]+)"/.exec(made)?.[1] ?? "") : (JSON.parse(made) as Made).id
    assert.match(id, /^resp_right_/)
    for (const step of ["before", "after"]) {
      if (step === "after") reload()
      assert.strictEqual(((await (await call("GET", `/v1/responses/${id}`)).json()) as Made).id, id)
      assert.strictEqual((await call("POST", `/v1/responses/${id}/cancel`, {})).status, 200)
      const rest = await (await call("GET", `/v1/responses/${id}?stream=true&starting_after=1`)).text()
      assert.include(rest, '"sequence_number":2')
    }
    const lines = right.asked.map(({ line }) => line).slice(-3)
    assert.deepStrictEqual(lines, [
      `GET /v1/responses/${id}`,
      `POST /v1/responses/${id}/cancel`,
      `GET /v1/responses/${id}?stream=true&starting_after=1`
    ])
    assert.isTrue(right.asked.every(({ key }) => key === "Bearer key-right"))
    assert.isFalse(left.asked.some(({ line }) => line.includes(id)))
  })

  it("is none of another key's", async () => {
    const { right, call } = await start()
    const { id } = (await (await call("POST", "/v1/responses", { model: "large", input: "go" })).json()) as Made
    const before = right.asked.length
    assert.strictEqual((await call("GET", `/v1/responses/${id}`, null, "caller-two")).status, 404)
    assert.strictEqual(right.asked.length, before)
  })

  it("is asked for where requests go that no route names, when nobody knows it, and keeps its 404", async () => {
    const { left, right, call } = await start()
    const answer = await call("GET", "/v1/responses/resp_unknown")
    assert.deepStrictEqual(
      [answer.status, await answer.text()],
      [404, JSON.stringify({ error: { message: "left has no resp_unknown.", type: "invalid_request_error" } })]
    )
    assert.deepStrictEqual([left.asked.length, right.asked.length], [1, 0])
  })
})

describe("another path of the API", () => {
  it("goes to the upstream of the model it names, in that upstream's own name for it", async () => {
    const { left, right, call } = await start()
    await (await call("POST", "/v1/messages/count_tokens", { model: "large", messages: [], big: 1 })).text()
    await (await call("POST", "/v1/embeddings", { model: "other", input: "x" })).text()
    assert.deepStrictEqual(
      right.asked.map(({ line, body }) => [line, body]),
      [["POST /v1/messages/count_tokens", '{"model":"large-2026","messages":[],"big":1}']]
    )
    assert.deepStrictEqual(
      left.asked.map(({ line, body }) => [line, body]),
      [["POST /v1/embeddings", '{"model":"other","input":"x"}']]
    )
  })

  it("keeps its query, its method and what it answers", async () => {
    const { left, call } = await start()
    const answer = await call("DELETE", "/v1/files/file_1?purge=yes")
    assert.deepStrictEqual(await answer.json(), { from: "left", input_tokens: 7 })
    assert.deepStrictEqual(left.asked[0]?.line, "DELETE /v1/files/file_1?purge=yes")
  })
})

describe("the list of models", () => {
  const openWith = async (routes: object) => {
    const left = await startUpstream("left")
    const right = await startUpstream("right")
    const value = {
      listen: { port: 0 },
      upstreams: {
        left: { baseUrl: left.baseUrl, apiKey: "env:LEFT" },
        // As Anthropic's address is written.
        right: { baseUrl: right.baseUrl.replace("/v1", ""), apiKey: "env:RIGHT" }
      },
      routes
    }
    const config = resolveConfig("test", { value, placeOf: () => null }, environment)
    const budgets = makeBudgets(() => Date.now())
    const parts = makeParts(
      config,
      makeShared(budgets, () => 0)
    )
    const server = await startServer({ parts, budgets, onFault: () => undefined })
    open.push(() => server.drain(0))
    const list = async (path = "/v1/models", headers: Record<string, string> = {}) =>
      (await (await fetch(`${server.address}${path}`, { headers })).json()) as Record<string, unknown>
    return { left, right, list }
  }
  const both = {
    "* chat": { upstream: "left" },
    "* responses": { upstream: "left" },
    "* messages": { upstream: "right" }
  }

  it("is the upstream's own where no route has a name, of the API whose client asks", async () => {
    const { left, right, list } = await openWith(both)
    assert.strictEqual((await list())["from"], "left")
    assert.strictEqual((await list("/v1/models?limit=5", { "anthropic-version": "2023-06-01" }))["from"], "right")
    assert.deepStrictEqual(
      [left.asked, right.asked].map((all) => all.map(({ line, key }) => [line, key])),
      [[["GET /v1/models", "Bearer key-left"]], [["GET /v1/models?limit=5", "undefined"]]]
    )
  })

  it("is asked of the only upstream as its own clients ask it, whoever asks", async () => {
    const { right, list } = await openWith({ "* messages": { upstream: "right" } })
    assert.strictEqual((await list())["from"], "right")
    assert.deepStrictEqual(
      right.asked.map(({ line }) => line),
      ["GET /v1/models"]
    )
    const other = await openWith({ "* chat": { upstream: "left" } })
    assert.strictEqual((await other.list("/v1/models", { "anthropic-version": "2023-06-01" }))["from"], "left")
    assert.strictEqual(other.left.asked[0]?.key, "Bearer key-left")
  })

  it("is the names of the routes where they have names, and no upstream is asked", async () => {
    const { left, right, list } = await openWith({ large: { upstream: "left" }, "*": { upstream: "right" } })
    const { data } = (await list()) as { readonly data: ReadonlyArray<{ readonly id: string }> }
    assert.deepStrictEqual(
      data.map(({ id }) => id),
      ["large"]
    )
    assert.strictEqual(left.asked.length + right.asked.length, 0)
  })
})
