import { assert, describe, it } from "@effect/vitest"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib"
import { recoveredFetch, type NativePolicyInput } from "../../../src/layers/native/recoveredFetch.ts"
import type { Begun, Outgoing, RawAnswer } from "../../../src/layers/provider/exchange.ts"
import { platformExchange } from "../../../src/layers/provider/platformExchange.ts"

const dispatcherKey = Symbol.for("undici.globalDispatcher.1")

type Handle = (request: IncomingMessage, response: ServerResponse) => void

const serving = async <A>(handle: Handle, use: (url: string, server: Server) => Promise<A>): Promise<A> => {
  const server = createServer(handle)
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  try {
    // The first call of a process is the fetch's own: it loads what the others go over.
    await fetch(`http://127.0.0.1:${port}/first`)
    return await use(`http://127.0.0.1:${port}/v1/chat/completions`, server)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

const asking = (url: string, init: RequestInit = {}): Outgoing => ({
  url,
  method: "POST",
  headers: { "content-type": "application/json" },
  body: "{}",
  init
})

const begin = (outgoing: Outgoing, send: typeof fetch = fetch) => {
  const exchange = platformExchange(() => send as never)
  let takeBack: () => Promise<unknown> = () => Promise.resolve()
  const begun = new Promise<Begun>((resolve) => {
    takeBack = exchange(outgoing, resolve)
  })
  return { begun, takeBack: () => takeBack() }
}

const answered = async (outgoing: Outgoing, send?: typeof fetch): Promise<RawAnswer> => {
  const begun = await begin(outgoing, send).begun
  if ("cause" in begun) throw begun.cause
  return begun.answer
}

const readAll = async ({ body }: RawAnswer): Promise<string> => {
  const read: Array<Uint8Array> = []
  for (;;) {
    const bytes = body?.take() ?? null
    if (bytes === null && body?.take() !== undefined) break
    if (bytes === null) await new Promise<void>((resolve) => body?.whenReady(resolve))
    else read.push(bytes)
  }
  return Buffer.concat(read).toString("utf8")
}

describe("an exchange over the platform's fetch", () => {
  it("sends what fetch sends and gives the answer's own lines", async () => {
    const sent: Array<IncomingMessage["headers"]> = []
    const handle: Handle = (request, response) => {
      if (request.url !== "/first") sent.push(request.headers)
      request.resume().on("end", () => {
        response.setHeader("x-twice", ["a", "b"])
        response.setHeader("set-cookie", ["c=1", "d=2"])
        response.setHeader("constructor", "named")
        response.end(JSON.stringify({ fine: "é" }))
      })
    }
    await serving(handle, async (url) => {
      const answer = await answered(asking(url))
      assert.strictEqual(answer.status, 200)
      assert.strictEqual(await readAll(answer), '{"fine":"é"}')
      const lines = answer.lines.filter(([name]) => ["x-twice", "set-cookie", "constructor"].includes(name))
      assert.sameDeepMembers(
        [...lines],
        [
          ["x-twice", "a, b"],
          ["set-cookie", "c=1"],
          ["set-cookie", "d=2"],
          ["constructor", "named"]
        ]
      )
      await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" })
    })
    const [ours, theirs] = sent
    const { "accept-encoding": _a, ...own } = ours ?? {}
    const { "accept-encoding": _b, ...plain } = theirs ?? {}
    assert.deepStrictEqual(own, plain)
  })

  it.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["x-gzip", gzipSync]
  ] as const)("unpacks %s", async (coding, pack) => {
    const handle: Handle = (request, response) => {
      request.resume()
      response.writeHead(200, { "content-encoding": coding })
      response.end(pack("the tide turns ".repeat(9_000)))
    }
    await serving(handle, async (url) => {
      assert.strictEqual(await readAll(await answered(asking(url))), "the tide turns ".repeat(9_000))
    })
  })

  it("leaves the coding in the lines of what it cannot unpack", async () => {
    const packed = brotliCompressSync("the tide")
    const handle: Handle = (request, response) => {
      request.resume()
      response.writeHead(200, { "content-encoding": "br" })
      response.end(packed)
    }
    await serving(handle, async (url) => {
      const answer = await answered(asking(url))
      assert.deepInclude([...answer.lines], ["content-encoding", "br"])
    })
  })

  it("gives up its connection when it is taken back, before the head and behind it", async () => {
    const closed: Array<Promise<void>> = []
    const handle: Handle = (request, response) => {
      if (request.url === "/first") return void response.end()
      request.resume()
      closed.push(new Promise((resolve) => response.on("close", () => resolve())))
      if (request.headers["x-head"] === "now") response.writeHead(200).write("half")
      else arrived()
    }
    let arrived: () => void = () => undefined
    await serving(handle, async (url) => {
      const isThere = new Promise<void>((resolve) => {
        arrived = resolve
      })
      const silent = begin(asking(url))
      await isThere
      await silent.takeBack()
      const outgoing = asking(url)
      const answer = await answered({ ...outgoing, headers: { ...outgoing.headers, "x-head": "now" } })
      await answer.body?.cancel()
      await Promise.all(closed)
      assert.lengthOf(closed, 2)
    })
  })

  it("lets a reader that is behind stop the sender", async () => {
    const size = 24 * 1024 * 1024
    let written = 0
    const handle: Handle = (request, response) => {
      request.resume()
      if (request.url === "/first") return void response.end()
      const piece = Buffer.alloc(256 * 1024, 97)
      const more = (): void => {
        while (written < size) {
          written += piece.length
          if (!response.write(piece)) return void response.once("drain", more)
        }
        response.end()
      }
      more()
    }
    await serving(handle, async (url) => {
      const answer = await answered(asking(url))
      await new Promise((resolve) => setTimeout(resolve, 300))
      assert.isBelow(written, size)
      assert.lengthOf(await readAll(answer), size)
    })
  })

  it("tells the code of a connection that was refused", async () => {
    const url = await serving(
      (_request, response) => void response.end(),
      (address) => Promise.resolve(address)
    )
    const begun = await begin(asking(url)).begun
    assert.strictEqual("cause" in begun ? Reflect.get(begun.cause as object, "code") : null, "ECONNREFUSED")
  })

  it("goes over the dispatcher that a program has set for its fetch", async () => {
    const before: unknown = Reflect.get(globalThis, dispatcherKey)
    const seen: Array<string> = []
    const legacy = {
      dispatch: (options: { readonly path: string }, handler: unknown) => {
        seen.push(options.path)
        return Reflect.apply(Reflect.get(before as object, "dispatch"), before, [options, handler])
      }
    }
    await serving(
      (request, response) => void (request.resume(), response.end("real")),
      async (url) => {
        Reflect.set(globalThis, dispatcherKey, legacy)
        try {
          assert.strictEqual(await readAll(await answered(asking(url))), "real")
        } finally {
          Reflect.set(globalThis, dispatcherKey, before)
        }
      }
    )
    assert.deepStrictEqual(seen, ["/v1/chat/completions"])
  })

  it("calls a fetch that stands in the place of Node's, and Node's own for options it does not know", async () => {
    const calls: Array<string> = []
    const own: typeof fetch = (input) => {
      calls.push(String(input))
      return Promise.resolve(new Response("own"))
    }
    assert.strictEqual(await readAll(await answered(asking("http://127.0.0.1:1/v1/chat/completions"), own)), "own")
    assert.lengthOf(calls, 1)
    await serving(
      (request, response) => void (request.resume(), response.end("real")),
      async (url) => {
        assert.strictEqual(await readAll(await answered(asking(url, { redirect: "error" }))), "real")
      }
    )
  })

  it("is what a recovered fetch without a fetch of its own sends with, whatever stands there when a call is made", async () => {
    const real = globalThis.fetch
    const policy: NativePolicyInput = {}
    const recovered = recoveredFetch(policy)
    const reply = { choices: [{ message: { role: "assistant", content: "Yes." }, finish_reason: "stop" }] }
    globalThis.fetch = () => Promise.resolve(Response.json(reply))
    try {
      const response = await recovered("https://api.example.com/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Well?" }] })
      })
      assert.deepStrictEqual(await response.json(), reply)
    } finally {
      globalThis.fetch = real
    }
  })
})
