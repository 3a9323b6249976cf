/** A provider on loopback for tests with real sockets: counts what is open, ends with the scope. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo, Socket } from "node:net"

export type Answer = (request: IncomingMessage, response: ServerResponse, body: Record<string, unknown>) => void

export interface Provider {
  readonly baseUrl: string
  /** Bodies that arrived. */
  readonly bodies: Array<Record<string, unknown>>
  /** Requests whose answer is not over and whose client has not gone. */
  readonly open: () => number
  readonly closed: () => number
}

export const provider = (answer: Answer) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const bodies: Array<Record<string, unknown>> = []
      const sockets = new Set<Socket>()
      let open = 0
      let closed = 0
      const server = createServer((request, response) => {
        open += 1
        response.once("close", () => {
          open -= 1
          closed += 1
        })
        const parts: Array<Buffer> = []
        request.on("data", (part: Buffer) => parts.push(part))
        request.on("end", () => {
          const body = JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>
          bodies.push(body)
          answer(request, response, body)
        })
      })
      server.on("connection", (socket) => sockets.add(socket))
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      const { port } = server.address() as AddressInfo
      return {
        server,
        sockets,
        provider: {
          baseUrl: `http://127.0.0.1:${port}/v1`,
          bodies,
          open: () => open,
          closed: () => closed
        } satisfies Provider
      }
    }),
    ({ server, sockets }) =>
      Effect.promise(
        () =>
          new Promise<void>((resolve) => {
            for (const socket of sockets) socket.destroy()
            server.close(() => resolve())
          })
      )
  ).pipe(Effect.map((made) => made.provider))

export const json = (
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {}
): void => {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body))
}

/** Waits, in real time and bounded, until a condition holds. */
export const until = (condition: () => boolean) =>
  Effect.gen(function* () {
    for (let turn = 0; turn < 500 && !condition(); turn += 1) yield* Effect.sleep(10)
    assert.isTrue(condition())
  })

export const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length
