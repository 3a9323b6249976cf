/** Bodies of answers, read as far as their limits go and no further: what is left is not taken, the line is closed. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { ByteSource } from "../../programs/request/ByteSource.ts"
import { awaitAborted } from "./abortable.ts"

/** The answer is longer than what is read of one. */
export class AnswerTooLarge extends Error {
  override readonly name = "AnswerTooLarge"
}

type Body = ReadableStream<Uint8Array> | null

/** All of a body as text; past `limit` bytes the rest is given up and the promise rejects with `AnswerTooLarge`. */
export const readText = async (body: Body, limit: number): Promise<string> => {
  if (body === null) return ""
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ""
  let bytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    bytes += value.byteLength
    if (bytes > limit) {
      await reader.cancel().catch(() => undefined)
      throw new AnswerTooLarge()
    }
    text += decoder.decode(value, { stream: true })
  }
}

/** A body that has been read, under the same limit. */
export const checkedText = (text: string, limit: number): string => {
  // No character has more than three bytes per unit of the text.
  if (text.length * 3 > limit && new TextEncoder().encode(text).byteLength > limit) throw new AnswerTooLarge()
  return text
}

/** How long the body of a failed answer may take: its status and headers have come and say what failed. */
const errorGrace = "2 seconds"

/**
 * The body of a failed answer; "" when it stalls, breaks off or has no end. It is closed in any case: nobody waits for
 * what it might say.
 */
export const readErrorText = (body: ByteSource | null, limit: number): Effect.Effect<string> => {
  if (body === null) return Effect.succeed("")
  const decoder = new TextDecoder()
  let text = ""
  let size = 0
  const read = Effect.callback<string>((resume) => {
    const look = (): void => {
      try {
        for (let bytes = body.take(); bytes !== undefined; bytes = body.take()) {
          if (bytes === null) return resume(Effect.succeed(text + decoder.decode()))
          size += bytes.byteLength
          if (size > limit) return resume(Effect.succeed(""))
          text += decoder.decode(bytes, { stream: true })
        }
        body.whenReady(look)
      } catch {
        resume(Effect.succeed(""))
      }
    }
    look()
  })
  const close = Effect.suspend(() => {
    const left = body.cancel()
    return left === null ? Effect.void : awaitAborted(left)
  })
  return read.pipe(Effect.timeoutOption(errorGrace), Effect.map(Option.getOrElse(() => "")), Effect.ensuring(close))
}
