import { assert, describe, it } from "@effect/vitest"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import type { ReplyPart } from "../../../src/domain/chat/ReplyPart.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import type * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as JournalSqlite from "../../../src/layers/stores/JournalSqlite.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import { durableTurn, type DurableFailure, type DurableOptions } from "../../../src/programs/agent/durableTurn.ts"
import type { AgentResult } from "../../../src/programs/agent/runAgent.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { Toolbox } from "../../../src/services/Toolbox.ts"
import { drive } from "../../support/agentRuns.ts"
import { scriptedWorld } from "../../support/world.ts"

const fresh = (): string => join(mkdtempSync(join(tmpdir(), "request-")), "turns.db")

const prices = { inputPerM: 1, outputPerM: 1 }
const policyOf = (fields: Partial<RecoveryPolicyInput> = {}): RecoveryPolicy =>
  new RecoveryPolicy({
    ...RecoveryPolicy.broad,
    routes: [
      { model: "large", prices },
      { model: "small", prices }
    ],
    ...fields
  })

/** One life of a turn over a script of its own; `parts` is what its reader has seen. */
const lifeOf = (path: string, policy: RecoveryPolicy, steps: ReadonlyArray<ScriptedModel.Step>) => {
  const world = scriptedWorld(policy, steps)
  const parts: Array<ReplyPart> = []
  const run = (more: Partial<DurableOptions> = {}) =>
    Effect.scoped(
      Effect.gen(function* () {
        const store = yield* JournalSqlite.make({ path })
        const executor = yield* Recovery
        const toolbox = yield* ToolboxLive.make([])
        return yield* durableTurn({
          id: "t",
          store,
          executor,
          prompt: "go",
          emit: (event) => Effect.sync(() => event._tag === "PartSeen" && parts.push(event.part)),
          ...more
        }).pipe(Effect.provideService(Toolbox, Toolbox.of(toolbox)))
      })
    ).pipe(Effect.provide(world.layer)) as Effect.Effect<AgentResult, DurableFailure>
  return { world, parts, run }
}

/** A process that is killed cannot take its name back. */
const leaveHolder = (path: string): void => {
  const database = new DatabaseSync(path)
  database.exec("update turn set holder = 'process 1'")
  database.close()
}

/** What a reader has after these parts. */
const shownBy = (parts: ReadonlyArray<ReplyPart>): string =>
  parts.reduce((text, part) => (part._tag === "Reset" ? "" : part._tag === "TextDelta" ? text + part.text : text), "")

const overload: ScriptedModel.Step = { fail: { kind: "overloaded", status: 529 } }

describe("a request that is taken up again", () => {
  it.effect("waits on to the instant it waited for, with the attempts it had", () =>
    Effect.gen(function* () {
      const path = fresh()
      const hint = { kind: "rate_limited", status: 429, hints: [] } as const
      const policy = policyOf({ backoff: { base: 60_000, cap: 60_000, factor: 1, jitter: 0 }, deadline: null })
      const first = lifeOf(path, policy, [{ fail: hint }])
      const fiber = yield* Effect.forkChild(first.run())
      yield* TestClock.adjust(20_000)
      yield* Fiber.interrupt(fiber)
      const second = lifeOf(path, policy, [{ reply: { text: "done" } }])
      const again = yield* Effect.forkChild(second.run())
      yield* TestClock.adjust(1_000)
      assert.strictEqual(second.world.model.requests.length, 0)
      const result = yield* drive(again)
      assert.strictEqual(result.reply.text, "done")
      assert.strictEqual(second.world.model.requests[0]?.idempotencyKey, "t/step/1/reply/2")
    })
  )

  it.effect("has the attempts it had left, and the deadline it had", () =>
    Effect.gen(function* () {
      const attempts = fresh()
      const policy = policyOf({ maxAttempts: 3, deadline: null })
      const first = lifeOf(attempts, policy, [overload, overload, { run: () => Effect.never }])
      const fiber = yield* Effect.forkChild(first.run())
      yield* TestClock.adjust("5 minutes")
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(first.world.model.requests.length, 3)
      const second = lifeOf(attempts, policy, [overload, overload, overload])
      const exit = yield* drive(yield* Effect.forkChild(Effect.exit(second.run())))
      assert.isTrue(Exit.isFailure(exit))
      assert.strictEqual(second.world.model.requests.length, 1)

      const deadline = fresh()
      const short = policyOf({ deadline: 600_000 })
      const before = lifeOf(deadline, short, [overload, { run: () => Effect.never }])
      const running = yield* Effect.forkChild(before.run())
      yield* TestClock.adjust(120_000)
      yield* Fiber.interrupt(running)
      yield* TestClock.adjust(700_000)
      const late = lifeOf(deadline, short, [{ reply: { text: "too late" } }])
      const ended = yield* drive(yield* Effect.forkChild(Effect.exit(late.run())))
      assert.isTrue(Exit.isFailure(ended))
      assert.strictEqual(late.world.model.requests.length, 0)
    })
  )

  it.effect("books a request that was in flight when its process died as the most it could cost, once per death", () =>
    Effect.gen(function* () {
      const path = fresh()
      const policy = policyOf()
      const limits = { maxTokens: null, maxCostUsd: 100 }
      const spent: Array<number> = []
      for (const steps of [
        [{ run: () => Effect.never }],
        [{ run: () => Effect.never }],
        [{ reply: { text: "done" } }]
      ] as ReadonlyArray<ReadonlyArray<ScriptedModel.Step>>) {
        const ledger = yield* BudgetMemory.make(limits)
        const fiber = yield* Effect.forkChild(lifeOf(path, policy, steps).run({ ledger }))
        yield* TestClock.adjust(100)
        // Nothing that the process would have booked as it ended counts.
        spent.push((yield* ledger.balance).spent.nanoUsd)
        yield* Fiber.interrupt(fiber)
        leaveHolder(path)
      }
      assert.strictEqual(spent[0], 0)
      const [, one = 0, two = 0] = spent
      assert.isAbove(one, 0)
      assert.isAtLeast(two, 2 * one)
    })
  )

  it.effect("shows a reader the same text again, then its continuation or one Reset", () =>
    Effect.gen(function* () {
      const path = fresh()
      const policy = policyOf()
      const first = lifeOf(path, policy, [{ stall: "The first half " }])
      const fiber = yield* Effect.forkChild(first.run({ stream: true }))
      yield* TestClock.adjust(2_000)
      yield* Fiber.interrupt(fiber)
      leaveHolder(path)
      assert.strictEqual(shownBy(first.parts), "The first half ")
      const second = lifeOf(path, policy, [{ reply: { text: "Something else" } }])
      const result = yield* drive(yield* Effect.forkChild(second.run({ stream: true })))
      assert.strictEqual(shownBy(second.parts.slice(0, 1)), "The first half ")
      assert.strictEqual(second.parts.filter(({ _tag }) => _tag === "Reset").length, 1)
      assert.strictEqual(shownBy(second.parts), result.reply.text)
      const third = lifeOf(path, policy, [])
      yield* third.run({ stream: true })
      assert.strictEqual(shownBy(third.parts), "Something else")
    })
  )

  it.effect("keeps nothing of a request that has no trouble", () =>
    Effect.gen(function* () {
      const path = fresh()
      const life = lifeOf(path, policyOf(), [{ reply: { text: "done" } }])
      yield* life.run()
      const file = new DatabaseSync(path)
      assert.deepStrictEqual(
        file
          .prepare("select key from step order by ordinal")
          .all()
          .map(({ key }) => key),
        ["after", "history", "prompt", "step/1/reply"]
      )
      file.close()
    })
  )
})
