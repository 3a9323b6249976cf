import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { createServer, type AddressInfo, type Socket } from "node:net"
import { brotliCompressSync, gzipSync } from "node:zlib"
import type { ModelError } from "../../../src/domain/failure/ModelError.ts"
import type { ModelReply } from "../../../src/domain/chat/ModelReply.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import * as AnthropicModelClient from "../../../src/layers/provider/AnthropicModelClient.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"
import type { Fetch } from "../../../src/layers/provider/undiciFetch.ts"

type Send = (socket: Socket) => void

/** A server that answers every request with bytes of the test's own. */
const server = (send: Send) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const sockets = new Set<Socket>()
      let requests = 0
      const made = createServer((socket) => {
        sockets.add(socket)
        socket.on("close", () => sockets.delete(socket))
        socket.on("error", () => undefined)
        let text = ""
        socket.on("data", (bytes) => {
          text += bytes.toString("latin1")
          const [head = "", ...rest] = text.split("\r\n\r\n")
          const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? "0")
          if (rest.length === 0 || rest.join("\r\n\r\n").length < length) return
          text = ""
          requests += 1
          send(socket)
        })
      })
      await new Promise<void>((resolve) => made.listen(0, "127.0.0.1", resolve))
      const { port } = made.address() as AddressInfo
      return { made, sockets, url: `http://127.0.0.1:${port}`, requests: () => requests }
    }),
    ({ made, sockets }) =>
      Effect.promise(
        () =>
          new Promise<void>((resolve) => {
            for (const socket of sockets) socket.destroy()
            made.close(() => resolve())
          })
      )
  )

const request: WireRequest = {
  messages: [{ role: "user", content: "go" }],
  model: "m",
  maxOutputTokens: 100,
  role: "main"
}

const wires = {
  openai: {
    client: (url: string, fetch?: Fetch) =>
      OpenAiModelClient.make({
        apiKey: "sk-test-12345678",
        baseUrl: `${url}/v1`,
        ...(fetch === undefined ? {} : { fetch })
      }),
    body: { choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "fine ü😀" } }] },
    events: [
      'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"fine ü"},"finish_reason":null}]}\n\n',
      'data: {"choices":[{"index":0,"delta":{"content":"😀"},"finish_reason":null}]}\n\n',
      'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    ],
    done: "data: [DONE]\n\n"
  },
  anthropic: {
    client: (url: string, fetch?: Fetch) =>
      AnthropicModelClient.make({
        apiKey: "sk-test-12345678",
        baseUrl: url,
        ...(fetch === undefined ? {} : { fetch })
      }),
    body: {
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: "fine ü😀" }],
      stop_reason: "end_turn"
    },
    events: [
      'event: message_start\ndata: {"type":"message_start","message":{}}\n\n',
      'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n',
      'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"fine ü😀"}}\n\n',
      'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
    ],
    done: 'data: {"type":"message_stop"}\n\n'
  }
} as const

type Wire = keyof typeof wires
const names: ReadonlyArray<Wire> = ["openai", "anthropic"]

const head = (status: string, headers: Readonly<Record<string, string | number>>): string =>
  `HTTP/1.1 ${status}\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")}\r\n`

const answer = (status: string, headers: Readonly<Record<string, string>>, body: string | Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(head(status, { "content-length": Buffer.byteLength(body), ...headers })),
    Buffer.from(body)
  ])

const json = { "content-type": "application/json" }
const eventStream = { "content-type": "text/event-stream" }

/** Writes and closes the connection in order. */
const last =
  (...parts: ReadonlyArray<string | Buffer>): Send =>
  (socket) => {
    for (const part of parts) socket.write(part)
    socket.end()
  }

const chunked = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

type Outcome = string

const outcomeOf = (result: Effect.Effect<ModelReply | null, ModelError>): Effect.Effect<Outcome> =>
  Effect.match(result, {
    onSuccess: (reply) => `reply ${reply?.text ?? "?"}`,
    onFailure: (error) => `${error._tag} ${error.status} ${error.hints.map((hint) => hint._tag).join()}`.trim()
  })

const replyOf = (client: ReturnType<typeof OpenAiModelClient.make>): Effect.Effect<ModelReply | null, ModelError> =>
  Stream.runFold(
    client.stream(request),
    (): ModelReply | null => null,
    (before, part) => (part._tag === "End" ? part.reply : before)
  )

const malformed = { openai: "OpenAIResponseError", anthropic: "AnthropicResponseError" } as const

