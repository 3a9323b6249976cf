import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync } from "node:fs"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { makeBudgets } from "../../../src/programs/commands/gateway/budgets.ts"
import { makeParts, makeShared } from "../../../src/programs/commands/gateway/gateway.ts"
import { resolveConfig } from "../../../src/programs/commands/gateway/GatewayConfig.ts"
import { startServer } from "../../../src/programs/commands/gateway/server.ts"
import { isWhole } from "../../support/runs.ts"

const words = Array.from({ length: 60 }, (_, at) => `word${at} `)
const text = words.join("")
const pauseMillis = 40

type Api = "chat" | "messages" | "responses"
type Line = readonly [name: string | null, data: object]

const usage = { input_tokens: 10, output_tokens: 60, total_tokens: 70 }

const chunk = (delta: object, finish_reason: string | null = null): Line => [
  null,
  { id: "x", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] }
]
const named = (type: string, fields: object = {}): Line => [type, { type, ...fields }]

const responseOf = (status: string, output: ReadonlyArray<object>) => ({
  id: "resp_kept",
  object: "response",
  created_at: 1,
  model: "m",
  background: true,
  status,
  error: null,
  incomplete_details: null,
  output,
  usage: status === "completed" ? usage : null
})
const item = { id: "msg_1", type: "message", role: "assistant" }
const content = [{ type: "output_text", text, annotations: [] }]

/** The answer of each API, a line per word. */
const linesOf: Readonly<Record<Api, ReadonlyArray<Line>>> = {
  chat: [
    chunk({ role: "assistant", content: "" }),
    ...words.map((word) => chunk({ content: word })),
    chunk({}, "stop"),
    [null, { id: "x", choices: [], usage: { prompt_tokens: 10, completion_tokens: 60, total_tokens: 70 } }]
  ],
  messages: [
    named("message_start", {
      message: { id: "m1", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, usage }
    }),
    named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
    ...words.map((word) => named("content_block_delta", { index: 0, delta: { type: "text_delta", text: word } })),
    named("content_block_stop", { index: 0 }),
    named("message_delta", { delta: { stop_reason: "end_turn" }, usage }),
    named("message_stop")
  ],
  responses: [
    named("response.created", { response: responseOf("queued", []) }),
    named("response.in_progress", { response: responseOf("in_progress", []) }),
    named("response.output_item.added", { output_index: 0, item: { ...item, status: "in_progress", content: [] } }),
    named("response.content_part.added", {
      item_id: "msg_1",
      output_index: 0,
      content_index: 0,
      part: { type: "output_text", text: "", annotations: [] }
    }),
    ...words.map((delta) =>
      named("response.output_text.delta", { item_id: "msg_1", output_index: 0, content_index: 0, delta })
    ),
    named("response.output_item.done", { output_index: 0, item: { ...item, status: "completed", content } }),
    named("response.completed", { response: responseOf("completed", [{ ...item, status: "completed", content }]) })
  ]
}

