/**
 * The script of a drill's provider: which step answers which request. Records every request as it was sent and counts the
 * connections that are open.
 */
import { generatedBody, makeStepQueue, type ProviderStep, type Scenario } from "./Scenario.ts"

/** Private mark of a drill's requests: which queue answers. Never recorded. */
export const roleHeader = "x-drill-role"

export interface SentRequest {
  readonly n: number
  readonly atMs: number
  readonly role: string
  readonly model: string
  readonly maxOutputTokens: number | null
  readonly body: unknown
}

export interface DrillProvider {
  readonly requests: ReadonlyArray<SentRequest>
  readonly connectionsOpen: () => number
  /** A request found no scripted answer. */
  readonly hasRunOut: () => boolean
}

export interface ScriptBook {
  readonly provider: DrillProvider
  readonly next: (role: string, body: unknown, atMs: number) => ProviderStep | null
  readonly open: () => () => void
  readonly bodyOf: (step: ProviderStep) => unknown
}

const numberAt = (body: unknown, key: string): number | null => {
  const value: unknown = typeof body === "object" && body !== null ? Reflect.get(body, key) : undefined
  return typeof value === "number" ? value : null
}

export const makeBook = (scenario: Scenario): ScriptBook => {
  const queue = makeStepQueue(scenario.provider)
  const requests: Array<SentRequest> = []
  let open = 0
  let generated = 0
  let ranOut = false
  return {
    provider: { requests, connectionsOpen: () => open, hasRunOut: () => ranOut },
    next: (role, body, atMs) => {
      const model: unknown = typeof body === "object" && body !== null ? Reflect.get(body, "model") : undefined
      requests.push({
        n: requests.length + 1,
        atMs,
        role,
        model: typeof model === "string" ? model : "",
        maxOutputTokens:
          numberAt(body, "max_tokens") ??
          numberAt(body, "max_completion_tokens") ??
          numberAt(body, "max_output_tokens"),
        body
      })
      const step = queue.take(role)
      if (step === null) ranOut = true
      return step
    },
    open: () => {
      open += 1
      let isOpen = true
      return () => {
        if (isOpen) open -= 1
        isOpen = false
      }
    },
    bodyOf: (step) => {
      if (step.generate === undefined) return step.body
      generated += 1
      return generatedBody(step.generate, generated, scenario.adapter ?? "openai")
    }
  }
}

/** The answer to a request for which the script has none. Not retryable in any preset. */
export const endOfScript = { status: 400, body: JSON.stringify({ error: { code: "script_ended" } }) }

export const jsonHeaders = { "content-type": "application/json" }

/** Header values are bytes: characters beyond them travel as their UTF-8 bytes look. */
export const headersOf = (step: ProviderStep, fallback: Readonly<Record<string, string>>): Headers => {
  const headers = new Headers(fallback)
  for (const [name, value] of Object.entries(step.headers ?? {})) headers.set(name, latin1(value))
  return headers
}

const latin1 = (value: string): string =>
  /^[\u0000-\u00ff]*$/.test(value) ? value : Buffer.from(value, "utf8").toString("latin1")

export const networkError = (code: string): Error =>
  Object.assign(new TypeError("fetch failed"), { cause: Object.assign(new Error(code), { code }) })
