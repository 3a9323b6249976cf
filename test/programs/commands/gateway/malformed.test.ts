/** Requests that are wrong in one of many ways, over bare sockets: a clear answer each, and the server goes on. */
import { assert, describe, it } from "@effect/vitest"
import { connect } from "node:net"
import { makeBudgets } from "../../../../src/programs/commands/gateway/budgets.ts"
import { makeParts, makeShared } from "../../../../src/programs/commands/gateway/gateway.ts"
import { resolveConfig } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"
import { startServer } from "../../../../src/programs/commands/gateway/server.ts"
import { runs } from "../../../support/runs.ts"

/** Chance that can be had again. */
const chance = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const paths = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]

const withBody = (path: string, body: Buffer, more = ""): Buffer =>
  Buffer.concat([
    Buffer.from(
      `POST ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${more}content-length: ${body.length}\r\n\r\n`
    ),
    body
  ])

/** One kind of wrong each; `next` picks what of it. */
const kinds: ReadonlyArray<(next: (below: number) => number, path: string) => Buffer> = [
  // JSON that breaks off.
  (next, path) => withBody(path, Buffer.from('{"model":"m","messages":[{"role":"user"}]}'.slice(0, 1 + next(40)))),
  // Wrong types where the model stands.
  (next, path) => withBody(path, Buffer.from(`{"model":${["7", "null", "[]", "{}", "true", '""'][next(6)] ?? "7"}}`)),
  // No object at all.
  (next, path) => withBody(path, Buffer.from(["[]", "1", '"m"', "null", "", " "][next(6)] ?? "")),
  // Bytes that are no text.
  (next, path) => withBody(path, Buffer.from([0x7b, 0x22, 0x80 + next(0x40), 0x22, 0x7d])),
  // Deep nesting that does not close.
  (next, path) => withBody(path, Buffer.from("[".repeat(1 + next(50_000)))),
  // Two lengths, or a length beside chunks.
  (next, path) =>
    Buffer.from(
      `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n${next(2) === 0 ? "content-length: 5" : "transfer-encoding: chunked"}\r\n\r\n0\r\n\r\n`
    ),
  // Headers too long.
  (next, path) => Buffer.from(`POST ${path} HTTP/1.1\r\nhost: a\r\nx: ${"y".repeat(66_000 + next(9_000))}\r\n\r\n`),
  // Paths that mean others.
  (next) =>
    withBody(
      ["/v1/../v1/files", "/v1/%2e%2e/x", "/v1//files", "/v1/a%2fb", "/v1/a\\b", "/v1/a;b", "/v1/./x"][next(7)] ?? "",
      Buffer.from("{}")
    ),
  // Encodings that are not taken.
  (next, path) => withBody(path, Buffer.from("{}"), `content-encoding: ${["gzip", "br", "zstd"][next(3)] ?? ""}\r\n`),
  // No HTTP.
  (next) => Buffer.from(`${["HELO", "\u0016\u0003\u0001", "GET", "{}"][next(4)] ?? ""} ${next(1_000)}\r\n\r\n`),
  // Chunks of no size.
  (next, path) =>
    Buffer.from(
      `POST ${path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n${["zz", "-1", "0x5"][next(3)] ?? ""}\r\n{}\r\n`
    ),
  // Identifiers and offsets of no kind.
  (next, path) =>
    withBody(
      path,
      Buffer.from('{"model":"m"}'),
      [
        "x-holdfast-run-id: a b\r\n",
        `x-holdfast-run-id: ${"r".repeat(200)}\r\n`,
        "x-holdfast-run-id: a\r\nx-holdfast-offset: -1\r\n"
      ][next(3)]
    )
]

const send = (port: number, bytes: Buffer): Promise<string> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1")
    let heard = ""
    const end = (): void => {
      socket.destroy()
      resolve(heard)
    }
    socket.on("data", (chunk) => {
      heard += chunk.toString("latin1")
      // A whole answer with its own length is enough; some connections stay open.
      if (/^HTTP\/1\.1 \d+[^]*\r\n\r\n[^]*\}/.test(heard)) end()
    })
    socket.on("error", end)
    socket.on("close", end)
    socket.setTimeout(5_000, end)
    socket.write(bytes)
  })

const start = async (times?: { readonly headers: number; readonly whole: number }) => {
  const value = {
    listen: { port: 0 },
    upstreams: { main: { baseUrl: "http://127.0.0.1:9/v1" } },
    routes: { "*": { upstream: "main" } }
  }
  const config = resolveConfig("test", { value, placeOf: () => null }, {})
  const budgets = makeBudgets(() => Date.now())
  const faults: Array<unknown> = []
  const parts = makeParts(
    config,
    makeShared(budgets, () => 0)
  )
  const onFault = (cause: unknown): void => void faults.push(cause)
  const server = await startServer({ parts, budgets, onFault, ...(times === undefined ? {} : { times }) })
  return { server, faults, port: Number(new URL(server.address).port) }
}

describe("requests that are wrong", () => {
  it.each([
    { what: "headers that never end", text: "POST /v1/responses HTTP/1.1\r\nhost: a\r\n" },
    { what: "no word at all after the connection", text: "P" },
    {
      what: "a body that stands still",
      text: 'POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 90\r\n\r\n{"mo'
    },
    {
      what: "a chunk that stands still",
      text: "POST /v1/responses HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{"
    }
  ])("are told that their time is over: $what", async ({ text }) => {
    const { server, faults, port } = await start({ headers: 150, whole: 300 })
    try {
      const heard = await send(port, Buffer.from(text))
      assert.match(heard, /^HTTP\/1\.1 408 /)
      assert.include(heard, "did not come in time")
      while (server.inFlight() > 0) await new Promise((resolve) => setTimeout(resolve, 5))
      assert.strictEqual((await fetch(`${server.address}/healthz`)).status, 200)
      assert.deepStrictEqual(faults, [])
    } finally {
      await server.drain(0)
    }
  })

  it("get a 4xx in words each, ask no provider, and leave the server up", async () => {
    const { server, faults, port } = await start()
    try {
      for (let seed = 0; seed < runs(1_000); seed += 1) {
        const next = chance(seed + 1)
        const kind = seed % kinds.length
        const heard = await send(port, kinds[kind]!(next, paths[next(3)] ?? ""))
        assert.match(heard, /^HTTP\/1\.1 4\d\d /, `kind ${kind}, seed ${seed}`)
        assert.match(heard, /"message":"[A-Z][^"]+"/, `kind ${kind}, seed ${seed}`)
      }
      assert.strictEqual((await fetch(`${server.address}/healthz`)).status, 200)
      assert.deepStrictEqual(faults, [])
    } finally {
      await server.drain(0)
    }
  })
})
