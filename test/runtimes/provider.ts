/** A provider of both wires on loopback: every first request meets an overload. */
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

type Json = Readonly<Record<string, unknown>>

const events = (response: ServerResponse, data: ReadonlyArray<Json | string>): void => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  for (const one of data) response.write(`data: ${typeof one === "string" ? one : JSON.stringify(one)}\n\n`)
  response.end()
}

const json = (response: ServerResponse, status: number, body: Json): void => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
}

const call = { id: "c1", type: "function", function: { name: "add", arguments: "{}" } }

const chat = (response: ServerResponse, body: Json): void => {
  const chunk = (delta: Json, finish: string | null): Json => ({
    choices: [{ index: 0, delta, finish_reason: finish }]
  })
  if (body["stream"] === true)
    return events(response, [chunk({ role: "assistant", content: "fine" }, null), chunk({}, "stop"), "[DONE]"])
  const messages = Array.isArray(body["messages"]) ? body["messages"] : []
  const wantsTool = body["tools"] !== undefined && messages.length === 1
  const message = {
    role: "assistant",
    content: wantsTool ? null : "fine",
    ...(wantsTool ? { tool_calls: [call] } : {})
  }
  json(response, 200, { choices: [{ index: 0, finish_reason: wantsTool ? "tool_calls" : "stop", message }] })
}

const messages = (response: ServerResponse, body: Json): void => {
  if (body["stream"] === true)
    return events(response, [
      { type: "message_start", message: {} },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "fine" } },
      { type: "message_delta", delta: { stop_reason: "end_turn" } },
      { type: "message_stop" }
    ])
  json(response, 200, {
    type: "message",
    role: "assistant",
    content: [{ type: "text", text: "fine" }],
    stop_reason: "end_turn"
  })
}

export const provider = async (): Promise<{ readonly origin: string; readonly close: () => void }> => {
  let requests = 0
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => {
      requests += 1
      if (requests % 5 === 1) return json(response, 529, { error: { type: "overloaded_error" } })
      const body: Json = JSON.parse(Buffer.concat(parts).toString())
      return request.url?.includes("messages") === true ? messages(response, body) : chat(response, body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  return { origin: `http://127.0.0.1:${port}`, close: () => server.close() }
}