/** A provider that takes its time, counts what it is asked anew, and keeps the answers of its background. */
const startUpstream = async (api: Api) => {
  const asked = { anew: 0, again: 0 }
  let begunAt = 0
  const lines = linesOf[api].map(
    ([name, data], at) =>
      `${name === null ? "" : `event: ${name}\n`}data: ${JSON.stringify(api === "responses" ? { ...data, sequence_number: at } : data)}\n\n`
  )
  const answer = (response: ServerResponse, isKept: boolean): void => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    let at = 0
    const next = (): void => {
      if (response.destroyed) return
      // What was made before is there at once.
      const made = isKept ? (Date.now() - begunAt) / pauseMillis : at + 1
      while (at < lines.length && at < made) response.write(lines[at++])
      if (at < lines.length) return void setTimeout(next, pauseMillis)
      response.end(api === "chat" ? "data: [DONE]\n\n" : "")
    }
    next()
  }
  const server = createServer((request, response) => {
    request.resume()
    request.on("end", () => {
      if (request.method === "GET") {
        assert.match(request.url ?? "", /^\/v1\/responses\/resp_kept\?stream=true/)
        asked.again += 1
        return answer(response, true)
      }
      asked.anew += 1
      begunAt = Date.now()
      answer(response, api === "responses")
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const close = (): void => {
    server.closeAllConnections()
    server.close()
  }
  return { asked, baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, close }
}

/** A gateway before it. */
const startGateway = async (api: Api, baseUrl: string) => {
  const upstream = { baseUrl: api === "messages" ? baseUrl.replace(/\/v1$/, "") : baseUrl, apiKey: "env:UPSTREAM" }
  const value = {
    listen: { port: 0 },
    upstreams: { main: upstream },
    routes: { "*": { upstream: "main" } }
  }
  const resolved = resolveConfig("test", { value, placeOf: () => null }, { UPSTREAM: "sk-upstream" })
  const budgets = makeBudgets(() => Date.now())
  const parts = makeParts(
    resolved,
    makeShared(budgets, () => 0, {})
  )
  const server = await startServer({ parts, budgets, onFault: () => undefined })
  return { baseUrl: `${server.address}/v1`, close: () => server.drain(0) }
}

interface Told {
  readonly _tag: string
  readonly text?: string
  readonly balance?: { readonly spent: { readonly tokens: number } }
}

const script = join(import.meta.dirname, "../../support/toldTurn.ts")

/** One life; killed behind so many parts of text. What its reader was told. */
const live = async (
  path: string,
  baseUrl: string,
  api: Api,
  killedBehind: number | null
): Promise<ReadonlyArray<Told>> => {
  const child = spawn(process.execPath, ["--no-warnings", script, path, baseUrl, api], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  let out = ""
  const parsed = (): ReadonlyArray<Told> =>
    out
      .slice(0, out.lastIndexOf("\n") + 1)
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Told)
  child.stdout.on("data", (data: Buffer) => {
    out += data.toString()
    if (killedBehind !== null && textsOf(parsed()).length >= killedBehind) child.kill("SIGKILL")
  })
  const [code] = (await once(child, "close")) as [number | null]
  assert.strictEqual(code, killedBehind === null ? 0 : null)
  return parsed()
}

const textsOf = (parts: ReadonlyArray<Told>): ReadonlyArray<string> =>
  parts.flatMap(({ _tag, text: part }) => (_tag === "TextDelta" && part !== undefined ? [part] : []))

/** Parts of text behind which the first process dies: nothing is kept yet; something is; almost all is. */
const moments = isWhole ? [1, 5, 10, 20, 30, 40, 50, 58] : [35]

describe("an answer that was in flight when its process was killed", () => {
  it.each<readonly [Api, string]>([
    ["chat", "a gateway"],
    ["messages", "a gateway"],
    ["responses", "the provider's background"]
  ])(
    "is taken up over %s from %s: the provider is asked once, and the reader has every word once",
    async (api) => {
      for (const moment of moments) {
        const path = join(mkdtempSync(join(tmpdir(), "kept-")), "turns.db")
        const upstream = await startUpstream(api)
        const gateway = api === "responses" ? null : await startGateway(api, upstream.baseUrl)
        const { baseUrl } = gateway ?? upstream
        const first = textsOf(await live(path, baseUrl, api, moment)).join("")
        assert.isTrue(text.startsWith(first))
        const second = await live(path, baseUrl, api, null)
        assert.strictEqual(upstream.asked.anew, 1, `killed behind ${moment}`)
        assert.strictEqual(upstream.asked.again, api === "responses" ? 1 : 0)
        assert.notInclude(
          second.map(({ _tag }) => _tag),
          "Reset"
        )
        assert.strictEqual(textsOf(second).join(""), text)
        // What was kept comes at once, in one piece, and is at most a second old.
        if (moment > 2_000 / pauseMillis) assert.isAbove(textsOf(second)[0]?.length ?? 0, first.length / 3)
        // It is booked once, as what it was: its end is known.
        assert.strictEqual(second.at(-1)?.balance?.spent.tokens, 70)
        await gateway?.close()
        upstream.close()
      }
    },
    isWhole ? 600_000 : 120_000
  )
})
