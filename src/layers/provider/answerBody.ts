/** Bodies of answers, read as far as their limits go and no further: what is left is not taken, the line is closed. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { endsLikeBody, isJson, isWholeBody } from "../../domain/chat/json.ts"
import { Alarm } from "../../programs/request/Alarm.ts"
import type { ByteSource } from "../../programs/request/ByteSource.ts"
import { awaitAborted } from "./abortable.ts"

/** The answer is longer than what is read of one. */
export class AnswerTooLarge extends Error {
  override readonly name = "AnswerTooLarge"
}

type Body = ReadableStream<Uint8Array> | null

/** A body as far as it has come. */
export interface TextSoFar {
  readonly text: string
  /** The text is a whole value, but its line is open: what else comes until it closes. null = it has closed. */
  readonly open: { readonly rest: () => Promise<string>; readonly close: () => Promise<void> } | null
}

/** Rounds of promises within which an end that is already here is seen. No timer: a drill's time is not the process's. */
const soonRounds = 16

const isSoon = async (settled: Promise<unknown>): Promise<boolean> => {
  let isSettled = false
  const seen = (): void => void (isSettled = true)
  settled.then(seen, seen)
  for (let round = 0; round < soonRounds && !isSettled; round += 1) await Promise.resolve()
  return isSettled
}

/**
 * A body as text, to its end or to where it is a whole value on an open line; past `limit` bytes the rest is given up and
 * the promise rejects with `AnswerTooLarge`.
 */
export const readText = async (body: Body, limit: number): Promise<TextSoFar> => {
  if (body === null) return { text: "", open: null }
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ""
  let bytes = 0
  let next = reader.read()
  const readOn = async (isEnough: () => Promise<boolean>): Promise<boolean> => {
    for (;;) {
      if (await isEnough()) return false
      const { done, value } = await next.catch((cause: unknown) => {
        // A line that breaks behind a whole value has said all there was.
        if (!isWholeBody(text)) throw cause
        return { done: true, value: undefined } as const
      })
      if (done) {
        text += decoder.decode()
        return true
      }
      bytes += value.byteLength
      if (bytes > limit) {
        await reader.cancel().catch(() => undefined)
        throw new AnswerTooLarge()
      }
      text += decoder.decode(value, { stream: true })
      next = reader.read()
    }
  }
  // Whether it is whole is looked at only where the line is open: most end with their last byte.
  const isOpen = async (): Promise<boolean> => endsLikeBody(text) && !(await isSoon(next)) && isJson(text)
  if (await readOn(isOpen)) return { text, open: null }
  return {
    text,
    open: {
      rest: () => readOn(() => Promise.resolve(false)).then(() => text),
      close: () => reader.cancel()
    }
  }
}

/**
 * How long usage and the wire's own end may come behind a reply that is whole, comments and blanks or not: it is not lost
 * to a hanging line.
 */
export const endingGraceMillis = 5_000

/** What comes within the grace, else what is there already. */
const inTime = (rest: Promise<string>, text: string): Effect.Effect<string> =>
  Effect.withFiber((fiber) =>
    Effect.callback<string>((resume) => {
      const alarm = new Alarm(fiber.context, () => resume(Effect.succeed(text)))
      alarm.set(endingGraceMillis)
      const give = (whole: string): void => {
        alarm.silence()
        resume(Effect.succeed(whole))
      }
      void rest.then(give)
      return Effect.sync(() => alarm.silence())
    })
  )

/** The whole text: an open line has its grace and is closed then, and one that breaks off changes nothing. */
export const wholeText = ({ text, open }: TextSoFar): Effect.Effect<string> =>
  open === null
    ? Effect.succeed(text)
    : Effect.suspend(() => {
        let isClosed = false
        const rest = open.rest().then(
          (whole) => {
            isClosed = true
            return whole
          },
          () => text
        )
        const close = Effect.suspend(() => (isClosed ? Effect.void : awaitAborted(open.close())))
        return Effect.ensuring(inTime(rest, text), close)
      })

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
