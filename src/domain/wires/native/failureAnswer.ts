/** What a client of an API gets when recovery has given up: a status, and a failure in that API's own words. Pure. */
import type { BudgetExceeded } from "../../failure/AgentError.ts"
import type { FaultKind } from "../../failure/FaultKind.ts"
import { waitOf } from "../../failure/Hint.ts"
import { isModelError, type ModelError } from "../../failure/ModelError.ts"
import type { RecoveryError } from "../../failure/RecoveryError.ts"
import type { Trail, TrailEntry } from "../../failure/Trail.ts"
import type { NativeWire, ToldFailure } from "./NativeWire.ts"

export type NativeFailure = ModelError | RecoveryError | BudgetExceeded

/** Status of a failure that had none of its own. */
const statusOfKind: { readonly [K in FaultKind]: number } = {
  rate_limited: 429,
  quota_exhausted: 429,
  overloaded: 503,
  prompt_too_long: 400,
  server_error: 500,
  timeout: 504,
  connection: 502,
  interrupted: 502,
  auth: 401,
  permission: 403,
  not_found: 404,
  invalid_request: 400,
  payload_too_large: 413,
  content_filtered: 400,
  malformed_response: 502,
  empty_reply: 502
}

const isErrorStatus = (status: number | null): status is number => status !== null && status >= 400 && status <= 599

/** The provider's failure behind it; null = there is none. */
export const causeOf = (failure: NativeFailure): ModelError | null => {
  if (isModelError(failure)) return failure
  const { cause } = failure
  return isModelError(cause) ? cause : null
}

const statusOfModel = (error: ModelError): number =>
  isErrorStatus(error.status) ? error.status : statusOfKind[error.kind]

export const statusOf = (failure: NativeFailure): number => {
  if (isModelError(failure)) return statusOfModel(failure)
  switch (failure._tag) {
    case "BudgetExceeded":
      return 402
    case "PromptTooLongRetryError":
      return 400
    default: {
      const cause = causeOf(failure)
      if (cause !== null) return statusOfModel(cause)
      return failure._tag === "RecoveryDeadlineExceeded" ? 504 : 502
    }
  }
}

const kindOf = (failure: NativeFailure): string => {
  if (isModelError(failure)) return failure.kind
  if (failure._tag === "BudgetExceeded") return "budget"
  if (failure._tag === "PromptTooLongRetryError") return "prompt_too_long"
  const cause = causeOf(failure)
  if (cause !== null) return cause.kind
  return failure._tag === "RecoveryDeadlineExceeded" ? "timeout" : "server_error"
}

/** The provider's own words come first: they are what the client's user can look up. */
export const toldOf = (wire: NativeWire, failure: NativeFailure): ToldFailure => {
  const cause = causeOf(failure)
  const { type, code } = wire.told(kindOf(failure))
  const own = `${failure.message}. ${failure.guidance}`
  return {
    message: cause?.providerMessage ?? own,
    type,
    code: wire.name === "messages" ? code : (cause?.code ?? code)
  }
}

/** Whole seconds to wait; null = nobody said. */
export const retryAfterOf = (failure: NativeFailure, wallMillis: number): number | null => {
  if ("retryAt" in failure && failure.retryAt !== null)
    return Math.max(0, Math.ceil((failure.retryAt - wallMillis) / 1000))
  const hint = causeOf(failure)
    ?.hints.map((one) => waitOf(one, wallMillis))
    .find((wait) => wait !== null)
  return hint === undefined || hint === null ? null : Math.ceil(hint / 1000)
}

/** Longest value of a header, in characters. */
const longestHeader = 4_000

const lineOf = (entry: TrailEntry) => ({
  ...(entry.attempt === null ? { role: entry.role } : { attempt: entry.attempt }),
  model: entry.model,
  status: entry.status,
  outcome: entry.outcome,
  ...(entry.code === null ? {} : { code: entry.code }),
  ...(entry.providerRequestId === null ? {} : { requestId: entry.providerRequestId }),
  ms: Math.round(entry.durationMs),
  ...(entry.waitMs === null ? {} : { waitMs: Math.round(entry.waitMs) })
})

const asciiJson = (value: unknown): string =>
  JSON.stringify(value).replace(/[^\x20-\x7e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** The trail as one header: JSON, the first and the last entries when there are too many. */
export const trailHeader = (trail: Trail): string => {
  const lines = trail.map(lineOf)
  const whole = asciiJson(lines)
  if (whole.length <= longestHeader) return whole
  for (let kept = Math.min(lines.length - 1, 20); kept > 1; kept -= 1) {
    const half = Math.floor(kept / 2)
    const some = [...lines.slice(0, kept - half), { left: lines.length - kept }, ...lines.slice(-half)]
    const text = asciiJson(some)
    if (text.length <= longestHeader) return text
  }
  return asciiJson([{ left: lines.length }])
}
