import { assert, describe, it } from "@effect/vitest"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { JournalUnavailable, type TurnCancelled } from "../../../src/domain/agent/JournalError.ts"
import type { ToolCall } from "../../../src/domain/chat/ModelReply.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import { makeModelError } from "../../../src/domain/failure/ModelError.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import { durableTurn, spentOf, type DurableOptions } from "../../../src/programs/agent/durableTurn.ts"
import { rawExecutor } from "../../../src/programs/agent/rawExecutor.ts"
import { subAgent } from "../../../src/programs/agent/subAgent.ts"
import type { JournalStoreShape } from "../../../src/services/JournalStore.ts"
import { asks, call, errorOf, executorOf, says } from "../../support/agentRuns.ts"
import { counter, fresh, live, modelOf, mortal, withStore } from "../../support/durableTurns.ts"

const statusIn = (store: JournalStoreShape, turn = "t") =>
  Effect.map(store.list, (turns) => turns.find((one) => one.turn === turn)?.status)

const hanging = { ...executorOf([]).executor, complete: () => Effect.never }

/** Runs until it waits, and is then interrupted. */
const cutOff = <A, E>(body: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(body)
    yield* TestClock.adjust(200)
    yield* Fiber.interrupt(fiber)
  })

describe("the status of a turn", () => {
  const failing = executorOf([makeModelError({ kind: "auth", status: 401 })]).executor
  it.effect.each<readonly [string, DurableOptions["executor"], string]>([
    ["done", modelOf([says("done")]).executor, "done"],
    ["failed, when its request fails", failing, "failed"],
    ["parked, while a person has to answer", modelOf([asks(call("a", "pay"))]).executor, "parked"]
  ])("is %s", ([, executor, status]) =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        yield* Effect.exit(live(store, executor, [counter("pay", { approval: true }).one]))
        assert.strictEqual(yield* statusIn(store), status)
      })
    )
  )

  it.effect("is still running, for whoever takes it up, when its owner was interrupted", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        yield* cutOff(live(store, hanging, []))
        assert.strictEqual(yield* statusIn(store), "running")
      })
    )
  )

  it.effect.each(["after", "history", "prompt", "step/1/reply"])(
    "is still running when its journal could not be written, and that is the failure: %s",
    (at) =>
      withStore(fresh(), (store) =>
        Effect.gen(function* () {
          const full = new JournalUnavailable({ turn: "t", key: at, guidance: "make room", reason: "disk full" })
          const broken: JournalStoreShape = {
            ...store,
            own: (turn) =>
              Effect.map(store.own(turn), (journal) => ({
                ...journal,
                step: (key, options, run) => (key === at ? Effect.fail(full) : journal.step(key, options, run))
              }))
          }
          assert.strictEqual(errorOf(yield* Effect.exit(live(broken, hanging, []))), full)
          assert.strictEqual(yield* statusIn(store), "running")
        })
      )
  )

  it.effect("is cancelled for good: nothing is asked, and the failure names the turn and no step", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        yield* cutOff(live(store, hanging, []))
        yield* store.cancel("t")
        const model = modelOf([says("too late")])
        const failure = errorOf(yield* Effect.exit(live(store, model.executor, []))) as TurnCancelled
        assert.deepStrictEqual([failure._tag, failure.turn, failure.key], ["TurnCancelled", "t", ""])
        assert.match(failure.guidance, /new turn|fork/)
        assert.deepStrictEqual([model.asked, yield* statusIn(store)], [[], "cancelled"])
      })
    )
  )
})

