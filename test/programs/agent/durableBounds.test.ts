import { assert, describe, it } from "@effect/vitest"
import { mkdtempSync, readdirSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import type * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as JournalSqlite from "../../../src/layers/stores/JournalSqlite.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import {
  durableTurn,
  historyOf,
  type DurableFailure,
  type DurableOptions
} from "../../../src/programs/agent/durableTurn.ts"
import type { AgentResult } from "../../../src/programs/agent/runAgent.ts"
import type { JournalStoreShape } from "../../../src/services/JournalStore.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { Toolbox } from "../../../src/services/Toolbox.ts"
import { asks, call, drive, errorOf, executorOf, says } from "../../support/agentRuns.ts"
import { scriptedWorld } from "../../support/world.ts"

const fresh = (): string => join(mkdtempSync(join(tmpdir(), "bounds-")), "turns.db")

const bytesOf = (path: string): number =>
  readdirSync(dirname(path)).reduce((sum, name) => sum + statSync(join(dirname(path), name)).size, 0)

/** Calls a tool in every step, whose result is new text. */
const longTurn = (store: JournalStoreShape, calls: number, resultLength: number, asked: Array<number>) => {
  const read = ToolboxLive.tool({
    name: "read",
    description: "reads",
    parameters: Schema.Struct({ n: Schema.Int }),
    run: ({ n }) => `${n} ${(n * 7919).toString(36)} `.repeat(resultLength).slice(0, resultLength),
    repeat: "safe"
  })
  const base = executorOf([])
  const executor: DurableOptions["executor"] = {
    ...base.executor,
    complete: ({ messages }: { readonly messages: ReadonlyArray<Message> }) =>
      Effect.sync(() => {
        const at = messages.filter(({ role }) => role === "assistant").length
        asked.push(at)
        return at < calls - 1 ? asks(call(`c${at}`, "read", { n: at })) : says("done")
      })
  }
  return Effect.flatMap(Effect.orDie(ToolboxLive.make([read])), (toolbox) =>
    durableTurn({ id: "t", store, executor, prompt: "go", maxSteps: calls }).pipe(
      Effect.provideService(Toolbox, Toolbox.of(toolbox))
    )
  )
}

describe("the file of a long turn", () => {
  it.effect(
    "holds 500 model calls over a conversation of 200,000 tokens in 20 MB, grows with what is new, and is read once",
    () =>
      Effect.gen(function* () {
        const sizes: Array<number> = []
        const asked: Array<number> = []
        for (const calls of [125, 500]) {
          const path = fresh()
          asked.length = 0
          // Four characters to a token.
          yield* Effect.scoped(
            Effect.flatMap(JournalSqlite.make({ path }), (store) => longTurn(store, calls, 1_600, asked))
          )
          sizes.push(bytesOf(path))
          if (calls === 125) continue
          const again: Array<number> = []
          const history = yield* Effect.scoped(
            Effect.flatMap(JournalSqlite.make({ path }), (store) =>
              Effect.andThen(longTurn(store, calls, 1_600, again), historyOf(store, "t"))
            )
          )
          assert.deepStrictEqual([asked.length, again.length], [500, 0])
          assert.isAbove(JSON.stringify(history).length / 4, 200_000)
        }
        const [small = 0, large = 0] = sizes
        assert.isBelow(large, 20_000_000)
        assert.isBelow(large, 5 * small)
      }),
    120_000
  )
})

/** Over recovery, with a store whose owner counts what it writes of streams. */
const live = (
  store: JournalStoreShape,
  steps: ReadonlyArray<ScriptedModel.Step>,
  more: Partial<DurableOptions> = {}
) => {
  const policy = new RecoveryPolicy({
    ...RecoveryPolicy.broad,
    routes: [{ model: "large" }, { model: "small" }],
    backoff: { base: 60_000, cap: 60_000, factor: 1, jitter: 0 }
  })
  return Effect.gen(function* () {
    const toolbox = yield* ToolboxLive.make([])
    const options = { id: "t", store, executor: yield* Recovery, prompt: "go", ...more }
    return yield* Effect.provideService(durableTurn(options), Toolbox, Toolbox.of(toolbox))
  }).pipe(Effect.provide(scriptedWorld(policy, steps).layer)) as Effect.Effect<AgentResult, DurableFailure>
}

describe("a stream that is kept", () => {
  it.effect("costs one statement for two thousand characters, not one for each token", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const store = yield* JournalSqlite.make({ path: fresh() })
        let written = 0
        const counting: JournalStoreShape = {
          ...store,
          own: (turn) =>
            Effect.map(store.own(turn), (journal) => ({
              ...journal,
              tell: (key, text) =>
                Effect.andThen(
                  Effect.sync(() => void (written += 1)),
                  journal.tell(key, text)
                )
            }))
        }
        const text = "word ".repeat(4_000)
        let parts = 0
        const emit: DurableOptions["emit"] = (event) =>
          Effect.sync(() => void (parts += event._tag === "PartSeen" ? 1 : 0))
        const fiber = yield* Effect.forkChild(live(counting, [{ reply: { text } }], { stream: true, emit }))
        const { reply } = yield* drive(fiber)
        assert.strictEqual(reply.text, text)
        assert.isAbove(parts, 1_000)
        assert.isAtMost(written, text.length / 2_000)
      })
    )
  )
})

describe("a turn that somebody cancels from another process", () => {
  it.effect.each<readonly [string, ReadonlyArray<ScriptedModel.Step>]>([
    ["a wait", [{ fail: { kind: "overloaded", status: 529 } }]],
    ["a request", [{ run: () => Effect.never }]],
    ["a stream", [{ stall: "The first half" }]]
  ])("ends within a second in %s, and is not taken up again", ([where, steps]) =>
    Effect.gen(function* () {
      const path = fresh()
      const inStore = <A, E>(body: (store: JournalStoreShape) => Effect.Effect<A, E>) =>
        Effect.scoped(Effect.flatMap(Effect.orDie(JournalSqlite.make({ path })), body))
      const isStream = where === "a stream"
      const fiber = yield* Effect.forkChild(inStore((store) => Effect.exit(live(store, steps, { stream: isStream }))))
      yield* TestClock.adjust("10 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* inStore((store) => store.cancel("t"))
      yield* TestClock.adjust("1 second")
      const exit = yield* Fiber.join(fiber)
      assert.strictEqual(errorOf(exit)._tag, "TurnCancelled")
      const again = yield* inStore((store) => Effect.exit(live(store, [{ reply: { text: "late" } }])))
      assert.isTrue(Exit.isFailure(again))
      assert.strictEqual(errorOf(again)._tag, "TurnCancelled")
    })
  )
})
