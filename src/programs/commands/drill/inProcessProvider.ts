/** A drill's provider as an in-process fetch that answers in virtual time. */
import { parsedOrText } from "../../../domain/chat/json.ts"
import type { Fetch } from "../../../layers/provider/undiciFetch.ts"
import { expandSse, sseText, type ProviderStep, type Scenario } from "./Scenario.ts"
import {
  endOfScript,
  headersOf,
  jsonHeaders,
  makeBook,
  networkError,
  roleHeader,
  type DrillProvider,
  type ScriptBook
} from "./ScriptBook.ts"
import type { VirtualClock } from "./VirtualClock.ts"

export interface InProcess extends DrillProvider {
  readonly fetch: Fetch
}

type Signal = AbortSignal | null | undefined

/** What of a clock a provider needs. */
export type ProviderTime = Pick<VirtualClock, "now" | "sleep" | "touch">

/** A request as it came in. */
export interface Incoming {
  readonly path: string
  readonly body: unknown
}

/** The step as it answers this request. */
export type Render = (step: ProviderStep, incoming: Incoming) => ProviderStep

const bodyOf = async (input: string | URL | Request, init: RequestInit | undefined): Promise<string> =>
  typeof init?.body === "string" ? init.body : new Request(input, init).text()

const incomingOf = async (input: string | URL | Request, init: RequestInit | undefined): Promise<Incoming> => {
  const text = await bodyOf(input, init)
  const url = input instanceof Request ? input.url : String(input)
  return { path: new URL(url, "http://localhost").pathname, body: text === "" ? null : parsedOrText(text) }
}

const isBodiless = (status: number): boolean => status === 204 || status === 205 || status === 304

/** The events of a step as a body: one at a time, each when it is asked for, with its waits in virtual time. */
const scriptedBody = (
  step: ProviderStep,
  time: ProviderTime,
  signal: Signal,
  close: () => void
): ReadableStream<Uint8Array> => {
  const items = expandSse(step.sse ?? [])
  const encoder = new TextEncoder()
  let at = 0
  let isOver = false
  const end = (): void => {
    isOver = true
    close()
  }
  const fail = (controller: ReadableStreamDefaultController<Uint8Array>, reason: unknown): void => {
    if (isOver) return
    end()
    time.touch()
    controller.error(reason)
  }
  const finish = (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> | void => {
    if (step.end === "hang") return new Promise<void>(() => undefined)
    if (step.end === "reset") return fail(controller, networkError("ECONNRESET"))
    end()
    return controller.close()
  }
  /** Whether the wait was cut. */
  const isCutIn = (millis: number): Promise<boolean> =>
    time.sleep(millis, signal).then(
      () => false,
      () => true
    )
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    time.touch()
    for (;;) {
      const item = items[at]
      at += 1
      if (isOver) return
      if (item === undefined) return finish(controller)
      if (item.waitMs === undefined) return controller.enqueue(encoder.encode(sseText(item)))
      if (await isCutIn(item.waitMs)) return
    }
  }
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        signal?.addEventListener("abort", () => fail(controller, signal.reason), { once: true })
      },
      pull,
      cancel: () => {
        end()
        time.touch()
      }
    },
    { highWaterMark: 0 }
  )
}

/** A step as the answer to one request; `close` ends its connection. */
const played = async (book: ScriptBook, time: ProviderTime, step: ProviderStep, signal: Signal): Promise<Response> => {
  const close = book.open()
  const aborted = (): never => {
    close()
    throw signal?.reason
  }
  if (step.delayMs !== undefined && step.delayMs > 0) await time.sleep(step.delayMs, signal).catch(aborted)
  if (step.network === "hang") {
    await new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve(), { once: true }))
    time.touch()
    return aborted()
  }
  if (step.network !== undefined) {
    close()
    throw networkError(step.network)
  }
  const status = step.http ?? 200
  if (step.sse !== undefined)
    return new Response(scriptedBody(step, time, signal, close), {
      status,
      headers: headersOf(step, { "content-type": "text/event-stream" })
    })
  close()
  const text = step.rawBody ?? JSON.stringify(book.bodyOf(step))
  return new Response(isBodiless(status) ? null : text, { status, headers: headersOf(step, jsonHeaders) })
}

/** `render`: makes the step that the script has into the one this request is answered with. */
export const inProcess = (scenario: Scenario, time: ProviderTime, render: Render = (step) => step): InProcess => {
  const book = makeBook(scenario)
  return {
    ...book.provider,
    fetch: async (input, init) => {
      time.touch()
      const signal = init?.signal ?? (input instanceof Request ? input.signal : null)
      if (signal?.aborted === true) throw signal.reason
      const role = new Headers(init?.headers).get(roleHeader) ?? "main"
      const incoming = await incomingOf(input, init)
      const step = book.next(role, incoming.body, time.now())
      const response =
        step === null
          ? new Response(endOfScript.body, { status: endOfScript.status, headers: jsonHeaders })
          : await played(book, time, render(step, incoming), signal)
      time.touch()
      return response
    }
  }
}
