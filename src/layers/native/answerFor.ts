/** The answers a native client gets: the provider's own headers, and failures in the API's own words. */
import { retryAfterOf, statusOf, toldOf, trailHeader } from "../../domain/wires/native/failureAnswer.ts"
import type { NativeWire } from "../../domain/wires/native/NativeWire.ts"
import type { Trail } from "../../domain/failure/Trail.ts"
import { isModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import { causeOf } from "../../domain/wires/native/failureAnswer.ts"
import { parsedObject } from "../../domain/chat/json.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import type { FailedAnswer } from "../provider/nativeSender.ts"
import { valueIn, withLine, type HeadLines } from "../../programs/request/ByteSource.ts"
import { failureHeader } from "./failureStore.ts"
import type { NativeResponse } from "./NativeResponse.ts"

/** Headers of one hop, and those that speak of bytes as they travelled: a fetch has unpacked them. */
const dropped: ReadonlySet<string> = new Set([
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
])

export const passedLines = (lines: HeadLines): HeadLines => lines.filter(([name]) => !dropped.has(name))

/** What recovery did, where there was more than one request, and what it could not do. */
export const withTrail = (lines: HeadLines, trail: Trail, off: string | null): HeadLines => {
  const told = trail.length > 1 ? withLine(lines, "x-holdfast-trail", trailHeader(trail)) : lines
  return off === null ? told : withLine(told, "x-holdfast-off", off)
}

export interface FailedCall {
  /** null = the call is of none of the three APIs. */
  readonly wire: NativeWire | null
  readonly failure: RequestFailure
  readonly trail: Trail
  readonly off: string | null
  readonly id: string
  readonly wallMillis: number
  /** The refused answers that are kept, the last one last. */
  readonly answers: ReadonlyArray<RefusedAnswer>
}

/** A refused answer, with the error it was read as. */
export interface RefusedAnswer {
  readonly raw: FailedAnswer
  readonly error: ModelError
}

const isSame = (error: ModelError, cause: ModelError | null): boolean =>
  cause !== null && error.kind === cause.kind && error.status === cause.status && error.code === cause.code

/** The refused answers once there is one more: of those that say the same, the last is kept. */
export const withRefused = (
  before: ReadonlyArray<RefusedAnswer>,
  answer: RefusedAnswer
): ReadonlyArray<RefusedAnswer> => [...before.filter(({ error }) => !isSame(error, answer.error)), answer]

/** The refused answer that the failure speaks of; null = it speaks of none. */
const answerBehind = ({ failure, answers }: FailedCall): RefusedAnswer | null => {
  const cause = causeOf(failure)
  return answers.findLast(({ error }) => isSame(error, cause)) ?? null
}

/** The provider's own body, when the failure is the provider's and the body is an error of the API. */
const ownBody = ({ failure, wire }: FailedCall, answer: RefusedAnswer | null): string | null => {
  if (answer === null) return null
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

/** A failure as an answer: the status that makes an SDK throw the right class, and no reason to try again. */
export const failureAnswer = (call: FailedCall): NativeResponse => {
  const { wire, failure, off } = call
  const answer = answerBehind(call)
  const own = ownBody(call, answer)
  const body =
    own ??
    JSON.stringify(wire === null ? { error: { message: failure.message } } : wire.errorBody(toldOf(wire, failure)))
  const before: HeadLines =
    own !== null && answer !== null ? passedLines(answer.raw.lines) : [["content-type", "application/json"]]
  const wait = retryAfterOf(failure, call.wallMillis)
  const told: ReadonlyArray<readonly [string, string | null]> = [
    ["x-should-retry", "false"],
    ["x-holdfast-trail", trailHeader(call.trail)],
    [failureHeader, call.id],
    ["x-holdfast-off", off],
    ["retry-after", wait === null || valueIn(before, "retry-after") !== null ? null : String(wait)]
  ]
  const lines = told.reduce((all, [name, value]) => (value === null ? all : withLine(all, name, value)), before)
  return { status: statusOf(failure), lines, body }
}
