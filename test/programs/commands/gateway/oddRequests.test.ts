/** Requests that are odd without being wrong, and some that hide what they are: over bare sockets, as they are on the wire. */
import { assert, describe, it } from "@effect/vitest"
import { connect } from "node:net"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { gzipSync } from "node:zlib"
import { afterEach } from "vitest"
import { pathOf } from "../../../../bench/wall/answers.ts"
import { startProvider } from "../../../../bench/wall/provider.ts"
import { makeBudgets } from "../../../../src/programs/commands/gateway/budgets.ts"
import { makeParts, makeShared } from "../../../../src/programs/commands/gateway/gateway.ts"
import { resolveConfig } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"
import { startServer, type GatewayServer } from "../../../../src/programs/commands/gateway/server.ts"

const open: Array<() => Promise<void>> = []
afterEach(async () => {
  for (const close of open.splice(0)) await close()
})

const serveBefore = async (baseUrl: string, more: object = {}) => {
  const value = {
    listen: { port: 0 },
    upstreams: { main: { baseUrl } },
    routes: { "*": { upstream: "main", policy: { backoff: { base: 1, factor: 1, cap: 1, jitter: 0 } } } },
    ...more
  }
  const budgets = makeBudgets(() => Date.now())
  const config = resolveConfig("test", { value, placeOf: () => null }, { ONE: "one" })
  const faults: Array<unknown> = []
  const parts = makeParts(
    config,
    makeShared(budgets, () => 0)
  )
  const server = await startServer({ parts, budgets, onFault: (cause) => faults.push(cause) })
  open.push(() => server.drain(0))
  return { server, faults }
}

const start = async (more: object = {}) => {
  const provider = await startProvider({ unit: 5 })
  open.push(() => provider.close())
  return { provider, ...(await serveBefore(provider.baseUrl, more)) }
}

/** Each piece in a write of its own; everything that comes back until the other end closes. */
const raw = (server: GatewayServer, pieces: ReadonlyArray<string | Buffer>): Promise<string> =>
  new Promise((resolve) => {
    const socket = connect(Number(new URL(server.address).port), "127.0.0.1")
    let heard = ""
    socket.setNoDelay(true)
    socket.setTimeout(4_000, () => socket.destroy())
    socket.on("data", (chunk) => {
      heard += chunk.toString("utf8")
    })
    socket.on("error", () => undefined)
    socket.on("close", () => resolve(heard))
    void (async () => {
      for (const piece of pieces) {
        socket.write(piece)
        await new Promise((next) => setImmediate(next))
      }
    })()
  })

const body = JSON.stringify({ model: "ok", stream: true, messages: [{ role: "user", content: "go" }] })
const head = (more = "", path: string = pathOf.chat, method = "POST", version = "1.1"): string =>
  `${method} ${path} HTTP/${version}\r\nhost: a\r\n${more}`
const close = "connection: close\r\n"
const length = `content-length: ${body.length}\r\n`
const statusesIn = (heard: string): ReadonlyArray<number> =>
  [...heard.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status))

