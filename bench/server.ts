/**
 * The provider of the benchmarks, in a process of its own so that its work is not measured: answers every chat
 * completion at once, as one body or as a stream of `CHUNKS` chunks. Prints its port on stdout; ends with its parent.
 */
import { createServer } from "node:http"

const chunks = Number(process.argv[2] ?? 2_000)

const text = "The tide turns twice a day, and a rope that holds at high water holds at low water too. ".repeat(12)

const body = JSON.stringify({
  id: "chatcmpl-bench",
  object: "chat.completion",
  created: 1_790_000_000,
  model: "bench-1",
  choices: [{ index: 0, message: { role: "assistant", content: text, refusal: null }, finish_reason: "stop" }],
  usage: { prompt_tokens: 60, completion_tokens: 240, total_tokens: 300 }
})

const chunkOf = (delta: object, finish: string | null): string =>
  `data: ${JSON.stringify({
    id: "chatcmpl-bench",
    object: "chat.completion.chunk",
    created: 1_790_000_000,
    model: "bench-1",
    choices: [{ index: 0, delta, finish_reason: finish }]
  })}\n\n`

const words = Array.from({ length: chunks }, (_, index) => chunkOf({ content: `word${index % 97} ` }, null))
const last = `${chunkOf({}, "stop")}data: ${JSON.stringify({
  id: "chatcmpl-bench",
  object: "chat.completion.chunk",
  created: 1_790_000_000,
  model: "bench-1",
  choices: [],
  usage: { prompt_tokens: 60, completion_tokens: chunks, total_tokens: 60 + chunks }
})}\n\ndata: [DONE]\n\n`

/** Several chunks share a packet, as they do when a model is fast. */
const perWrite = Number(process.argv[3] ?? 8)
const writes: Array<string> = []
for (let at = 0; at < words.length; at += perWrite) writes.push(words.slice(at, at + perWrite).join(""))

const server = createServer((request, response) => {
  let sent = ""
  request.setEncoding("utf8")
  request.on("data", (piece: string) => {
    sent += piece
  })
  request.on("end", () => {
    if (!sent.includes('"stream":true')) {
      response.writeHead(200, { "content-type": "application/json", "x-request-id": "bench" })
      response.end(body)
      return
    }
    response.writeHead(200, { "content-type": "text/event-stream", "x-request-id": "bench" })
    let at = 0
    const next = (): void => {
      const piece = writes[at]
      at += 1
      if (piece === undefined) {
        response.end(last)
        return
      }
      response.write(piece)
      setImmediate(next)
    }
    next()
  })
})
server.keepAliveTimeout = 60_000
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (address !== null && typeof address === "object") console.log(address.port)
})
process.stdin.on("end", () => process.exit(0)).resume()
