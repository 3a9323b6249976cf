/**
 * The provider of the soak, in a process of its own: half of its answers are whole bodies, half are streams that come in
 * bursts, and the name of a model says what goes wrong with its first request. Prints its port; ends with its parent.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { Socket } from "node:net"
import { answerOf, errorOf, pathOf, wholeText, words, type WireName } from "../wall/answers.ts"

/** Words that go out in one write, and the pause behind each. */
const burst = 10
const pauseMillis = 20

const wires: ReadonlyArray<WireName> = ["chat", "responses", "messages"]
const sleep = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

/** The last object that a wire's stream tells is, for Responses, the answer without a stream. */
const wholeOf = (wire: WireName, model: string): unknown => {
  const usage = { prompt_tokens: 12, completion_tokens: words.length, total_tokens: 12 + words.length }
  const choice = { index: 0, message: { role: "assistant", content: wholeText, refusal: null }, finish_reason: "stop" }
  if (wire === "chat")
    return { id: "chatcmpl-soak", object: "chat.completion", created: 1, model, choices: [choice], usage }
  if (wire === "messages")
    return {
      id: "msg_soak",
      type: "message",
      role: "assistant",
      model,
      content: [{ type: "text", text: wholeText }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: { input_tokens: 12, output_tokens: words.length }
    }
  const last = answerOf(wire, model).tail.at(-1) ?? ""
  return (JSON.parse(last.slice(last.indexOf("data: ") + 6)) as { readonly response: unknown }).response
}

interface Call {
  readonly wire: WireName
  readonly model: string
  readonly streams: boolean
  readonly response: ServerResponse
}

const refuse = ({ wire, response }: Call, status: number, type: string, headers: Record<string, string> = {}): void => {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(JSON.stringify(errorOf(wire, type, null, "The soak refuses this request.")))
}

interface Course {
  /** Words before the connection breaks. */
  readonly dies?: number
  readonly garbage?: boolean
  readonly withoutDone?: boolean
}

const streamed = async ({ wire, model, response }: Call, course: Course): Promise<void> => {
  const { head, word, tail } = answerOf(wire, model)
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.write(head.join(""))
  for (let from = 0; from < words.length; from += burst) {
    if (response.destroyed) return
    if (course.dies !== undefined && from >= course.dies) return void response.destroy()
    if (course.garbage === true && from === burst) response.write('data: {"this is": not JSON\n\n')
    response.write(
      words
        .slice(from, from + burst)
        .map((_, index) => word(from + index))
        .join("")
    )
    await sleep(pauseMillis)
  }
  response.end(tail.filter((event) => course.withoutDone !== true || !event.includes("[DONE]")).join(""))
}

const answered = (call: Call, course: Course = {}): Promise<void> | void => {
  if (call.streams) return streamed(call, course)
  const text = JSON.stringify(wholeOf(call.wire, call.model))
  call.response.writeHead(200, { "content-type": "application/json", "content-length": String(text.length) })
  if (course.dies === undefined) return void call.response.end(text)
  call.response.write(text.slice(0, text.length / 2))
  return sleep(5).then(() => void call.response.destroy())
}

/** What happens to the first request for a model of this name; every later one is answered. */
const faults: Readonly<Record<string, (call: Call) => Promise<void> | void>> = {
  limited: (call) => refuse(call, 429, "rate_limit_error", { "retry-after": "1" }),
  failing: (call) => refuse(call, 500, "server_error"),
  overloaded: (call) => refuse(call, 529, "overloaded_error"),
  reset: (call) => call.response.socket?.resetAndDestroy() && undefined,
  cut: (call) => answered(call, { dies: 30 }),
  garbage: (call) => answered(call, { garbage: true }),
  endless: (call) => answered(call, { withoutDone: true }),
  // A page in the place of a body is no fault that passes; in the place of a stream it is told apart by its kind.
  page: (call) =>
    call.streams
      ? void call.response.writeHead(200, { "content-type": "text/html" }).end("<html>Hello</html>")
      : refuse(call, 502, "server_error"),
  silent: ({ response }) => sleep(20_000).then(() => void response.destroy())
}

/** How often each of the latest models was asked for, all requests, and those that came more often than they need. */
const asked = new Map<string, number>()
const keptNames = 20_000
let requests = 0
const tooOften = new Map<string, number>()

const bodyOf = async (request: IncomingMessage): Promise<{ readonly model: string; readonly stream?: boolean }> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString("utf8")) as { readonly model: string; readonly stream?: boolean }
}

const sockets = new Set<Socket>()

const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  if (request.url === "/told") {
    // The socket of this very question is no gateway's.
    return void response.end(JSON.stringify({ requests, tooOften: [...tooOften], sockets: sockets.size - 1 }))
  }
  const wire = wires.find((one) => request.url === pathOf[one])
  if (wire === undefined) return void response.writeHead(404).end("{}")
  const { model, stream } = await bodyOf(request)
  const before = asked.get(model) ?? 0
  asked.set(model, before + 1)
  if (asked.size > keptNames) asked.delete(asked.keys().next().value ?? "")
  requests += 1
  const fault = faults[model.split(":")[0] ?? ""]
  const expected = fault === undefined || model.startsWith("endless") ? 1 : 2
  if (model.includes(":") && before >= expected) tooOften.set(`${wire} ${model}`, before + 1)
  const call = { wire, model, streams: stream === true, response }
  await (before === 0 && fault !== undefined ? fault(call) : answered(call))
}

const server = createServer((request, response) => {
  answer(request, response).catch(() => response.destroy())
})
server.on("connection", (socket) => {
  sockets.add(socket)
  socket.on("close", () => sockets.delete(socket))
})
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (address !== null && typeof address === "object") console.log(address.port)
})
process.stdin.on("end", () => process.exit(0)).resume()