describe.each(names)("the %s adapter", (name) => {
  const wire = wires[name]
  const body = JSON.stringify(wire.body)
  const events = wire.events.join("") + wire.done
  const gzip = { "content-encoding": "gzip" }
  const limited = JSON.stringify({ error: { type: "rate_limit_error" } })
  const wait = { "retry-after": "7" }

  it.live.each<{ readonly when: string; readonly send: Send; readonly then: Outcome }>([
    {
      when: "a proxy compresses what nobody asked to be compressed",
      send: last(answer("200 OK", { ...json, ...gzip }, gzipSync(body))),
      then: "reply fine ü😀"
    },
    {
      when: "it is compressed by brotli",
      send: last(answer("200 OK", { ...json, "content-encoding": "br" }, brotliCompressSync(body))),
      then: "reply fine ü😀"
    },
    {
      when: "the compressed body is garbage",
      send: last(answer("200 OK", { ...json, ...gzip }, "garbage")),
      then: "ModelStreamInterruptedError null"
    },
    {
      when: "the body of a rate limit breaks off: status and hint count",
      send: last(head("429 Limited", { ...json, ...wait, "content-length": 500 }), limited),
      then: "ModelRateLimitError 429 Delay"
    },
    {
      when: "the body of a rate limit is compressed garbage",
      send: last(answer("429 Limited", { ...json, ...wait, ...gzip }, "garbage")),
      then: "ModelRateLimitError 429 Delay"
    },
    {
      when: "the body of a success breaks off",
      send: last(head("200 OK", { ...json, "content-length": 5_000 }), body),
      then: "ModelStreamInterruptedError null"
    },
    {
      when: "the connection is reset inside the body",
      send: (socket) => {
        socket.write(head("200 OK", { ...json, "content-length": 5_000 }) + body)
        setTimeout(() => socket.resetAndDestroy(), 20)
      },
      then: "ModelStreamInterruptedError null"
    },
    {
      when: "it is a redirect",
      send: last(answer("307 Elsewhere", { location: "http://127.0.0.1:9/v1" }, "")),
      then: `${malformed[name]} 307`
    },
    { when: "it says not modified", send: last(head("304 Same", {})), then: `${malformed[name]} 304` }
  ])("reads an answer when $when", ({ send, then }) =>
    Effect.gen(function* () {
      const { url } = yield* server(send)
      const client = wire.client(url)
      assert.strictEqual(yield* outcomeOf(client.generate(request)), then)
      assert.strictEqual(yield* outcomeOf(replyOf(client)), then)
    }).pipe(Effect.scoped)
  )

  it.live.each<{ readonly when: string; readonly send: Send; readonly then: Outcome }>([
    {
      when: "the content type is written in capitals",
      send: last(head("200 OK", { "Content-Type": "Text/Event-Stream" }), events),
      then: "reply fine ü😀"
    },
    { when: "it is announced as JSON", send: last(head("200 OK", json), events), then: "reply fine ü😀" },
    {
      when: "it is announced as bytes",
      send: last(head("200 OK", { "content-type": "application/octet-stream" }), events),
      then: "reply fine ü😀"
    },
    { when: "one JSON body comes instead", send: last(head("200 OK", eventStream), body), then: "reply fine ü😀" },
    {
      when: "a JSON error comes instead",
      send: last(head("200 OK", eventStream), '{"error":{"code":429,"type":"rate_limit_error"}}'),
      then: "ModelRateLimitError 200"
    },
    { when: "a JSON body has no type", send: last(head("200 OK", {}), body), then: "reply fine ü😀" },
    {
      when: "it is compressed",
      send: last(head("200 OK", { ...eventStream, ...gzip }), gzipSync(events)),
      then: "reply fine ü😀"
    },
    {
      when: "the connection stays open behind the end",
      send: (socket) => socket.write(head("200 OK", eventStream) + events),
      then: "reply fine ü😀"
    },
    {
      when: "the connection breaks behind the end",
      send: last(head("200 OK", { ...eventStream, "transfer-encoding": "chunked" }), chunked(events)),
      then: "reply fine ü😀"
    },
    {
      when: "the connection breaks between the finish reason and the end",
      send: last(head("200 OK", { ...eventStream, "transfer-encoding": "chunked" }), chunked(wire.events.join(""))),
      then: "reply fine ü😀"
    },
    {
      when: "the connection breaks before the finish reason",
      send: last(head("200 OK", { ...eventStream, "transfer-encoding": "chunked" }), chunked(wire.events[0])),
      then: "ModelStreamInterruptedError null"
    },
    {
      when: "a stray JSON line stands before the events",
      send: last(head("200 OK", eventStream), `{"queue":3}\n\n${events}`),
      then: "reply fine ü😀"
    },
    {
      when: "its bytes come one by one",
      send: (socket) => {
        const bytes = Buffer.from(
          `\uFEFF: hello\r\n\r\n${events.replaceAll("\n", "\r\n").replaceAll("data: ", "data:")}`
        )
        socket.setNoDelay(true)
        socket.write(head("200 OK", eventStream))
        const next = (at: number): void => {
          if (at === bytes.length) socket.end()
          else socket.write(bytes.subarray(at, at + 1), () => setImmediate(next, at + 1))
        }
        next(0)
      },
      then: "reply fine ü😀"
    }
  ])("reads a stream when $when", ({ send, then }) =>
    Effect.gen(function* () {
      const { url } = yield* server(send)
      assert.strictEqual(yield* outcomeOf(replyOf(wire.client(url))), then)
    }).pipe(Effect.scoped)
  )

  it.live.each([
    { with: "the default transport", fetch: undefined },
    { with: "the platform's fetch", fetch: globalThis.fetch as Fetch }
  ])("never takes key and prompt to where a redirect points, with $with", ({ fetch }) =>
    Effect.gen(function* () {
      const thief = yield* server(last(answer("200 OK", json, body)))
      const { url } = yield* server(last(answer("308 Elsewhere", { location: `${thief.url}/v1` }, "")))
      assert.strictEqual(yield* outcomeOf(wire.client(url, fetch).generate(request)), `${malformed[name]} 308`)
      assert.strictEqual(thief.requests(), 0)
    }).pipe(Effect.scoped)
  )

  it.live("closes the connection of a compressed stream that is interrupted", () =>
    Effect.gen(function* () {
      const { url, sockets } = yield* server((socket) => {
        socket.write(head("200 OK", { ...eventStream, ...gzip }))
        socket.write(gzipSync(wire.events[0], { finishFlush: 2 }))
      })
      const fiber = yield* Effect.forkChild(Stream.runDrain(wire.client(url).stream(request)))
      for (let turn = 0; turn < 300 && sockets.size === 0; turn += 1) yield* Effect.sleep(10)
      yield* Effect.sleep(50)
      yield* Fiber.interrupt(fiber)
      for (let turn = 0; turn < 300 && sockets.size > 0; turn += 1) yield* Effect.sleep(10)
      assert.strictEqual(sockets.size, 0)
    }).pipe(Effect.scoped)
  )
})
