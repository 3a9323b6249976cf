/** What a request is told at the door: how it is written, who asks, and whether there is room. */
import type { IncomingMessage } from "node:http"
import { jsonAnswer, type Answer } from "./Answer.ts"
import * as answers from "./answers.ts"
import type { AnswerWire } from "./answers.ts"
import { servedMethods, type Endpoint } from "./endpoints.ts"
import type { GatewayKey } from "./GatewayConfig.ts"
import type { GatewayParts } from "./GatewayParts.ts"
import { isForeign, isOpenToAll, mayEnter } from "./Visit.ts"

/** Chunks are the only coding a body may be sent in; a request of today's HTTP names its host. */
const flawOf = ({ headers, httpVersion }: IncomingMessage): string | null => {
  if (headers.host === undefined && httpVersion === "1.1") return "The header Host is missing."
  const coding = headers["transfer-encoding"]
  return coding === undefined || coding.trim().toLowerCase() === "chunked"
    ? null
    : "The header Transfer-Encoding names more than chunked."
}

/** Calls of the API need room; the gateway's own pages are there when it is full, too. */
export const needsRoom = ({ _tag }: Endpoint): boolean => _tag === "Native" || _tag === "Proxied" || _tag === "Models"

/** How the gateway stands when a request arrives. */
export interface Standing {
  readonly parts: GatewayParts
  readonly inFlight: number
  readonly isDraining: boolean
}

interface Arrival {
  readonly request: IncomingMessage
  readonly endpoint: Endpoint
  readonly wire: AnswerWire
  readonly key: GatewayKey | null
}

/** What a request is told before anything of its body is read; null = it may come in. */
export const refusalOf = (standing: Standing, { request, endpoint, wire, key }: Arrival): Answer | null => {
  const { parts, isDraining, inFlight } = standing
  const flaw = flawOf(request)
  if (flaw !== null) return answers.badRequest(wire, flaw)
  if (endpoint._tag === "Unserved") return answers.unserved(wire, servedMethods)
  if (!mayEnter(endpoint, parts.config, key, request.socket)) return answers.unauthorized(wire)
  if (isForeign(parts.config, request)) return answers.foreignOrigin(wire)
  if (/\bwebsocket\b/i.test(request.headers.upgrade ?? "")) return answers.noUpgrade(wire)
  if (isDraining && endpoint._tag === "Ready") return jsonAnswer(503, { ready: false })
  if (isDraining && !isOpenToAll(endpoint)) return answers.busy(wire, 1, "The gateway is about to stop.")
  return needsRoom(endpoint) && inFlight > parts.config.concurrent
    ? answers.busy(wire, 1, "The gateway has as many requests under way as it takes.")
    : null
}
