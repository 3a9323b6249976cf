/** A provider in place of the network: answers one after the other, and remembers what it was asked. */

export interface Asked {
  readonly url: string
  readonly method: string
  readonly headers: Headers
  readonly text: string
}

export interface Answer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** A JSON body, or a text as it is. */
  readonly body?: unknown
  /** A stream: each text is one read. */
  readonly reads?: ReadonlyArray<string | Uint8Array>
  /** How the stream ends. Default: close. */
  readonly end?: "close" | "reset" | "hang"
  /** No answer at all. */
  readonly network?: "reset" | "hang"
}

const encoder = new TextEncoder()

const failed = (code: string): TypeError =>
  Object.assign(new TypeError("fetch failed"), { cause: Object.assign(new Error(code), { code }) })

const never = (signal: AbortSignal | null | undefined): Promise<never> =>
  new Promise((_resolve, reject) => {
    if (signal?.aborted === true) reject(signal.reason)
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true })
  })

const streamOf = (answer: Answer, signal: AbortSignal | null | undefined): ReadableStream<Uint8Array> => {
  const reads = [...(answer.reads ?? [])]
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        signal?.addEventListener(
          "abort",
          () => {
            try {
              controller.error(signal.reason)
            } catch {
              // It had ended.
            }
          },
          { once: true }
        )
      },
      pull: (controller) => {
        const next = reads.shift()
        if (next !== undefined) return controller.enqueue(typeof next === "string" ? encoder.encode(next) : next)
        if (answer.end === "hang") return new Promise<void>(() => undefined)
        if (answer.end === "reset") return controller.error(failed("ECONNRESET"))
        return controller.close()
      }
    },
    { highWaterMark: 0 }
  )
}

export const providerOf = (answers: ReadonlyArray<Answer> | ((asked: Asked, number: number) => Answer)) => {
  const asked: Array<Asked> = []
  const fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const one: Asked = {
      url: String(input),
      method: init?.method ?? "GET",
      headers: new Headers(init?.headers),
      text: String(init?.body ?? "")
    }
    asked.push(one)
    const answer = typeof answers === "function" ? answers(one, asked.length) : answers[asked.length - 1]
    if (answer === undefined) return new Response('{"error":{"code":"script_ended"}}', { status: 400 })
    if (answer.network === "hang") return never(init?.signal)
    if (answer.network === "reset") throw failed("ECONNRESET")
    const isStream = answer.reads !== undefined
    const headers = { "content-type": isStream ? "text/event-stream" : "application/json", ...answer.headers }
    const status = answer.status ?? 200
    if (isStream) return new Response(streamOf(answer, init?.signal), { status, headers })
    const { body } = answer
    return new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers })
  }
  return { fetch, asked }
}
