/** The kinds of failure a provider or the network can cause, and the statuses each may come with. */
import * as Schema from "effect/Schema"

export const FaultKind = Schema.Literals([
  "rate_limited",
  "quota_exhausted",
  "overloaded",
  "prompt_too_long",
  "server_error",
  "timeout",
  "connection",
  "interrupted",
  "auth",
  "permission",
  "not_found",
  "invalid_request",
  "payload_too_large",
  "content_filtered",
  "malformed_response",
  "empty_reply"
])
export type FaultKind = typeof FaultKind.Type

/** Status of a failure that came inside a 200. */
export const inBandStatus = 200

const isServerError = (status: number): boolean => status >= 500 && status <= 599

const isClientError = (status: number): boolean => status >= 400 && status <= 499

/** A success inside which something failed, a redirect, or a number that is no status: never an answer of the API. */
const isNoError = (status: number): boolean => !isClientError(status) && !isServerError(status)

const legal: { readonly [K in FaultKind]: (status: number | null) => boolean } = {
  rate_limited: (status) => status === 429 || status === 402 || status === inBandStatus,
  quota_exhausted: (status) => status !== null && [400, 402, 403, 412, 429, inBandStatus].includes(status),
  // null: its route is shut, nothing was sent.
  overloaded: (status) => status === null || [529, 503, 498, 429, inBandStatus].includes(status),
  // Any failed status but the two that say by themselves what to do: wait.
  prompt_too_long: (status) =>
    status !== null && status !== 429 && status !== 529 && (!isNoError(status) || status === inBandStatus),
  server_error: (status) => status !== null && (isServerError(status) || status === 424 || status === inBandStatus),
  timeout: (status) => status === null || [408, 504, 522, 524, inBandStatus].includes(status),
  connection: (status) => status === null,
  interrupted: (status) => status === null || status === inBandStatus,
  auth: (status) => status !== null && [401, 403, 404, 400, inBandStatus].includes(status),
  permission: (status) => status !== null && [401, 403, 404, 400, inBandStatus].includes(status),
  not_found: (status) => status !== null && [401, 403, 404, 410, 400, inBandStatus].includes(status),
  // null: refused here, before it was sent.
  invalid_request: (status) => status === null || isClientError(status) || status === inBandStatus,
  payload_too_large: (status) => status === 413 || status === inBandStatus,
  content_filtered: (status) => status !== null && [400, 403, inBandStatus].includes(status),
  malformed_response: (status) => status !== null && isNoError(status),
  empty_reply: (status) => status === inBandStatus
}

/** Whether a failure of this kind may come with this status; null = no answer came. */
export const isLegal = (kind: FaultKind, status: number | null): boolean => legal[kind](status)

/** The kind of an HTTP status when no code decides. A redirect is no answer: the base URL is not the API's. */
export const kindOfStatus = (status: number): FaultKind => {
  switch (status) {
    case 401:
      return "auth"
    case 402:
      return "quota_exhausted"
    case 403:
      return "permission"
    case 404:
    case 410:
      return "not_found"
    case 408:
    case 504:
    case 522:
    case 524:
      return "timeout"
    case 413:
      return "payload_too_large"
    case 429:
      return "rate_limited"
    case 529:
      return "overloaded"
    default:
      if (isClientError(status)) return "invalid_request"
      return isServerError(status) ? "server_error" : "malformed_response"
  }
}
