/**
 * The client's end of a native stream: bytes wait for a reader that takes them, and a reader that does not stops the reads
 * of the provider. A failure comes behind everything that was written before it.
 */
import * as Effect from "effect/Effect"
import type { ByteSource } from "../../programs/request/ByteSource.ts"
import type { NativeHead, NativeOut } from "../../programs/request/NativeSender.ts"

/** Bytes that may wait for a slow reader before the reads stop. */
const roomFor = 64 * 1024

export interface OutletOptions {
  /** The client gets its head; the outlet is the body behind it. */
  readonly onOpen: (head: NativeHead) => void
  /** The reader has left. */
  readonly onCancel: () => void
}

export class Outlet implements NativeOut, ByteSource {
  private readonly options: OutletOptions
  private chunks: Array<Uint8Array> = []
  private size = 0
  private ended = false
  private failure: { readonly reason: unknown } | null = null
  private listener: (() => void) | null = null
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
    this.options.onOpen(head)
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
    if (this.ended) return
    this.failure = { reason }
    this.end()
  }

  /** The body errors now, also for a reader that waits. */
  abort(reason: unknown): void {
    if (this.ended && this.chunks.length === 0) return
    this.failure = { reason }
    this.abandon()
  }

  room(): Effect.Effect<void> | null {
    if (this.size < roomFor || this.ended) return null
    return Effect.callback<void>((resume) => {
      this.drained.push(() => resume(Effect.void))
    })
  }

  take(): Uint8Array | null | undefined {
    const next = this.chunks.shift()
    if (next !== undefined) {
      this.size -= next.length
      if (this.size < roomFor) this.release()
      return next
    }
    if (this.failure !== null) throw this.failure.reason
    return this.ended ? null : undefined
  }

  whenReady(listener: () => void): void {
    if (this.chunks.length > 0 || this.ended) return listener()
    this.listener = listener
  }

  cancel(): null {
    if (!this.ended || this.chunks.length > 0) {
      this.abandon()
      this.options.onCancel()
    }
    return null
  }

  private abandon(): void {
    this.ended = true
    this.chunks = []
    this.size = 0
    this.release()
    this.wake()
  }

  private wake(): void {
    const { listener } = this
    this.listener = null
    listener?.()
  }

  private release(): void {
    if (this.drained.length === 0) return
    const waiting = this.drained
    this.drained = []
    for (const resume of waiting) resume()
  }
}
