import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { mkdtemp, readFile, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as FileTranscript from "../../../src/layers/stores/FileTranscript.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { Transcript } from "../../../src/services/Transcript.ts"

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "holdfast-"))),
  (path) => Effect.promise(() => rm(path, { recursive: true }))
)

const linesOf = (path: string) =>
  Effect.map(
    Effect.promise(() => readFile(path, "utf8")),
    (text): ReadonlyArray<unknown> => {
      assert.isTrue(text.endsWith("\n"))
      return text
        .slice(0, -1)
        .split("\n")
        .map((line): unknown => JSON.parse(line))
    }
  )

const record = (requestId: string, content: string) =>
  Effect.flatMap(Transcript, (transcript) => transcript.record({ requestId, messages: [{ role: "user", content }] }))

describe("a transcript in a file", () => {
  it.live("is one line per snapshot, appended, for its owner only", () =>
    Effect.gen(function* () {
      const path = join(yield* folder, "transcript.jsonl")
      const text = 'two\nlines, "quotes" and \u2028'
      yield* Effect.provide(record("a", text), FileTranscript.layer(path))
      yield* Effect.provide(record("b", "next"), FileTranscript.layer(path))
      assert.deepStrictEqual(yield* linesOf(path), [
        { requestId: "a", messages: [{ role: "user", content: text }] },
        { requestId: "b", messages: [{ role: "user", content: "next" }] }
      ])
      const { mode } = yield* Effect.promise(() => stat(path))
      assert.strictEqual(mode & 0o777, 0o600)
    }).pipe(Effect.scoped)
  )

  it.live("never mixes the lines of concurrent requests", () =>
    Effect.gen(function* () {
      const path = join(yield* folder, "transcript.jsonl")
      const names = Array.from({ length: 40 }, (_, at) => `r${at}`)
      yield* Effect.forEach(names, (name) => record(name, name.repeat(20_000)), { concurrency: "unbounded" }).pipe(
        Effect.provide(FileTranscript.layer(path))
      )
      const seen = (yield* linesOf(path)).map((line) =>
        typeof line === "object" && line !== null && "requestId" in line ? String(line.requestId) : ""
      )
      assert.deepStrictEqual(seen.toSorted(), names.toSorted())
    }).pipe(Effect.scoped)
  )

  it.live("that cannot be written is told in the log and fails nothing", () =>
    Effect.gen(function* () {
      const path = join(yield* folder, "missing", "transcript.jsonl")
      const logged: Array<unknown> = []
      const logger = Logger.layer([Logger.make(({ message }) => logged.push(message))])
      yield* Effect.provide(record("a", "secret words"), Layer.merge(FileTranscript.layer(path), logger))
      assert.strictEqual(logged.length, 1)
      assert.include(JSON.stringify(logged), path)
      assert.notInclude(JSON.stringify(logged), "secret words")
    }).pipe(Effect.scoped)
  )

  it.live("holds the messages from before a compaction, and the request goes on with the summary", () =>
    Effect.gen(function* () {
      const path = join(yield* folder, "transcript.jsonl")
      const model = ScriptedModel.make([
        { fail: { kind: "prompt_too_long", status: 400, code: "context_length_exceeded" } },
        { reply: { text: "what was" } },
        { reply: { text: "done" } }
      ])
      const messages = ["one", "two", "three"].map((content) => ({ role: "user" as const, content }))
      const policy = new RecoveryPolicy({
        ...RecoveryPolicy.strict,
        routes: [{ model: "m" }],
        compaction: { mode: "once", keepRecentMessages: 1 }
      })
      const layer = RecoveryLive.layer(policy).pipe(
        Layer.provide(ModelSummarizer.layer({ model: "m" })),
        Layer.provide(Layer.succeed(ModelClient, model.client)),
        Layer.provide(FileTranscript.layer(path))
      )
      const reply = yield* Effect.provide(
        Effect.flatMap(Recovery, (recovery) => recovery.complete({ messages })),
        layer
      )
      assert.strictEqual(reply.text, "done")
      const [line, ...others] = yield* linesOf(path)
      assert.deepStrictEqual(others, [])
      assert.deepInclude(line, { messages })
      assert.notInclude(JSON.stringify(model.requests.at(-1)?.messages), '"one"')
    }).pipe(Effect.scoped)
  )
})
