/** A session on disk: the canonical history and nothing else, readable by its owner only. */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises"
import { dirname } from "node:path"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Semaphore from "effect/Semaphore"
import { parse } from "../../domain/chat/json.ts"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { isMessage, type Message } from "../../domain/chat/Message.ts"

const fileMode = 0o600
const version = 1

const bad = (path: string, reason: string): ConfigurationError => new ConfigurationError({ field: path, reason })

const messagesOf = (text: string): ReadonlyArray<Message> | null => {
  const parsed = parse(text)
  if (Result.isFailure(parsed)) return null
  const value = parsed.success
  if (typeof value !== "object" || value === null || !("messages" in value) || !Array.isArray(value.messages))
    return null
  return value.messages.every(isMessage) ? value.messages : null
}

/** The history of a saved session. */
export const load = (path: string): Effect.Effect<ReadonlyArray<Message>, ConfigurationError> =>
  Effect.tryPromise({
    try: () => readFile(path, "utf8"),
    catch: () => bad(path, "holds no saved session")
  }).pipe(
    Effect.flatMap((text) => {
      const messages = messagesOf(text)
      return messages === null ? Effect.fail(bad(path, "is not a saved session")) : Effect.succeed(messages)
    })
  )

/** Writes a whole session at a time: a crash leaves the one before. A failure to write is a warning in the log. */
export const make = (path: string): Effect.Effect<(messages: ReadonlyArray<Message>) => Effect.Effect<void>> =>
  Effect.map(
    Semaphore.make(1),
    (lock) => (messages) =>
      Effect.tryPromise(async () => {
        await mkdir(dirname(path), { recursive: true, mode: 0o700 })
        const next = `${path}.next`
        await writeFile(next, `${JSON.stringify({ version, messages })}\n`, { mode: fileMode })
        await rename(next, path)
      }).pipe(
        Effect.catch(() => Effect.logWarning(`the session could not be saved to ${path}`)),
        lock.withPermits(1),
        // An interruption that arrives in mid-save ends the run after it: what was finished is saved.
        Effect.uninterruptible
      )
  )
