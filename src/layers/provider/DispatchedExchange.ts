/**
 * One exchange over a dispatcher, of whatever make: bytes go from the parser into a queue that the reader empties in plain
 * calls. A reader that is behind pauses the socket.
 */
import type { ByteSource, HeadLines } from "../../programs/request/ByteSource.ts"
import type { Begun } from "./exchange.ts"
import { remembered } from "./remembered.ts"

/** Bytes that may wait before the reads stop. */
const roomFor = 64 * 1024

/** What an exchange asks of the connection under it. */
interface Controller {
  readonly abort: (reason: Error) => void
  readonly pause: () => void
  readonly resume: () => void
}

export type HeaderLines = Record<string, string | Array<string> | undefined>

class TakenBack extends Error {
  override readonly name = "AbortError"
}

const linesOf = (headers: HeaderLines): HeadLines => {
  const lines: Array<readonly [string, string]> = []
  for (const name in headers) {
    const value = headers[name]
    if (typeof value === "string") lines.push([name, value])
    else if (value !== undefined) for (const one of value) lines.push([name, one])
  }
  return lines
}

/** Statuses that never have a body. */
const isBodiless = (status: number): boolean => status === 204 || status === 205 || status === 304

export class DispatchedExchange implements ByteSource {
  private readonly told: (begun: Begun) => void
  private controller: Controller | null = null
  private chunks: Array<Uint8Array> = []
  private size = 0
  private isPaused = false
  private hasBegun = false
  /** Bytes that are still to come by what the head says; NaN = it does not say. */
  private missing = Number.NaN
  private isOver = false
  private isLeft = false
  private failure: { readonly reason: unknown } | null = null
  private listener: (() => void) | null = null
  private settle: (() => void) | null = null

  constructor(told: (begun: Begun) => void) {
    this.told = told
  }

  onRequestStart(controller: Controller): void {
    this.controller = controller
    if (this.isLeft) controller.abort(new TakenBack("the request was taken back"))
  }

  onRequestUpgrade(controller: Controller): void {
    controller.abort(new Error("an answer that upgrades the connection"))
  }

  onResponseStart(_controller: Controller, status: number, headers: HeaderLines): void {
    // An early hint is no answer.
    if (status < 200 || this.hasBegun) return
    this.hasBegun = true
    this.missing =
      headers["content-encoding"] === undefined ? Number(headers["content-length"] ?? Number.NaN) : Number.NaN
    this.told({ answer: { status, lines: linesOf(headers), body: isBodiless(status) ? null : this } })
  }

  onResponseData(controller: Controller, chunk: Uint8Array): void {
    if (this.isLeft) return
    this.chunks.push(chunk)
    this.size += chunk.length
    if (this.size > roomFor) {
      this.isPaused = true
      controller.pause()
    }
    this.missing -= chunk.length
    // The end is told right behind the last bytes: a reader takes both at once.
    if (this.missing === 0) queueMicrotask(() => this.wake())
    else this.wake()
  }

  onResponseEnd(): void {
    this.end(null)
  }

  onResponseError(_controller: Controller, reason: Error): void {
    if (this.hasBegun) return this.end({ reason })
    this.hasBegun = true
    this.end(null)
    this.told({ cause: reason })
  }

  take(): Uint8Array | null | undefined {
    const next = this.chunks.shift()
    if (next === undefined) {
      if (this.failure !== null) throw this.failure.reason
      return this.isOver ? null : undefined
    }
    this.size -= next.length
    if (this.isPaused && this.size <= roomFor) {
      this.isPaused = false
      this.controller?.resume()
    }
    return next
  }

  whenReady(listener: () => void): void {
    if (this.chunks.length > 0 || this.isOver) return listener()
    this.listener = listener
  }

  cancel(): Promise<void> | null {
    if (this.isOver || this.isLeft) return null
    this.isLeft = true
    this.listener = null
    this.chunks = []
    const { controller } = this
    // It has not left this process: it is dropped when its turn comes.
    if (controller === null) return null
    return new Promise((resolve) => {
      this.settle = resolve
      controller.abort(new TakenBack("the request was taken back"))
    })
  }

  private end(failure: { readonly reason: unknown } | null): void {
    this.isOver = true
    this.failure = failure
    const { settle } = this
    this.settle = null
    settle?.()
    this.wake()
  }

  private wake(): void {
    const { listener } = this
    this.listener = null
    listener?.()
  }
}

/** Where an address leads, in the dispatcher's words. */
export const placeOf = remembered((url: string) => {
  const { protocol, host, pathname, search } = new URL(url)
  return { origin: `${protocol}//${host}`, path: pathname + search }
})
