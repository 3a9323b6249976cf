/**
 * The provider of the recovery benchmark, in a process of its own. Speaks the OpenAI and the Anthropic wire. Every client
 * has a lane and sends to `/CASE/LANE/v1`: healthy until `POST /CASE/LANE` begins the case, with a clock of its own;
 * `GET /CASE/LANE` tells what has come in since. Prints its port on stdout; ends with its parent.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { callOf, cases, isCase, limit, replyMillis, replyOf, type Bucket, type Case, type Fault } from "./cases.ts"

interface Lane {
  /** null = the case has not begun. */
  readonly startedAt: number | null
  requests: number
  /** Requests that came before the instant their call was told to wait for. */
  early: number
  /** Requests and the latest hint of each call. */
  readonly calls: Map<number, { requests: number; notBefore: number }>
  readonly bucket: Bucket
}

const makeLane = (startedAt: number | null): Lane => ({
  startedAt,
  requests: 0,
  early: 0,
  calls: new Map(),
  bucket: { tokens: limit.burst, atMillis: 0 }
})

const lanes = new Map<string, Lane>()

/** A timer may fire within the millisecond before its time. */
const timerGrainMillis = 1

/** A number of 0..1 that is the same for the same call and request (mulberry32's mixing). */
const chanceOf = (call: number, request: number): number => {
  let mixed = Math.imul(call + 1, 0x9e37_79b1) + Math.imul(request + 1, 0x85eb_ca77)
  mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}

const openAiReply = (text: string, model: string): object => ({
  id: "chatcmpl-bench",
  object: "chat.completion",
  created: 1_790_000_000,
  model,
  choices: [{ index: 0, message: { role: "assistant", content: text, refusal: null }, finish_reason: "stop" }],
  usage: { prompt_tokens: 12, completion_tokens: 6, total_tokens: 18 }
})

const anthropicReply = (text: string, model: string): object => ({
  id: "msg_bench",
  type: "message",
  role: "assistant",
  model,
  content: [{ type: "text", text }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 12, output_tokens: 6 }
})

const words = { 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error", 529: "overloaded_error" } as const

const faultBody = ({ status }: Fault): object => ({
  type: "error",
  error: { type: words[status], message: "The benchmark says no.", code: null, param: null }
})

const send = (response: ServerResponse, status: number, headers: Readonly<Record<string, string>>, body: object) => {
  response.writeHead(status, { "content-type": "application/json", "x-request-id": "bench", ...headers })
  response.end(JSON.stringify(body))
}

const answer = (lane: Lane, name: string, isAnthropic: boolean, sent: string, response: ServerResponse): void => {
  const call = callOf(sent)
  if (call === null || !isCase(name)) return send(response, 400, {}, { error: { message: "no call in the prompt" } })
  const { model }: { model: string } = JSON.parse(sent)
  const known = lane.calls.get(call) ?? { requests: 0, notBefore: -Infinity }
  const now = performance.now()
  lane.requests += 1
  if (now + timerGrainMillis < known.notBefore) lane.early += 1
  const script: Case = cases[name]
  const fault =
    lane.startedAt === null
      ? null
      : script.answer({
          atMillis: now - lane.startedAt,
          epochMillis: Date.now(),
          model,
          request: known.requests,
          chance: chanceOf(call, known.requests),
          bucket: lane.bucket
        })
  lane.calls.set(call, {
    requests: known.requests + 1,
    notBefore: fault === null || fault.hintMillis === null ? -Infinity : now + fault.hintMillis
  })
  if (fault !== null) {
    setTimeout(() => send(response, fault.status, fault.headers, faultBody(fault)), replyMillis / 2)
    return
  }
  const reply = (isAnthropic ? anthropicReply : openAiReply)(replyOf(call), model)
  setTimeout(() => send(response, 200, {}, reply), replyMillis)
}

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const pieces: Array<Buffer> = []
  for await (const piece of request) pieces.push(piece)
  return Buffer.concat(pieces).toString("utf8")
}

const server = createServer((request, response) => {
  void bodyOf(request).then((sent) => {
    const [, name = "", subject = "", ...rest] = (request.url ?? "").split("/")
    const key = `${name}/${subject}`
    const lane = lanes.get(key) ?? makeLane(null)
    if (rest.length > 0) return answer(lane, name, rest.at(-1) === "messages", sent, response)
    if (request.method === "GET") return send(response, 200, {}, { requests: lane.requests, early: lane.early })
    lanes.set(key, makeLane(performance.now()))
    return send(response, 200, {}, {})
  })
})
server.keepAliveTimeout = 60_000
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (address !== null && typeof address === "object") console.log(address.port)
})
process.stdin.on("end", () => process.exit(0)).resume()
