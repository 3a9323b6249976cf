/** Clients that are killed at any byte, over real sockets: each comes back for exactly what it has not seen. */
import { assert, describe, it } from "@effect/vitest"
import { request as httpRequest } from "node:http"
import { pathOf, wholeText, type WireName } from "../../../../bench/wall/answers.ts"
import { startProvider } from "../../../../bench/wall/provider.ts"
import { makeBudgets } from "../../../../src/programs/commands/gateway/budgets.ts"
import { makeParts, makeShared } from "../../../../src/programs/commands/gateway/gateway.ts"
import { resolveConfig } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"
import { startServer } from "../../../../src/programs/commands/gateway/server.ts"
import { isWhole, runs } from "../../../support/runs.ts"

interface Heard {
  readonly status: number
  readonly bytes: Buffer
}

/** Reads so many bytes at most, then kills its connection; Infinity = to the end. */
const read = (url: string, body: string, headers: Record<string, string>, most: number): Promise<Heard> =>
  new Promise((resolve) => {
    const chunks: Array<Buffer> = []
    let length = 0
    let status = 0
    const end = (): void => resolve({ status, bytes: Buffer.concat(chunks).subarray(0, most) })
    const asked = httpRequest(url, { method: "POST", headers }, (response) => {
      status = response.statusCode ?? 0
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk)
        length += chunk.length
        if (length >= most) asked.destroy()
      })
      response.on("error", () => undefined)
      response.on("close", end)
      if (most === 0) asked.destroy()
    })
    asked.on("error", end)
    asked.end(body)
  })

const wires: ReadonlyArray<WireName> = ["chat", "responses", "messages"]
const bodies: Readonly<Record<WireName, (model: string) => object>> = {
  chat: (model) => ({ model, stream: true, messages: [{ role: "user", content: "go" }] }),
  responses: (model) => ({ model, stream: true, input: "go" }),
  messages: (model) => ({ model, stream: true, max_tokens: 1_000, messages: [{ role: "user", content: "go" }] })
}

/** Offsets that are spread over an answer and can be had again. */
const byteOf = (index: number, length: number): number => Math.floor(((index * 0.618_034) % 1) * length)

const textIn = (bytes: Buffer): string =>
  [...bytes.toString("utf8").matchAll(/"(?:content|text|delta)":"(word\d+[ .])"/g)].map(([, word]) => word).join("")

describe("clients that are killed at any byte", () => {
  it("get the rest when they come back with their run id, and the provider is asked once for each", async () => {
    const provider = await startProvider({ unit: 10 })
    const value = {
      listen: { port: 0 },
      upstreams: { main: { baseUrl: provider.baseUrl } },
      routes: { "*": { upstream: "main", policy: { backoff: { base: 1, factor: 1, cap: 1, jitter: 0 } } } }
    }
    const budgets = makeBudgets(() => Date.now())
    const config = resolveConfig("test", { value, placeOf: () => null }, {})
    const parts = makeParts(
      config,
      makeShared(budgets, () => 0)
    )
    const server = await startServer({ parts, budgets, onFault: () => undefined })
    // Real sockets take their time: all thousand before a release.
    const clients = isWhole ? 1_000 : Math.min(60, runs(1_000))
    const longest = 17_000
    const client = async (index: number): Promise<void> => {
      const wire = wires[index % wires.length] ?? "chat"
      // One in ten answers breaks off at the provider, too.
      const model = `${index % 10 === 9 ? "s03" : "ok"}:${index}`
      const body = JSON.stringify(bodies[wire](model))
      const url = `${server.address}${pathOf[wire]}`
      const headers = { "x-holdfast-run-id": `run-${index}`, "content-type": "application/json" }
      const first = await read(url, body, headers, byteOf(index, longest))
      let seen = first.bytes
      // Some are killed a second time on their way.
      for (const most of [index % 3 === 0 ? byteOf(index + 7, 3_000) : 0, Infinity]) {
        const more = await read(url, body, { ...headers, "x-holdfast-offset": String(seen.length) }, most)
        assert.strictEqual(more.status, 200, model)
        seen = Buffer.concat([seen, more.bytes])
      }
      const whole = await read(url, body, headers, Infinity)
      assert.isTrue(seen.equals(whole.bytes), model)
      const told = wire === "chat" ? textIn(seen) : textIn(seen).slice(0, wholeText.length)
      assert.strictEqual(told, wholeText, model)
      const asked = provider.asked.filter((one) => one.model === model).length
      assert.strictEqual(asked, index % 10 === 9 ? 2 : 1, model)
    }
    try {
      const lanes = Array.from({ length: 16 }, async (_, lane) => {
        for (let index = lane; index < clients; index += 16) await client(index)
      })
      await Promise.all(lanes)
      assert.isAtMost(server.keptBytes(), 64 * 1024 * 1024)
      assert.isAtLeast(server.keptBytes(), clients * 4_096)
      assert.strictEqual(server.inFlight(), 0)
    } finally {
      await server.drain(0)
      await provider.close()
    }
  }, 600_000)
})

