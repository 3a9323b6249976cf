/** A Transcript in an append-only JSONL file, readable by its owner only: one line per compaction, the messages before it. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { builtin } from "../provider/runtime.ts"
import { Transcript } from "../../services/Transcript.ts"

/** Messages are content: only the owner may read them. */
const fileMode = 0o600

/** Each line is `{ requestId, messages }`. What cannot be written is reported in the log and fails no request. */
export const layer = (path: string): Layer.Layer<Transcript, ConfigurationError> =>
  Layer.effect(
    Transcript,
    Effect.gen(function* () {
      const files = builtin("node:fs/promises")
      if (files === null)
        return yield* new ConfigurationError({
          field: "FileTranscript",
          reason: "needs a file system; there is none here"
        })
      // One writer at a time: lines of concurrent requests never mix.
      const lock = yield* Semaphore.make(1)
      return Transcript.of({
        record: (snapshot) =>
          Effect.tryPromise(() => files.appendFile(path, `${JSON.stringify(snapshot)}\n`, { mode: fileMode })).pipe(
            Effect.catch(() => Effect.logWarning(`the transcript could not be written to ${path}`)),
            lock.withPermits(1)
          )
      })
    })
  )