describe("a request that is odd but right", () => {
  it.each([
    {
      how: "in chunks of one byte",
      pieces: [
        `${head(close)}transfer-encoding: chunked\r\n\r\n`,
        ...[...body].map((one) => `1\r\n${one}\r\n`),
        "0\r\n\r\n"
      ]
    },
    { how: "in writes of one byte", pieces: [...`${head(close)}${length}\r\n${body}`] },
    {
      how: "in one chunk with extensions and a trailer",
      pieces: [
        `${head(close)}transfer-encoding: Chunked\r\ntrailer: x-a\r\n\r\n${body.length.toString(16)};a=b\r\n${body}\r\n0\r\nx-a: 1\r\n\r\n`
      ]
    },
    {
      how: "in the words of HTTP/1.0, without a host",
      pieces: [`POST ${pathOf.chat} HTTP/1.0\r\n${length}\r\n${body}`]
    },
    {
      how: "with a query of 8 kB",
      pieces: [`${head(close, `${pathOf.chat}?${"q=1&".repeat(2_000)}`)}${length}\r\n${body}`]
    },
    { how: "with a slash behind its path", pieces: [`${head(close, `${pathOf.chat}/`)}${length}\r\n${body}`] },
    {
      how: "behind a mark of its byte order",
      pieces: [`${head(close)}content-length: ${body.length + 3}\r\n\r\n\ufeff${body}`]
    },
    {
      how: "beside an upgrade that nobody needs",
      pieces: [`${head("connection: close, upgrade\r\nupgrade: h2c\r\n")}${length}\r\n${body}`]
    }
  ])("is answered whole: $how", async ({ pieces }) => {
    const { server, provider, faults } = await start()
    const heard = await raw(server, pieces)
    assert.deepStrictEqual(statusesIn(heard), [200])
    assert.include(heard, "word60.")
    assert.include(heard, "[DONE]")
    assert.strictEqual(provider.asked.length, 1)
    assert.deepStrictEqual(faults, [])
  })

  it("is answered in its turn when it comes in one write with others", async () => {
    const { server, provider } = await start()
    const refused = `${head("", "/v1/%2e/x")}content-length: 2\r\n\r\n{}`
    const heard = await raw(server, [
      `${head()}${length}\r\n${body}${refused}${head("", "/healthz", "GET")}\r\n${head(close)}${length}\r\n${body}`
    ])
    assert.deepStrictEqual(statusesIn(heard), [200, 400, 200, 200])
    assert.strictEqual(heard.split("word60.").length - 1, 2)
    assert.strictEqual(provider.asked.length, 2)
  })

  it("is told to send its body when it asks first, and not when that is too large", async () => {
    const { server } = await start({ limits: { bodyBytes: 1_000 } })
    const heard = await raw(server, [`${head(close)}expect: 100-continue\r\n${length}\r\n`, body])
    assert.deepStrictEqual(statusesIn(heard), [100, 200])
    const large = await raw(server, [`${head()}expect: 100-continue\r\ncontent-length: 1001\r\n\r\n`])
    assert.deepStrictEqual(statusesIn(large), [413])
    assert.include(large, "larger than 1000 bytes")
  })
})

