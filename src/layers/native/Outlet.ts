/**
 * The client's end of a native stream: bytes wait for a reader that pulls them, and a reader that does not stops the reads
 * of the provider. A failure comes behind everything that was written before it.
 */
import * as Effect from "effect/Effect"
import type { NativeHead, NativeOut } from "../../programs/request/NativeSender.ts"

/** Bytes that may wait for a slow reader before the reads stop. */
const roomFor = 64 * 1024

export interface OutletOptions {
  /** The client gets its Response. */
  readonly onOpen: (head: NativeHead, body: ReadableStream<Uint8Array>) => void
  /** The reader has left. */
  readonly onCancel: () => void
}

export class Outlet implements NativeOut {
  private readonly options: OutletOptions
  private chunks: Array<Uint8Array> = []
  private size = 0
  private ended = false
  /** The stream has its end: nothing more can be said to it. */
  private isOver = false
  private failure: { readonly reason: unknown } | null = null
  private controller: ReadableStreamDefaultController<Uint8Array> | null = null
  private pulled: (() => void) | null = null
  private drained: Array<() => void> = []
  isOpen = false
  /** Writes so far: whoever looks for silence compares. */
  writes = 0

  constructor(options: OutletOptions) {
    this.options = options
  }

  open(head: NativeHead): void {
    if (this.isOpen) return
    this.isOpen = true
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.controller = controller
        },
        pull: () => this.pull(),
        cancel: () => {
          this.abandon()
          this.options.onCancel()
        }
      },
      { highWaterMark: 0 }
    )
    this.options.onOpen(head, body)
  }

  write(bytes: Uint8Array): void {
    if (this.ended || bytes.length === 0) return
    this.writes += 1
    this.chunks.push(bytes)
    this.size += bytes.length
    this.wake()
  }

  end(): void {
    this.ended = true
    this.wake()
  }

  /** The body errors once everything before it was read. */
  fail(reason: unknown): void {
    this.failure = { reason }
    this.end()
  }

  /** The body errors now, also for a reader that waits. */
  abort(reason: unknown): void {
    this.abandon()
    this.controller?.error(reason)
  }

  room(): Effect.Effect<void> | null {
    if (this.size < roomFor || this.ended) return null
    return Effect.callback<void>((resume) => {
      this.drained.push(() => resume(Effect.void))
    })
  }

  private abandon(): void {
    this.ended = true
    this.isOver = true
    this.chunks = []
    this.size = 0
    this.release()
    this.wake()
  }

  private wake(): void {
    const { pulled } = this
    this.pulled = null
    pulled?.()
  }

  private release(): void {
    const waiting = this.drained
    this.drained = []
    for (const resume of waiting) resume()
  }

  private pull(): Promise<void> | void {
    const { controller } = this
    if (controller === null || this.isOver) return
    const next = this.chunks.shift()
    if (next !== undefined) {
      this.size -= next.length
      controller.enqueue(next)
      if (this.size < roomFor) this.release()
      return
    }
    if (this.failure !== null) return controller.error(this.failure.reason)
    if (this.ended) return controller.close()
    return new Promise<void>((resolve) => {
      this.pulled = resolve
    }).then(() => this.pull())
  }
}
