/** Between sources of bytes and the streams of the platform, in both directions. */
import type { ByteSource } from "../../programs/request/ByteSource.ts"

/** A platform stream as a source: read one chunk ahead of nobody. */
export const sourceOf = (stream: ReadableStream<Uint8Array>): ByteSource => {
  const reader = stream.getReader()
  let ready: Uint8Array | null | undefined
  let failure: { readonly reason: unknown } | null = null
  let isReading = false
  let listener: (() => void) | null = null
  const tell = (): void => {
    isReading = false
    const waiting = listener
    listener = null
    waiting?.()
  }
  const read = async (): Promise<void> => {
    isReading = true
    try {
      const { done, value } = await reader.read()
      ready = done ? null : value
    } catch (reason) {
      failure = { reason }
    }
    tell()
  }
  return {
    take: () => {
      if (failure !== null) throw failure.reason
      const taken = ready
      if (taken !== null) ready = undefined
      return taken
    },
    whenReady: (waiting) => {
      if (ready !== undefined || failure !== null) return waiting()
      listener = waiting
      if (!isReading) void read()
    },
    cancel: () => (ready === null || failure !== null ? null : reader.cancel().catch(() => undefined))
  }
}

/** A source as a platform stream: pulled, so that a reader that does not read stops the source. */
export const streamOf = (source: ByteSource, onCancel: () => void = () => undefined): ReadableStream<Uint8Array> =>
  new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const give = (): boolean => {
          const bytes = source.take()
          if (bytes === undefined) return false
          if (bytes === null) controller.close()
          else controller.enqueue(bytes)
          return true
        }
        // What is there already costs no promise.
        if (give()) return undefined
        return new Promise<void>((resolve, reject) => {
          const next = (): void => {
            try {
              if (give()) resolve()
              else source.whenReady(next)
            } catch (reason) {
              reject(reason)
            }
          }
          source.whenReady(next)
        })
      },
      cancel: () => {
        onCancel()
        return source.cancel() ?? undefined
      }
    },
    { highWaterMark: 0 }
  )
