/** A server on loopback that makes responses on its own and keeps their events: cut as often as a test wants. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { bodyOf, eventTexts, type Script } from "./nativeScripts.ts"

export interface KeptServer {
  readonly baseUrl: string
  /** Method and path of every request, in order. */
  readonly asked: ReadonlyArray<string>
  readonly close: () => Promise<void>
}

export interface KeptOptions {
  readonly script: Script
  /** Events that one connection brings before it is reset; the last one brings the rest. */
  readonly perConnection: number
  /** Connections that are reset. */
  readonly cuts: number
  /** The last connection stays silent behind its events: the work goes on. */
  readonly isSlow?: boolean
  /**
   * What a request for the rest is answered with before it is given, once each: a status, or a body in place of the stream, of
   * a response that still runs or of the whole one.
   */
  readonly refusals?: ReadonlyArray<number | "running" | "whole">
}

const readAll = async (request: IncomingMessage): Promise<void> => {
  for await (const _ of request);
}

export const keptServer = async (options: KeptOptions): Promise<KeptServer> => {
  const events = eventTexts("responses", options.script)
  const asked: Array<string> = []
  const refusals = [...(options.refusals ?? [])]
  let streams = 0

  const bring = (from: number, request: IncomingMessage, response: ServerResponse): void => {
    streams += 1
    const isLast = streams > options.cuts
    const until = isLast && options.isSlow !== true ? events.length : from + options.perConnection
    response.writeHead(200, { "content-type": "text/event-stream" })
    response.write(events.slice(from, until).join(""))
    if (until >= events.length) response.end()
    // What was written must arrive before the reset.
    else if (!isLast) setTimeout(() => request.socket.resetAndDestroy(), 10)
  }

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    await readAll(request)
    const url = new URL(request.url ?? "", "http://kept.test")
    asked.push(`${request.method} ${url.pathname}${url.search}`)
    if (url.pathname.endsWith("/cancel")) {
      response.writeHead(200, { "content-type": "application/json" }).end("{}")
      return
    }
    if (request.method === "POST") return bring(0, request, response)
    const refusal = refusals.shift()
    if (refusal === undefined) return bring(Number(url.searchParams.get("starting_after")) + 1, request, response)
    if (typeof refusal === "string") {
      const whole = bodyOf("responses", options.script)
      const body = refusal === "whole" ? whole : { ...whole, status: "in_progress", output: [] }
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body))
      return
    }
    response.writeHead(refusal, { "content-type": "application/json" }).end('{"error":{"code":"busy"}}')
  }

  const server = createServer((request, response) => void answer(request, response))
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      })
  }
}