describe("what a turn has spent", () => {
  const usage = { ...Usage.unknown, promptTokens: 20, completionTokens: 40 }
  const prices = { inputPerM: 1_000_000, outputPerM: 1_000_000 }
  const priced = (steps: ReadonlyArray<ScriptedModel.Step>, known = true) => {
    const model = ScriptedModel.make(steps)
    const executor = rawExecutor(model.client, { model: "m", maxOutputTokens: 50, prices: known ? prices : null })
    return { model, executor }
  }
  const reply = { reply: { text: "ok", usage } } as const
  const asking = (one: ToolCall): ScriptedModel.Step => ({
    reply: { text: null, toolCalls: [one], finishReason: "tool_calls", usage }
  })
  const ledgerOf = BudgetMemory.make({ maxTokens: 1_000_000, maxCostUsd: null })

  it.effect("is told with what the turns before it have spent", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const { executor } = priced([reply, reply, reply])
        const ledger = yield* ledgerOf
        yield* live(store, executor, [], { id: "one", ledger })
        yield* live(store, executor, [], { id: "two", after: "one", ledger })
        yield* live(store, executor, [], { id: "alone", ledger })
        assert.deepStrictEqual(yield* spentOf(store, "one"), { tokens: 60, costUsd: 60 })
        assert.deepStrictEqual(yield* spentOf(store, "two"), { tokens: 120, costUsd: 120 })
        assert.deepStrictEqual(yield* spentOf(store, "alone"), { tokens: 60, costUsd: 60 })
        assert.deepStrictEqual(yield* spentOf(store, "unheard of"), { tokens: 0, costUsd: 0 })
      })
    )
  )

  it.effect("has no cost when the price of one of its models is unknown", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const ledger = yield* ledgerOf
        yield* live(store, priced([reply]).executor, [], { id: "one", ledger })
        yield* live(store, priced([reply], false).executor, [], { id: "two", after: "one", ledger })
        assert.deepStrictEqual(yield* spentOf(store, "two"), { tokens: 120, costUsd: null })
      })
    )
  )

  it.effect("is kept when the request brought no reply", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const cut = { fail: { kind: "interrupted", status: null } } as const
        const exit = yield* Effect.exit(live(store, priced([cut]).executor, [], { ledger: yield* ledgerOf }))
        assert.isTrue(Exit.isFailure(exit))
        assert.isAtLeast((yield* spentOf(store, "t")).tokens, 50)
      })
    )
  )

  it.effect("is booked by every later owner, once, with what its nested agents have spent", () =>
    Effect.gen(function* () {
      const path = fresh()
      const inner = priced([asking(call("x", "look")), reply])
      const toolbox = yield* ToolboxLive.make([counter("look").one])
      const helper = subAgent({ name: "helper", description: "", executor: inner.executor, toolbox })
      const outer = priced([asking(call("a", "helper", { task: "go" })), reply])
      const first = yield* ledgerOf
      // after, history, prompt, reply, call, the four of the agent in it, reply: it dies behind the call.
      yield* withStore(path, (store) =>
        Effect.exit(live(mortal(store, 10, false), outer.executor, [helper], { ledger: first }))
      )
      const spent = (yield* first.balance).spent.tokens
      assert.strictEqual(spent, 4 * 60)
      const second = yield* ledgerOf
      const again = yield* withStore(path, (store) =>
        live(store, priced([reply]).executor, [helper], { ledger: second })
      )
      assert.deepStrictEqual([again.reply.text, again.steps, again.toolCalls], ["ok", 2, 1])
      // The reply that was lost was asked for again.
      assert.strictEqual((yield* second.balance).spent.tokens, 4 * 60)
      const third = yield* ledgerOf
      for (let round = 0; round < 2; round += 1)
        yield* withStore(path, (store) => live(store, outer.executor, [helper], { ledger: third }))
      assert.strictEqual((yield* third.balance).spent.tokens, 4 * 60)
    })
  )
})

describe("a turn that is read", () => {
  it.effect("tells a reader of parts the text and the end of every reply, and nobody else", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const never = counter("never").one
        yield* live(store, modelOf([asks(call("a", "never")), says("done")]).executor, [never])
        for (const stream of [true, false]) {
          const parts: Array<string> = []
          yield* live(store, hanging, [never], {
            stream,
            emit: (event) =>
              Effect.sync(() => {
                if (event._tag === "PartSeen")
                  parts.push(event.part._tag === "TextDelta" ? event.part.text : event.part._tag)
              })
          })
          assert.deepStrictEqual(parts, stream ? ["Finish", "done", "Finish"] : [])
        }
      })
    )
  )

  it.effect("fails typed when what is open of a reply has a form it does not read", () =>
    Effect.gen(function* () {
      const path = fresh()
      const failing = executorOf([makeModelError({ kind: "interrupted", status: null })]).executor
      yield* withStore(path, (store) => cutOff(live(store, hanging, [])))
      yield* withStore(path, (store) =>
        Effect.scoped(Effect.flatMap(store.own("t"), (journal) => journal.open("step/1/reply", { facts: "many" })))
      )
      const failure = errorOf(yield* withStore(path, (store) => Effect.exit(live(store, failing, []))))
      assert.strictEqual(failure._tag, "JournalMismatch")
      assert.include(failure.message, "step/1/reply[open] is kept in a form that this version does not read")
      assert.strictEqual(failure._tag === "JournalMismatch" && failure.turn, "t")
      assert.match(failure._tag === "JournalMismatch" ? failure.guidance : "", /version that began it/)
      const file = new DatabaseSync(path)
      assert.strictEqual(
        file.prepare("select count(*) as n from step where key like '%/reply' and state = 'done'").get()?.["n"],
        0
      )
      file.close()
    })
  )
})

describe("what a durable turn is given", () => {
  const store = {} as JournalStoreShape
  const { executor } = executorOf([])
  it.each<readonly [object, string]>([
    [{ id: "" }, "id is empty"],
    [{ id: "a", after: "b", history: [] }, "history is given by the turn named in after"],
    [{ id: "a", after: "a" }, "after names the turn itself"]
  ])("is refused before anything is done: %o, as %s", (options, words) =>
    assert.throws(() => durableTurn({ id: "t", store, executor, prompt: null, ...options }), words)
  )
})