describe("a stream of the Responses API", () => {
  const headers = { "content-type": "application/json" }
  const begin = async () => {
    const provider = await startProvider({ unit: 10 })
    const value = {
      listen: { port: 0 },
      keys: ["env:ONE", "env:TWO"],
      upstreams: { main: { baseUrl: provider.baseUrl } },
      routes: { "*": { upstream: "main", policy: { backoff: { base: 1, factor: 1, cap: 1, jitter: 0 } } } }
    }
    const budgets = makeBudgets(() => Date.now())
    const config = resolveConfig("test", { value, placeOf: () => null }, { ONE: "one", TWO: "two" })
    const parts = makeParts(
      config,
      makeShared(budgets, () => 0)
    )
    const server = await startServer({ parts, budgets, onFault: () => undefined })
    const close = async (): Promise<void> => {
      await server.drain(0)
      await provider.close()
    }
    return { provider, server, close }
  }
  const eventsOf = (text: string): ReadonlyArray<string> =>
    text.split("\n\n").filter((event) => event.includes('"sequence_number":'))
  const numberOf = (event: string): number => Number(/"sequence_number":(\d+)/.exec(event)?.[1])

  it.each([
    { how: "a background response", more: { background: true, store: true }, own: {} },
    { how: "a response with a run id", more: {}, own: { "x-holdfast-run-id": "mine" } }
  ])("is taken up behind any event by its own id, and its provider is asked once: $how", async ({ more, own }) => {
    const { provider, server, close } = await begin()
    try {
      const body = JSON.stringify({ ...bodies.responses("ok"), ...more })
      const mine = { ...headers, ...own, authorization: "Bearer one" }
      // Killed behind its first events: their numbers are all that is known then.
      const first = (await read(`${server.address}${pathOf.responses}`, body, mine, 2_000)).bytes.toString("utf8")
      const seen = eventsOf(first.slice(0, first.lastIndexOf("\n\n")))
      const behind = async (after: string, key = "one") => {
        const url = `${server.address}${pathOf.responses}/resp_wall?stream=true${after}`
        return fetch(url, { headers: { authorization: `Bearer ${key}` } })
      }
      const last = numberOf(seen.at(-1) ?? "")
      const rest = eventsOf(await (await behind(`&starting_after=${last}`)).text())
      const whole = eventsOf(await (await behind("")).text())
      assert.deepStrictEqual(
        whole.map(numberOf),
        Array.from({ length: 68 }, (_, index) => index)
      )
      assert.deepStrictEqual([...seen, ...rest], [...whole])
      for (const after of [0, 3, 40, 66, 67, 900]) {
        const heard = eventsOf(await (await behind(`&starting_after=${after}`)).text())
        assert.deepStrictEqual(heard, whole.slice(after + 1), String(after))
      }
      assert.strictEqual(provider.asked.length, 1)
      // Another key's is another one: the provider answers nothing at this address, and is not asked for it.
      assert.strictEqual((await behind("", "two")).status, 404)
    } finally {
      await close()
    }
  })

  it("is aborted with its client when it is neither", async () => {
    const { provider, server, close } = await begin()
    try {
      const mine = { ...headers, authorization: "Bearer one" }
      await read(`${server.address}${pathOf.responses}`, JSON.stringify(bodies.responses("s09")), mine, 500)
      for (let waited = 0; provider.openSockets() > 0 && waited < 2_000; waited += 5)
        await new Promise((resolve) => setTimeout(resolve, 5))
      assert.strictEqual(provider.openSockets(), 0)
      assert.strictEqual(server.keptBytes(), 0)
    } finally {
      await close()
    }
  })
})

describe("a client that goes away", () => {
  it("ends its request at the provider at once, before and after its first byte", async () => {
    const provider = await startProvider({ unit: 1_000 })
    const value = {
      listen: { port: 0 },
      upstreams: { main: { baseUrl: provider.baseUrl } },
      routes: { "*": { upstream: "main" } }
    }
    const budgets = makeBudgets(() => Date.now())
    const config = resolveConfig("test", { value, placeOf: () => null }, {})
    const parts = makeParts(
      config,
      makeShared(budgets, () => 0)
    )
    const server = await startServer({ parts, budgets, onFault: () => undefined })
    try {
      for (const wire of wires)
        for (const model of ["s06", "s09"]) {
          const controller = new AbortController()
          const asked = fetch(`${server.address}${pathOf[wire]}`, {
            method: "POST",
            body: JSON.stringify(bodies[wire](model)),
            signal: controller.signal
          })
          if (model === "s09") await (await asked).body?.getReader().read()
          while (provider.openSockets() === 0) await new Promise((resolve) => setTimeout(resolve, 5))
          const began = performance.now()
          controller.abort()
          await asked.catch(() => undefined)
          while (provider.openSockets() > 0 && performance.now() - began < 5_000)
            await new Promise((resolve) => setTimeout(resolve, 1))
          assert.strictEqual(provider.openSockets(), 0)
          assert.isBelow(performance.now() - began, 1_000)
          if (process.env["HOLDFAST_TELL"] !== undefined)
            console.log(`${wire} ${model}: ${(performance.now() - began).toFixed(1)} ms`)
        }
    } finally {
      await server.drain(0)
      await provider.close()
    }
  })
})
