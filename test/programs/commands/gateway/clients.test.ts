/** The SDKs' own clients, their retries left on, over real sockets: what they get, and how often they ask. */
import Anthropic, {
  AuthenticationError as AnthropicAuthentication,
  InternalServerError as AnthropicServerError,
  RateLimitError as AnthropicRateLimit
} from "@anthropic-ai/sdk"
import OpenAI, { AuthenticationError, InternalServerError, RateLimitError } from "openai"
import { assert, describe, it } from "@effect/vitest"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { afterEach } from "vitest"
import { errorBody, errorEvent, eventsOf, type WireName } from "../../../../bench/agents/answers.ts"
import { makeBudgets } from "../../../../src/programs/commands/gateway/budgets.ts"
import { makeParts, makeShared } from "../../../../src/programs/commands/gateway/gateway.ts"
import { resolveConfig } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"
import { startServer } from "../../../../src/programs/commands/gateway/server.ts"

const said = "One answer of some length, so that it has a middle where it can break."
type Step = (wire: WireName, response: ServerResponse, request: IncomingMessage) => void

const healthy: Step = (wire, response) => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.end(eventsOf(wire, "m", { _tag: "Text", text: said }).all.join(""))
}

const refused =
  (status: number, type: string, headers: Record<string, string> = {}): Step =>
  (wire, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers })
    response.end(JSON.stringify(errorBody(wire, type, null, "The provider's own words.")))
  }

/** Shows a part, then breaks off in one of two ways. */
const broken =
  (how: "cut" | "error"): Step =>
  (wire, response) => {
    const events = eventsOf(wire, "m", { _tag: "Text", text: said })
    response.writeHead(200, { "content-type": "text/event-stream" })
    response.write(events.all.slice(0, events.head + 3).join(""), () => {
      if (how === "cut") setTimeout(() => response.destroy(), 10)
      else response.end(errorEvent(wire, "overloaded"))
    })
  }

const reset: Step = (_wire, _response, request) => request.socket.resetAndDestroy()

const open: Array<() => Promise<void>> = []
afterEach(async () => {
  for (const close of open.splice(0)) await close()
})

