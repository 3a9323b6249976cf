/** The Responses a native client gets: the provider's own headers, and failures in the API's own words. */
import { retryAfterOf, statusOf, toldOf, trailHeader } from "../../domain/wires/native/failureAnswer.ts"
import type { NativeWire } from "../../domain/wires/native/NativeWire.ts"
import type { Trail } from "../../domain/failure/Trail.ts"
import { isModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import { causeOf } from "../../domain/wires/native/failureAnswer.ts"
import { parsedObject } from "../../domain/chat/json.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import type { FailedAnswer } from "../provider/nativeSender.ts"
import { failureHeader } from "./failureStore.ts"

/** Headers of one hop, and those that speak of bytes as they travelled: a fetch has unpacked them. */
const dropped = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-length",
  "content-encoding"
]

export const passedHeaders = (from: Headers): Headers => {
  const headers = new Headers(from)
  for (const name of dropped) headers.delete(name)
  return headers
}

/** What recovery did, where there was more than one request, and what it could not do. */
export const withTrail = (headers: Headers, trail: Trail, off: string | null): Headers => {
  if (trail.length > 1) headers.set("x-holdfast-trail", trailHeader(trail))
  if (off !== null) headers.set("x-holdfast-off", off)
  return headers
}

export interface FailedCall {
  /** null = the call is of none of the three APIs. */
  readonly wire: NativeWire | null
  readonly failure: RequestFailure
  readonly trail: Trail
  readonly off: string | null
  readonly id: string
  readonly wallMillis: number
  /** The last refused answer, with the error it was read as. */
  readonly answer: { readonly raw: FailedAnswer; readonly error: ModelError } | null
}

const isSame = (error: ModelError, cause: ModelError | null): boolean =>
  cause !== null && error.kind === cause.kind && error.status === cause.status && error.code === cause.code

/** The provider's own body, when the failure is the provider's and the body is an error of the API. */
const ownBody = ({ failure, answer, wire }: FailedCall): string | null => {
  if (answer === null || !isSame(answer.error, causeOf(failure))) return null
  if (
    !isModelError(failure) &&
    failure._tag !== "RecoveryRetriesExhausted" &&
    failure._tag !== "RecoveryDeadlineExceeded"
  )
    return null
  const body = parsedObject(answer.raw.text)
  if (wire === null || isModelError(failure)) return answer.raw.text
  return body !== null && body["error"] !== undefined && body["error"] !== null ? answer.raw.text : null
}

/** A failure as a Response: the status that makes an SDK throw the right class, and no reason to try again. */
export const failureResponse = (call: FailedCall): Response => {
  const { wire, failure, answer } = call
  const own = ownBody(call)
  const headers = own !== null && answer !== null ? passedHeaders(answer.raw.headers) : new Headers()
  const body =
    own ??
    JSON.stringify(wire === null ? { error: { message: failure.message } } : wire.errorBody(toldOf(wire, failure)))
  if (own === null) headers.set("content-type", "application/json")
  headers.set("x-should-retry", "false")
  headers.set("x-holdfast-trail", trailHeader(call.trail))
  headers.set(failureHeader, call.id)
  if (call.off !== null) headers.set("x-holdfast-off", call.off)
  const wait = retryAfterOf(failure, call.wallMillis)
  if (wait !== null && !headers.has("retry-after")) headers.set("retry-after", String(wait))
  return new Response(body, { status: statusOf(failure), headers })
}
