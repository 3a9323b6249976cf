/** A drill's provider as a server on 127.0.0.1, in real time. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { parsedOrText } from "../../../domain/chat/json.ts"
import { expandSse, sseText, type ProviderStep, type Scenario } from "./Scenario.ts"
import {
  endOfScript,
  headersOf,
  jsonHeaders,
  makeBook,
  roleHeader,
  type DrillProvider,
  type ScriptBook
} from "./ScriptBook.ts"
import type { Render } from "./inProcessProvider.ts"

export interface Loopback extends DrillProvider {
  readonly baseUrl: string
  readonly close: () => Promise<void>
}

const readBody = async (request: IncomingMessage): Promise<unknown> => {
  const parts: Array<Buffer> = []
  for await (const part of request) parts.push(part)
  const text = Buffer.concat(parts).toString("utf8")
  return text === "" ? null : parsedOrText(text)
}

const pause = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

/** Writes the events of a step, with their waits, and ends the line as the step says. */
const stream = async (step: ProviderStep, request: IncomingMessage, response: ServerResponse): Promise<void> => {
  response.flushHeaders()
  const closed = new Promise<void>((resolve) => response.once("close", resolve))
  for (const item of expandSse(step.sse ?? [])) {
    if (response.destroyed) return
    if (item.waitMs !== undefined) await Promise.race([pause(item.waitMs), closed])
    else response.write(sseText(item))
  }
  if (step.end === "reset") {
    // What was written must arrive before the reset.
    await pause(5)
    request.socket.resetAndDestroy()
  } else if (step.end !== "hang") response.end()
}

const send = async (
  book: ScriptBook,
  step: ProviderStep,
  request: IncomingMessage,
  response: ServerResponse
): Promise<void> => {
  response.once("close", book.open())
  if (step.delayMs !== undefined) await pause(step.delayMs)
  if (step.network === "hang") return
  if (step.network !== undefined) {
    request.socket.destroy()
    return
  }
  const kind = step.sse === undefined ? jsonHeaders : { "content-type": "text/event-stream" }
  response.writeHead(step.http ?? 200, Object.fromEntries(headersOf(step, kind)))
  if (step.sse !== undefined) return stream(step, request, response)
  response.end(step.rawBody ?? JSON.stringify(book.bodyOf(step)))
}

const listen = (server: Server): Promise<AddressInfo> =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address() as AddressInfo)))

/** `render`: makes the step that the script has into the one a request is answered with. */
export const loopback = async (scenario: Scenario, render: Render = (step) => step): Promise<Loopback> => {
  const book = makeBook(scenario)
  const startedAt = performance.now()
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const role = request.headers[roleHeader]
    const body = await readBody(request)
    const step = book.next(typeof role === "string" ? role : "main", body, performance.now() - startedAt)
    const path = new URL(request.url ?? "/", "http://127.0.0.1").pathname
    if (step !== null) return send(book, render(step, { path, body }), request, response)
    response.writeHead(endOfScript.status, jsonHeaders).end(endOfScript.body)
  }
  const server: Server = createServer((request, response) => {
    respond(request, response).catch(() => request.socket.destroy())
  })
  const address = await listen(server)
  return {
    ...book.provider,
    baseUrl: `http://127.0.0.1:${address.port}/v1`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      })
  }
}
