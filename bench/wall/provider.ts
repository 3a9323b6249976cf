/**
 * A provider on loopback whose model name picks one of sixteen faults; `fb-ok` always answers. Everything it was asked is
 * counted, with instants, so that conduct can be judged from outside.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { answerOf, errorOf, pathOf, words, type WireName } from "./answers.ts"

export interface Asked {
  readonly model: string
  readonly wire: WireName
  /** Milliseconds since the provider was made. */
  readonly at: number
  /** Role of the last message or item. */
  readonly lastRole: string | null
}

export interface Provider {
  readonly baseUrl: string
  readonly asked: ReadonlyArray<Asked>
  readonly now: () => number
  /** Begins a scenario: what was asked is forgotten. */
  readonly begin: () => void
  readonly openSockets: () => number
  readonly close: () => Promise<void>
}

/** Seconds of the wall's clock are `unit` milliseconds: 1,000 in a full run, fewer in a fast one. */
export interface ProviderOptions {
  readonly unit: number
  /** Each response has an id of its own, as real ones have; otherwise all have the same. */
  readonly ownIds?: boolean
}

interface Call {
  readonly wire: WireName
  readonly model: string
  /** How many requests for this model came before in this scenario. */
  readonly before: number
  readonly sinceBegin: number
  readonly lastRole: string | null
  readonly response: ServerResponse
  readonly request: IncomingMessage
  /** Stands in the place of the id that all answers have; null = that one. */
  readonly id: string | null
}

const sleep = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

const wireAt = (path: string): WireName | null =>
  (["chat", "responses", "messages"] as const).find((wire) => path.startsWith(pathOf[wire])) ?? null

const bodyOf = async (request: IncomingMessage): Promise<Record<string, unknown>> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString("utf8")) as Record<string, unknown>
}

const lastRoleOf = (body: Record<string, unknown>): string | null => {
  const items = body["messages"] ?? body["input"]
  if (!Array.isArray(items)) return typeof items === "string" ? "user" : null
  const last: unknown = items.at(-1)
  return typeof last === "object" && last !== null && "role" in last ? String(last.role) : null
}

const refuse = (
  call: Call,
  status: number,
  type: string,
  code: string | null,
  headers: Record<string, string> = {}
) => {
  const body = JSON.stringify(errorOf(call.wire, type, code, "The wall refuses this request."))
  call.response.writeHead(status, { "content-type": "application/json", ...headers })
  call.response.end(body)
}

interface Course {
  /** Words that are sent before the stream ends as `then` says; all of them by default. */
  readonly words?: number
  readonly firstAfter?: number
  /** What comes in the place of the tenth event. */
  readonly tenth?: string
  readonly withoutDone?: boolean
  readonly then?: "die" | "silence"
  readonly silence?: number
}

/** One event every 20 ms, or so many milliseconds as the unit shrinks it to. */
const stream = async (call: Call, unit: number, course: Course = {}): Promise<void> => {
  const { response, wire, model } = call
  const answer = answerOf(wire, model)
  response.writeHead(200, { "content-type": "text/event-stream", "x-request-id": "req_wall" })
  response.flushHeaders()
  if (course.firstAfter !== undefined) await sleep(course.firstAfter * unit)
  let events = 0
  const write = async (event: string): Promise<boolean> => {
    events += 1
    if (response.destroyed) return false
    const own = call.id === null ? event : event.replaceAll("resp_wall", call.id)
    response.write(events === 10 && course.tenth !== undefined ? course.tenth : own)
    await sleep(unit / 50)
    return true
  }
  for (const event of answer.head) if (!(await write(event))) return
  const count = course.words ?? words.length
  for (let index = 0; index < count; index += 1) {
    // The tenth event comes beside the word, not in its place: a reader that passes over it has the whole text.
    if (events === 9 && course.tenth !== undefined) await write("")
    if (!(await write(answer.word(index)))) return
  }
  if (course.then === "die") return void response.destroy()
  if (course.then === "silence") {
    await sleep((course.silence ?? 30) * unit)
    return void response.end()
  }
  for (const event of answer.tail) if (!(course.withoutDone === true && event.includes("[DONE]"))) await write(event)
  response.end()
}

const outageSeconds = 60

/** What each scenario does to a request for its model. */
const faults = (unit: number): Readonly<Record<string, (call: Call) => unknown>> => {
  const overloaded = (call: Call) => refuse(call, 503, "server_error", null)
  const healthy = (call: Call) => stream(call, unit)
  const diesAfterForty = (call: Call) => stream(call, unit, { words: 40, then: "die" })
  return {
    s01: (call) =>
      call.before === 0
        ? refuse(call, 429, "rate_limit_error", "rate_limit_exceeded", { "retry-after": String((2 * unit) / 1_000) })
        : healthy(call),
    s02: (call) => refuse(call, 429, "rate_limit_error", "rate_limit_exceeded"),
    s03: (call) => (call.before === 0 ? refuse(call, 500, "server_error", null) : healthy(call)),
    s04: overloaded,
    s05: (call) => (call.before === 0 ? call.request.socket.resetAndDestroy() : healthy(call)),
    s06: (call) => sleep(120 * unit).then(() => call.response.destroy()),
    s07: (call) => stream(call, unit, { firstAfter: 20 }),
    s08: diesAfterForty,
    s09: (call) => stream(call, unit, { words: 20, then: "silence" }),
    s10: (call) => stream(call, unit, { tenth: 'data: {"this is": not JSON\n\n' }),
    s11: (call) => stream(call, unit, { withoutDone: true }),
    s12: (call) => refuse(call, 400, "invalid_request_error", "context_length_exceeded"),
    s13: (call) => refuse(call, 400, "invalid_request_error", "content_policy_violation"),
    s14: diesAfterForty,
    s15: (call) => (call.sinceBegin < outageSeconds * unit ? overloaded(call) : healthy(call)),
    s16: overloaded,
    ok: healthy,
    "fb-ok": (call) => healthy(call),
    "fb-no-prefill": (call) =>
      call.lastRole === "assistant" ? refuse(call, 400, "invalid_request_error", "prefill_unsupported") : healthy(call)
  }
}

export const startProvider = async (options: ProviderOptions): Promise<Provider> => {
  const { unit } = options
  const madeAt = performance.now()
  const now = (): number => performance.now() - madeAt
  const all = faults(unit)
  let asked: Array<Asked> = []
  let beganAt = now()
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const wire = wireAt(request.url ?? "")
    const body = wire === null ? null : await bodyOf(request)
    if (wire === null || body === null) return void response.writeHead(404).end("{}")
    const model = String(body["model"])
    const before = asked.filter((one) => one.model === model).length
    const lastRole = lastRoleOf(body)
    asked.push({ model, wire, at: now(), lastRole })
    // The name may carry what tells runs apart: `s01-live-chat`.
    const fault = all[model] ?? all[model.split(":")[0] ?? ""]
    if (fault === undefined) return void response.writeHead(404).end("{}")
    const id = options.ownIds === true ? `resp_${asked.length}` : null
    await fault({ wire, model, before, sinceBegin: now() - beganAt, lastRole, request, response, id })
  }
  const server: Server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  const sockets = new Set<unknown>()
  server.on("connection", (socket) => {
    sockets.add(socket)
    socket.on("close", () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    get asked() {
      return asked
    },
    now,
    begin: () => {
      asked = []
      beganAt = now()
    },
    openSockets: () => sockets.size,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
  }
}