/** A provider that follows a script, its last step for ever, and a gateway before it. */
const start = async (script: ReadonlyArray<Step>) => {
  const asked = { provider: 0, gateway: 0 }
  const provider = createServer((request, response) => {
    const path = request.url ?? ""
    const wire = path.includes("responses") ? "responses" : path.includes("messages") ? "messages" : "chat"
    request.resume().on("end", () => {
      const step = script[Math.min(asked.provider, script.length - 1)] ?? healthy
      asked.provider += 1
      step(wire, response, request)
    })
  })
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve))
  const baseUrl = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`
  const policy = { maxAttempts: 3, backoff: { base: 5, factor: 2, cap: 20, jitter: 0 } }
  const value = { listen: { port: 0 }, upstreams: { main: { baseUrl } }, routes: { "*": { upstream: "main", policy } } }
  const budgets = makeBudgets(() => Date.now())
  const server = await startServer({
    parts: makeParts(
      resolveConfig("test", { value, placeOf: () => null }, {}),
      makeShared(budgets, () => 0)
    ),
    budgets,
    onFault: () => undefined,
    onServed: () => {
      asked.gateway += 1
    }
  })
  open.push(async () => {
    await server.drain(0)
    provider.closeAllConnections()
    await new Promise((resolve) => provider.close(resolve))
  })
  return { asked, address: server.address }
}

const messages = [{ role: "user" as const, content: "go" }]
const openAi = (address: string): OpenAI => new OpenAI({ apiKey: "none", baseURL: `${address}/v1` })

/** Each way to ask that an SDK has for a stream, as the text it gives. */
const ways: Readonly<Record<string, (address: string) => Promise<string>>> = {
  "chat.completions.create": async (address) => {
    let text = ""
    for await (const chunk of await openAi(address).chat.completions.create({ model: "m", messages, stream: true }))
      text += chunk.choices[0]?.delta.content ?? ""
    return text
  },
  "chat.completions.stream": async (address) =>
    (await openAi(address).chat.completions.stream({ model: "m", messages }).finalContent()) ?? "",
  "responses.create": async (address) => {
    let text = ""
    for await (const event of await openAi(address).responses.create({ model: "m", input: "go", stream: true }))
      if (event.type === "response.output_text.delta") text += event.delta
    return text
  },
  "responses.stream": async (address) =>
    (await openAi(address).responses.stream({ model: "m", input: "go" }).finalResponse()).output_text,
  "messages.stream": async (address) =>
    new Anthropic({ apiKey: "none", baseURL: address }).messages
      .stream({ model: "m", messages, max_tokens: 100 })
      .finalText()
}

const names = Object.keys(ways)
const isAnthropic = (way: string): boolean => way.startsWith("messages")

describe.each(names)("%s through the gateway", (way) => {
  const ask = ways[way]!

  it.each([
    { fault: "nothing", script: [healthy], asks: 1 },
    {
      fault: "a 429 with a hint",
      script: [refused(429, "rate_limit_error", { "retry-after": "0.02" }), healthy],
      asks: 2
    },
    { fault: "a 503", script: [refused(503, "server_error"), healthy], asks: 2 },
    { fault: "a reset", script: [reset, healthy], asks: 2 },
    { fault: "a cut after text", script: [broken("cut"), healthy], asks: 2 },
    { fault: "an overload after text", script: [broken("error"), healthy], asks: 2 }
  ])("gives the whole text once after $fault", async ({ script, asks }) => {
    const { asked, address } = await start(script)
    assert.strictEqual(await ask(address), said)
    assert.strictEqual(asked.provider, asks)
  })

  it.each([
    { status: 429, type: "rate_limit_error", openai: RateLimitError, anthropic: AnthropicRateLimit, asks: 3 },
    { status: 503, type: "server_error", openai: InternalServerError, anthropic: AnthropicServerError, asks: 3 },
    {
      status: 401,
      type: "authentication_error",
      openai: AuthenticationError,
      anthropic: AnthropicAuthentication,
      asks: 1
    }
  ])("throws its own type for $status, and asks once", async ({ status, type, openai, anthropic, asks }) => {
    const { asked, address } = await start([refused(status, type)])
    const error: unknown = await ask(address).then(
      () => null,
      (cause: unknown) => cause
    )
    assert.isTrue(error instanceof (isAnthropic(way) ? anthropic : openai), String(error))
    assert.deepStrictEqual(asked, { provider: asks, gateway: 1 })
  })
})

describe("an answer without a stream", () => {
  const body = {
    id: "chatcmpl-a",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: said }, finish_reason: "stop" }],
    usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
  }
  const whole: Step = (_wire, response) => {
    response.writeHead(200, { "content-type": "application/json" })
    response.end(JSON.stringify(body))
  }

  it("says in a header what all its requests used", async () => {
    const { address } = await start([refused(503, "server_error"), whole])
    const { data, response } = await openAi(address).chat.completions.create({ model: "m", messages }).withResponse()
    assert.strictEqual(data.choices[0]?.message.content, said)
    assert.strictEqual(response.headers.get("x-holdfast-billed-tokens"), "120")
  })

  it("is committed when it is there, however long that takes", async () => {
    const { address } = await start([
      (wire, response, request) => void setTimeout(() => whole(wire, response, request), 300)
    ])
    const began = performance.now()
    const answer = await fetch(`${address}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: "m", messages })
    })
    assert.isAtLeast(performance.now() - began, 290)
    assert.strictEqual(answer.headers.get("content-type"), "application/json")
    assert.strictEqual(((await answer.json()) as typeof body).choices[0]?.message.content, said)
  })
})

describe("a request with x-holdfast-run-id", () => {
  it("goes on when its client is gone, and gives the rest to who comes back", async () => {
    const slow: Step = (wire, response) => {
      const events = [...eventsOf(wire, "m", { _tag: "Text", text: said }).all]
      response.writeHead(200, { "content-type": "text/event-stream" })
      const next = (): void => {
        const event = events.shift()
        if (event === undefined) return void response.end()
        response.write(event)
        setTimeout(next, 5)
      }
      next()
    }
    const { asked, address } = await start([slow])
    const call = (offset: number, signal?: AbortSignal) =>
      fetch(`${address}/v1/chat/completions`, {
        method: "POST",
        body: JSON.stringify({ model: "m", messages, stream: true }),
        headers: { "x-holdfast-run-id": "run-1", "x-holdfast-offset": String(offset) },
        ...(signal === undefined ? {} : { signal })
      })
    const controller = new AbortController()
    const reader = (await call(0, controller.signal)).body!.getReader()
    const first = new TextDecoder().decode((await reader.read()).value)
    controller.abort()
    const rest = await (await call(first.length)).text()
    const whole = await (await call(0)).text()
    assert.strictEqual(first + rest, whole)
    assert.include(whole, "[DONE]")
    assert.strictEqual(asked.provider, 1)
    assert.strictEqual((await call(1_000_000)).status, 416)
  })
})