describe("a request that is not served", () => {
  it.each([
    {
      how: "OPTIONS, as a browser asks for a page",
      head: head(
        `origin: https://a.example\r\naccess-control-request-method: POST\r\n${close}`,
        pathOf.chat,
        "OPTIONS"
      ),
      status: 405
    },
    { how: "TRACE", head: head(close, "/v1/files", "TRACE"), status: 405 },
    { how: "PROPFIND", head: head(close, "/v1/files", "PROPFIND"), status: 405 },
    { how: "CONNECT", head: "CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\n", status: 405 },
    {
      how: "a WebSocket",
      head: head("connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n", pathOf.responses, "GET"),
      status: 426
    },
    { how: "an expectation of its own", head: head(`expect: coffee\r\n${close}`), status: 417 },
    { how: "no host", head: `GET /healthz HTTP/1.1\r\n${close}`, status: 400 },
    { how: "a body that is packed", head: head(`transfer-encoding: gzip, chunked\r\n${close}`), status: 400 },
    { how: "a page of another site", head: head(`origin: https://a.example\r\n${close}`), status: 403 },
    { how: "a page without a name", head: head(`origin: null\r\n${close}`), status: 403 },
    { how: "HTTP/2 from the start", head: "PRI * HTTP/2.0\r\n\r\nSM\r\n", status: 400 },
    { how: "a query of 80 kB", head: head(close, `${pathOf.chat}?${"q".repeat(80_000)}`), status: 431 }
  ])("is told so in words: $how", async ({ head: text, status }) => {
    const { server, provider, faults } = await start()
    const heard = await raw(server, [`${text}\r\n`])
    assert.deepStrictEqual(statusesIn(heard), [status])
    assert.match(heard, /"message":"[A-Z][^"]+\."/)
    assert.notInclude(heard.toLowerCase(), "access-control-allow")
    assert.strictEqual(provider.asked.length, 0)
    assert.deepStrictEqual(faults, [])
    assert.strictEqual((await fetch(`${server.address}/healthz`)).status, 200)
  })

  it("is none of a page on this machine, nor of another site where callers have keys", async () => {
    const { server } = await start()
    for (const origin of ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:8080", "vscode-webview://a"])
      assert.deepStrictEqual(
        statusesIn(await raw(server, [`${head(`origin: ${origin}\r\n${close}`)}${length}\r\n${body}`])),
        [200]
      )
    const keyed = await start({ keys: ["env:ONE"] })
    const text = head(`origin: https://a.example\r\nauthorization: Bearer one\r\n${close}`)
    assert.deepStrictEqual(statusesIn(await raw(keyed.server, [`${text}${length}\r\n${body}`])), [200])
  })

  it("is a packed body, which is told how to come", async () => {
    const { server } = await start()
    const packed = gzipSync(body)
    const text = `${head(close)}content-encoding: gzip\r\ncontent-length: ${packed.length}\r\n\r\n`
    assert.deepStrictEqual(statusesIn(await raw(server, [text, packed])), [415])
  })

  it.each([
    "//v1/chat/completions",
    "/v1//chat/completions",
    "/v1/%63hat/completions",
    "/v1/chat/complet%69ons",
    "/v1/chat%2Fcompletions",
    "/v1/chat%5Ccompletions",
    "/v1/%2e%2e/v1/chat/completions",
    "/v1/x/../chat/completions",
    "/v1/./chat/completions",
    "/v1/chat/completions;a=b",
    "/v1/chat/completions%00",
    "/v1/chat/completions%3Fa=b",
    "/v1/files/%252e%252e/x",
    "/v1/%zz",
    "/v1/%e",
    "/v1/chat\\completions"
  ])("is %s, which could be another path to its provider", async (path) => {
    const { server, provider } = await start()
    const heard = await raw(server, [`${head(close, path)}${length}\r\n${body}`])
    assert.deepStrictEqual(statusesIn(heard), [400])
    assert.strictEqual(provider.asked.length, 0)
  })
})

describe("a client that does not read", () => {
  /** Says more than any buffer holds, for as long as somebody takes it; counts what it could send. */
  const startTalker = async () => {
    const sent: Array<number> = []
    const chunk = (text: string) =>
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta: { content: text }, finish_reason: null }] })}\n\n`
    const talker = createServer((request, response) => {
      request.resume()
      response.writeHead(200, { "content-type": "text/event-stream" })
      const index = sent.push(0) - 1
      const piece = chunk("x".repeat(4_000))
      const talk = (): void => {
        while (!response.destroyed && (sent[index] ?? 0) < 64 * 1024 * 1024) {
          sent[index] = (sent[index] ?? 0) + piece.length
          if (!response.write(piece)) return void response.once("drain", talk)
        }
      }
      talk()
    })
    await new Promise<void>((resolve) => talker.listen(0, "127.0.0.1", resolve))
    open.push(() => new Promise((resolve) => (talker.closeAllConnections(), talker.close(() => resolve()))))
    return { sent, baseUrl: `http://127.0.0.1:${(talker.address() as AddressInfo).port}/v1` }
  }

  const untilStill = async (sum: () => number): Promise<number> => {
    for (let before = -1; ;) {
      const now = sum()
      if (now === before && now > 0) return now
      before = now
      await new Promise((resolve) => setTimeout(resolve, 150))
    }
  }

  it("stops the reads of its provider, and keeps no more than the buffers of its connections", async () => {
    const { sent, baseUrl } = await startTalker()
    const { server } = await serveBefore(baseUrl)
    const sockets = Array.from({ length: 10 }, () => {
      const socket = connect(Number(new URL(server.address).port), "127.0.0.1")
      socket.pause()
      socket.on("error", () => undefined)
      socket.write(`${head()}${length}\r\n${body}`)
      return socket
    })
    try {
      const total = (): number => sent.reduce((sum, one) => sum + one, 0)
      // Both kernels' buffers of two connections hold some megabytes; what the gateway holds is bounded far below 64 MB.
      assert.isBelow(await untilStill(total), 10 * 16 * 1024 * 1024)
      assert.strictEqual(sent.length, 10)
      assert.isTrue(sent.every((one) => one < 64 * 1024 * 1024))
      assert.strictEqual((await fetch(`${server.address}/healthz`)).status, 200)
    } finally {
      for (const socket of sockets) socket.destroy()
    }
    for (let waited = 0; server.inFlight() > 0 && waited < 2_000; waited += 10)
      await new Promise((resolve) => setTimeout(resolve, 10))
    assert.strictEqual(server.inFlight(), 0)
  })
})
