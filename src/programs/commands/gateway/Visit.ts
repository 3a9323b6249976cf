/** One request on its way through the gateway, and who may come in at all. */
import type { IncomingMessage, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { AnswerWire } from "./answers.ts"
import type { Budgets } from "./budgets.ts"
import type { Endpoint, Target } from "./endpoints.ts"
import type { FailedLately } from "./failedLately.ts"
import { isLoopback, type GatewayConfig, type GatewayKey, type ResolvedRoute } from "./GatewayConfig.ts"
import type { GatewayParts } from "./GatewayParts.ts"
import { headersOnward } from "./httpBridge.ts"
import type { Runs } from "./runs.ts"

export interface Visit {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly parts: GatewayParts
  readonly budgets: Budgets
  readonly runs: Runs
  readonly failedLately: FailedLately
  readonly key: GatewayKey | null
  readonly endpoint: Endpoint
  readonly target: Target
  readonly wire: AnswerWire
}

/** Whether the other end of a connection is this machine. */
const isLocal = (socket: Socket): boolean => isLoopback((socket.remoteAddress ?? "").replace(/^::ffff:/, ""))

export const isOpenToAll = (endpoint: Endpoint): boolean => endpoint._tag === "Health" || endpoint._tag === "Ready"

/** Whether a browser sent it for a page of another site: such a page reaches the loopback like any program of this machine. */
export const isForeign = (config: GatewayConfig, { headers: { origin } }: IncomingMessage): boolean => {
  if (config.keys.length > 0 || origin === undefined) return false
  // A page in a frame of its own has no name. Programs with pages of their own (editors) have other schemes.
  if (origin === "null") return true
  return /^https?:/i.test(origin) && !(URL.canParse(origin) && isLoopback(new URL(origin).hostname))
}

/** Pages of the gateway are for this machine, and for those who have a key; its API is for those who have a key. */
export const mayEnter = (
  endpoint: Endpoint,
  config: GatewayConfig,
  key: GatewayKey | null,
  socket: Socket
): boolean => {
  if (isOpenToAll(endpoint)) return true
  if (config.keys.length === 0) return isLocal(socket)
  const isOwnPage = ["Metrics", "Trail", "Dashboard"].includes(endpoint._tag)
  return key !== null || (isOwnPage && isLocal(socket))
}

/** A gateway without keys and an upstream without one pass the caller's own on: that is what it is there for. */
export const onwardFor = (visit: Visit, route: ResolvedRoute | null): Record<string, string> => {
  const headers = headersOnward(visit.request)
  if (visit.parts.config.keys.length > 0 || (route !== null && route.upstream.apiKey !== null)) return headers
  for (const name of ["authorization", "x-api-key", "api-key"]) {
    const value = visit.request.headers[name]
    if (typeof value === "string") headers[name] = value
  }
  return headers
}
