/** What can happen to a model call, each once or always, at the step where it hurts. */
import { errorBody, errorEvent, eventsOf, type Shape } from "./answers.ts"
import type { Call } from "./provider.ts"

export interface Fault {
  /** 0: the call that reads; 1: the call that writes; 2: the text at the end. */
  readonly step: number
  /** How many requests of the step meet the fault. */
  readonly times: number
  /** Whether an agent can finish in spite of it. */
  readonly isRecoverable: boolean
  readonly run: (call: Call) => Promise<void> | void
}

const sleep = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

const refusal =
  (status: number, type: string, code: string | null, message: string, headers: Record<string, string> = {}) =>
  ({ wire, response }: Call): void => {
    response.writeHead(status, { "content-type": "application/json", ...headers })
    response.end(JSON.stringify(errorBody(wire, type, code, message)))
  }

interface Course extends Shape {
  /** Pieces of text or arguments before `then`; all of them by default. */
  readonly pieces?: number
  readonly firstAfter?: number
  readonly then?: "cut" | "silence" | "overloaded" | "api_error"
  readonly garbageAt?: number
}

const streamed =
  (course: Course) =>
  async ({ wire, model, turn, response }: Call): Promise<void> => {
    const events = eventsOf(wire, model, turn, course)
    response.writeHead(200, { "content-type": "text/event-stream" })
    response.flushHeaders()
    if (course.firstAfter !== undefined) await sleep(course.firstAfter)
    const count = course.pieces === undefined ? events.all.length : events.head + course.pieces
    for (const [index, event] of events.all.slice(0, count).entries()) {
      if (response.destroyed) return
      if (index === course.garbageAt) response.write('data: {"this is": not JSON\n\n')
      response.write(event)
      await sleep(2)
    }
    if (course.then === "cut") return void response.destroy()
    if (course.then === "silence") return void (await sleep(120_000))
    if (course.then !== undefined) response.write(errorEvent(wire, course.then))
    response.end()
  }

const text = (course: Course, times = 1): Fault => ({ step: 2, times, isRecoverable: true, run: streamed(course) })
const call = (course: Course, times = 1): Fault => ({ step: 1, times, isRecoverable: true, run: streamed(course) })
const once = (run: Fault["run"]): Fault => ({ step: 1, times: 1, isRecoverable: true, run })
const always = (run: Fault["run"]): Fault => ({ step: 1, times: Infinity, isRecoverable: false, run })

/** The second of two calls with one index brings its own identifier and name: both are whole. */
const twoCallsOfOneIndex = ({ model, turn, response }: Call): void => {
  const args = turn._tag === "Call" ? turn.args : "{}"
  const name = turn._tag === "Call" ? turn.name : ""
  const chunk = (delta: object, finish: string | null = null) =>
    `data: ${JSON.stringify({ id: "chatcmpl-a", object: "chat.completion.chunk", created: 1, model, choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
  const one = (id: string) =>
    chunk({ tool_calls: [{ index: 0, id, type: "function", function: { name, arguments: args } }] })
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.end(
    [chunk({ role: "assistant" }), one("call_1"), one("call_1b"), chunk({}, "tool_calls"), "data: [DONE]\n\n"].join("")
  )
}

const limited = (headers: Record<string, string> = {}) =>
  refusal(429, "rate_limit_error", "rate_limit_exceeded", "Rate limit reached. Please try again.", headers)
const overloaded = refusal(503, "server_error", null, "The server is overloaded.")

export const faults: Readonly<Record<string, Fault>> = {
  healthy: { step: -1, times: 0, isRecoverable: true, run: () => undefined },
  "429-hint": once(limited({ "retry-after": "2" })),
  "429-bare": once(limited()),
  "529": once(refusal(529, "overloaded_error", null, "Overloaded")),
  "503": once(overloaded),
  "503-always": always(overloaded),
  "500": once(refusal(500, "server_error", null, "Internal server error")),
  "overload-before": text({ pieces: 0, then: "overloaded" }),
  "overload-after": text({ pieces: 4, then: "overloaded" }),
  "api-error-before": text({ pieces: 0, then: "api_error" }),
  "api-error-after": text({ pieces: 4, then: "api_error" }),
  "cut-before": text({ pieces: 0, then: "cut" }),
  "cut-after": text({ pieces: 4, then: "cut" }),
  "cut-in-call": call({ pieces: 2, then: "cut" }),
  "silence-before": once(() => sleep(120_000)),
  "silence-after": text({ pieces: 4, then: "silence" }),
  empty: text({ isEmpty: true }),
  "length-text": text({ isShort: true }),
  "length-call": call({ isShort: true }),
  garbage: text({ garbageAt: 4 }),
  "no-done": text({ withoutDone: true }, Infinity),
  html: once(
    ({ response }) =>
      void response.writeHead(200, { "content-type": "text/html" }).end("<html><body>Welcome</body></html>")
  ),
  "json-body": once(refusal(200, "server_error", null, "Try again.")),
  overflow: {
    ...always(
      refusal(
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 8192 tokens."
      )
    )
  },
  filter: always(
    refusal(400, "invalid_request_error", "content_policy_violation", "The content was refused by the filter.")
  ),
  reset: once(({ request }) => void request.socket.resetAndDestroy()),
  "slow-first": text({ firstAfter: 2_000 }),
  quota: always(
    refusal(
      429,
      "insufficient_quota",
      "insufficient_quota",
      "You exceeded your current quota, check your plan and billing details."
    )
  ),
  auth: always(refusal(401, "authentication_error", "invalid_api_key", "Incorrect API key provided.")),
  "no-model": always(refusal(404, "invalid_request_error", "model_not_found", "The model does not exist.")),
  "odd-finish": text({ finish: "ended_well" }, Infinity),
  "no-usage": text({ withoutUsage: true }, Infinity),
  "one-index": { ...once((one) => (one.wire === "chat" ? twoCallsOfOneIndex(one) : streamed({})(one))) }
}
