/** Answers of the gateway's own, in the words of the API that was asked: what a client's SDK makes a typed error of. */
import { jsonAnswer, type Answer } from "./Answer.ts"

/** The wire a path belongs to; null = the gateway's own pages. */
export type AnswerWire = "chat" | "responses" | "messages" | null

export interface Refusal {
  readonly status: number
  /** Type in OpenAI's words and in Anthropic's. */
  readonly type: string
  readonly anthropicType: string
  readonly code: string | null
  readonly message: string
  readonly headers?: Record<string, string>
}

/** The client must not try again by itself: what it waits for is in Retry-After, when there is anything to wait for. */
const final = { "x-should-retry": "false" }

export const refuse = (wire: AnswerWire, refusal: Refusal): Answer => {
  const { status, type, anthropicType, code, message, headers = {} } = refusal
  const body =
    wire === "messages"
      ? { type: "error", error: { type: anthropicType, message } }
      : { error: { message, type, param: null, code } }
  return jsonAnswer(status, body, { ...final, ...headers })
}

const invalid = { type: "invalid_request_error", anthropicType: "invalid_request_error" }

export const badRequest = (wire: AnswerWire, message: string, code: string | null = null): Answer =>
  refuse(wire, { status: 400, ...invalid, code, message })

/** A method that is not served; a browser's question before its request is one, and gets no leave. */
export const unserved = (wire: AnswerWire, methods: ReadonlyArray<string>): Answer =>
  refuse(wire, {
    status: 405,
    ...invalid,
    code: "method_not_allowed",
    message: "This method is not served.",
    headers: { allow: methods.join(", ") }
  })

/** Clients that would rather speak over a WebSocket fall back to HTTP when they are told so. */
export const noUpgrade = (wire: AnswerWire): Answer =>
  refuse(wire, {
    status: 426,
    ...invalid,
    code: "upgrade_unsupported",
    message: "The gateway serves HTTP alone: ask without an upgrade of the connection.",
    headers: { connection: "close" }
  })

export const unexpected = (wire: AnswerWire): Answer =>
  refuse(wire, {
    status: 417,
    ...invalid,
    code: "expectation_failed",
    message: "The header Expect asks for something else than 100-continue.",
    headers: { connection: "close" }
  })

/** A page of another site, in a browser on this machine. */
export const foreignOrigin = (wire: AnswerWire): Answer =>
  refuse(wire, {
    status: 403,
    type: "permission_error",
    anthropicType: "permission_error",
    code: "foreign_origin",
    message: "The request comes from a page of another site. Without keys only this machine is served."
  })

export const encoded = (wire: AnswerWire): Answer =>
  refuse(wire, {
    status: 415,
    ...invalid,
    code: "unsupported_encoding",
    message: "Send the body as it is, without a content-encoding."
  })

export const tooLarge = (wire: AnswerWire, limit: number): Answer =>
  refuse(wire, {
    status: 413,
    type: "invalid_request_error",
    anthropicType: "request_too_large",
    code: "request_too_large",
    message: `The body is larger than ${limit} bytes.`,
    headers: { connection: "close" }
  })

export const unauthorized = (wire: AnswerWire): Answer =>
  refuse(wire, {
    status: 401,
    type: "authentication_error",
    anthropicType: "authentication_error",
    code: "invalid_api_key",
    message: "The key is none of this gateway's.",
    headers: { "www-authenticate": "Bearer" }
  })

export const notFound = (wire: AnswerWire, message: string, code = "not_found"): Answer =>
  refuse(wire, { status: 404, type: "invalid_request_error", anthropicType: "not_found_error", code, message })

/** A run that cannot be joined as asked. */
export const runRefused = (wire: AnswerWire, status: number, message: string): Answer =>
  refuse(wire, { status, ...invalid, code: "run_not_joined", message })

/** The gateway itself is full, or about to stop. */
export const busy = (wire: AnswerWire, seconds: number, message: string): Answer =>
  refuse(wire, {
    status: 503,
    type: "server_error",
    anthropicType: "overloaded_error",
    code: "gateway_busy",
    message,
    headers: { "retry-after": String(seconds) }
  })

export const overBudget = (wire: AnswerWire, limit: string, seconds: number): Answer =>
  refuse(wire, {
    status: 429,
    type: "insufficient_quota",
    anthropicType: "rate_limit_error",
    code: "budget_exceeded",
    message: `The budget of this key is used up (${limit}); its window is over in ${seconds} s.`,
    headers: { "retry-after": String(seconds) }
  })

/** Something broke in the gateway. Its words are in the log, without what it was working on. */
export const broken = (wire: AnswerWire): Answer =>
  refuse(wire, {
    status: 500,
    type: "server_error",
    anthropicType: "api_error",
    code: "gateway_fault",
    message: "The gateway could not handle this request."
  })
