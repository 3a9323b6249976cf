/** A Transcript in an append-only JSONL file, readable by its owner only: one line per compaction, the messages before it. */
import { appendFile } from "node:fs/promises"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { Transcript } from "../../services/Transcript.ts"

/** Messages are content: only the owner may read them. */
const fileMode = 0o600

/** Each line is `{ requestId, messages }`. What cannot be written is reported in the log and fails no request. */
export const layer = (path: string): Layer.Layer<Transcript> =>
  Layer.effect(
    Transcript,
    Effect.gen(function* () {
      // One writer at a time: lines of concurrent requests never mix.
      const lock = yield* Semaphore.make(1)
      return Transcript.of({
        record: (snapshot) =>
          Effect.tryPromise(() => appendFile(path, `${JSON.stringify(snapshot)}\n`, { mode: fileMode })).pipe(
            Effect.catch(() => Effect.logWarning(`the transcript could not be written to ${path}`)),
            lock.withPermits(1)
          )
      })
    })
  )
