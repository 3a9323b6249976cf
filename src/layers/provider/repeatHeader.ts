/** What tells a provider, or a gateway before it, that a request may be one it has had before. */
import { digest } from "../../domain/chat/digest.ts"
import type { WireRequest } from "../../domain/chat/ModelRequest.ts"

/** As long as providers take it; the end is what differs. */
const maxLength = 200

/** Whatever a gateway compares: another prompt, other tools or another budget is another run. */
const contentOf = ({ idempotencyKey: _key, takeUp: _takeUp, limits: _limits, ...request }: WireRequest): string =>
  digest(JSON.stringify(request))

/** The run of a gateway this request belongs to: its answer goes on when we are gone, and is given again; null = none. */
export const runIdOf = (request: WireRequest): string | null =>
  request.idempotencyKey === undefined ? null : `${digest(request.idempotencyKey)}-${contentOf(request)}`

/** The name of an answer that a gateway keeps: it comes again for the same run, whoever asks. */
export const inGateway = "gateway"

export const repeatHeader = (request: WireRequest): Readonly<Record<string, string>> => {
  const { idempotencyKey } = request
  return idempotencyKey === undefined
    ? {}
    : {
        "Idempotency-Key": encodeURIComponent(idempotencyKey.toWellFormed()).slice(-maxLength),
        "x-holdfast-run-id": runIdOf(request) ?? ""
      }
}
