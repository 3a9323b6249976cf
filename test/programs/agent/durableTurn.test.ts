import { assert, describe, it } from "@effect/vitest"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import type { AgentEvent } from "../../../src/domain/agent/AgentEvent.ts"
import { unpaired } from "../../../src/domain/chat/MessageGroups.ts"
import type { ModelReply } from "../../../src/domain/chat/ModelReply.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import { durableTurn, historyOf } from "../../../src/programs/agent/durableTurn.ts"
import { subAgent } from "../../../src/programs/agent/subAgent.ts"
import { AgentHooks } from "../../../src/services/AgentHooks.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import type { JournalStoreShape } from "../../../src/services/JournalStore.ts"
import { asks, call, errorOf, executorOf, roles, says } from "../../support/agentRuns.ts"
import { scriptedWorld } from "../../support/world.ts"
import { counter, fresh, live, modelOf, mortal, withStore } from "../../support/durableTurns.ts"

const script = [
  asks(call("a", "safe", { n: 1 }), call("b", "never", { n: 2 }), call("c", "keyed", { n: 3 })),
  asks(call("d", "never", { n: 4 })),
  says("done")
]

describe("a durable turn", () => {
  it.effect("goes on from any step it died at: the same end, no second run of a tool that must not", () =>
    Effect.gen(function* () {
      for (const behind of [false, true])
        for (let at = 1; at <= 9; at += 1) {
          const path = fresh()
          const model = modelOf(script)
          const [safe, keyed, never] = [
            counter("safe", { repeat: "safe", parallel: true }),
            counter("keyed", { repeat: "keyed" }),
            counter("never")
          ]
          const tools = [safe.one, keyed.one, never.one]
          const first = yield* withStore(path, (store) =>
            Effect.exit(live(mortal(store, at, behind), model.executor, tools))
          )
          assert.isTrue(Exit.isFailure(first), `${at} ${behind}`)
          const result = yield* withStore(path, (store) => live(store, model.executor, tools))
          assert.strictEqual(result.reply.text, "done")
          assert.deepStrictEqual([result.steps, result.toolCalls], [3, 4])
          assert.strictEqual(never.ran.length, new Set(never.ran).size)
          assert.isAtMost(model.asked.length, 4)
          const history = yield* withStore(path, (store) => historyOf(store, "t"))
          assert.strictEqual(roles(history), "uatttata")
          assert.isNull(unpaired(history))
          const before = model.asked.length
          const again = yield* withStore(path, (store) => live(store, model.executor, tools))
          assert.deepStrictEqual([again.reply.text, model.asked.length], ["done", before])
        }
    })
  )

  it.effect("asks a tool what became of a call in doubt, and tells the model when nobody knows", () =>
    Effect.gen(function* () {
      const answers: ReadonlyArray<readonly [ToolboxLive.RunOptions, string, number]> = [
        [{}, "unknown: it was begun", 1],
        [{ settle: () => "it was done" }, "it was done", 1],
        [{ settle: (key) => Effect.succeed(key) }, "t/step/1/call/0", 1],
        [{ settle: () => null }, "never 7", 2],
        [{ settle: () => Effect.fail("no") }, "unknown: it was begun", 1]
      ]
      for (const [options, text, runs] of answers) {
        const path = fresh()
        const model = modelOf([asks(call("a", "never", { n: 7 })), says("done")])
        const { one, ran } = counter("never", options)
        // after, history, prompt, reply, call
        yield* withStore(path, (store) => Effect.exit(live(mortal(store, 5, false), model.executor, [one])))
        assert.strictEqual(ran.length, 1)
        yield* withStore(path, (store) => live(store, model.executor, [one]))
        const history = yield* withStore(path, (store) => historyOf(store, "t"))
        assert.include(String(history[2]?.content), text)
        assert.strictEqual(ran.length, runs)
        assert.deepStrictEqual(new Set(ran), new Set(["t/step/1/call/0"]))
      }
    })
  )

  it.effect(
    "is parked until a person answers, before any tool of the reply runs; a second answer changes nothing",
    () =>
      Effect.gen(function* () {
        for (const [answer, runs, text] of [
          ["approved", 1, "pay 1"],
          ["denied", 0, "was not approved"],
          ["denied: too dear", 0, "too dear"]
        ] as const) {
          const path = fresh()
          const model = modelOf([asks(call("a", "look"), call("b", "pay", { n: 1 })), says("done")])
          const [look, pay] = [counter("look", { repeat: "safe" }), counter("pay", { approval: true })]
          const tools = [look.one, pay.one]
          const parked = yield* withStore(path, (store) => Effect.exit(live(store, model.executor, tools)))
          assert.strictEqual(errorOf(parked)._tag, "TurnParked")
          assert.deepStrictEqual([look.ran.length, pay.ran.length], [0, 0])
          yield* TestClock.adjust("30 days")
          yield* withStore(path, (store) =>
            Effect.gen(function* () {
              const [turn] = yield* store.list
              assert.deepStrictEqual([turn?.status, turn?.waitsFor], ["parked", "step/1/call/1/approval"])
              assert.isTrue(yield* store.answer("t", "step/1/call/1/approval", answer))
              assert.isFalse(yield* store.answer("t", "step/1/call/1/approval", "approved"))
            })
          )
          const result = yield* withStore(path, (store) => live(store, model.executor, tools))
          assert.strictEqual(result.reply.text, "done")
          assert.deepStrictEqual([look.ran.length, pay.ran.length, model.asked.length], [1, runs, 2])
          const history = yield* withStore(path, (store) => historyOf(store, "t"))
          assert.include(String(history[3]?.content), text)
        }
      })
  )

  it.effect("asks the hook where there is one, and keeps what it said", () =>
    Effect.gen(function* () {
      const path = fresh()
      const model = modelOf([asks(call("a", "pay")), says("done")])
      const pay = counter("pay", { approval: true })
      const asked: Array<string> = []
      const hooks = { onApproval: ({ name }: { readonly name: string }) => Effect.sync(() => asked.push(name) > 9) }
      for (let round = 0; round < 2; round += 1)
        yield* withStore(path, (store) =>
          live(store, model.executor, [pay.one]).pipe(Effect.provideService(AgentHooks, hooks))
        )
      assert.deepStrictEqual([asked, pay.ran], [["pay"], []])
    })
  )

  it.effect("parks for a nested agent, which goes on from its own steps", () =>
    Effect.gen(function* () {
      const path = fresh()
      const outer = modelOf([asks(call("a", "helper", { task: "pay it" })), says("outer done")])
      const inner = modelOf([asks(call("x", "look")), asks(call("y", "pay")), says("inner done")])
      const [look, pay] = [counter("look"), counter("pay", { approval: true })]
      const toolbox = yield* ToolboxLive.make([look.one, pay.one])
      const helper = subAgent({ name: "helper", description: "helps", executor: inner.executor, toolbox })
      const parked = yield* withStore(path, (store) => Effect.exit(live(store, outer.executor, [helper])))
      assert.strictEqual(errorOf(parked)._tag, "TurnParked")
      yield* withStore(path, (store) =>
        Effect.gen(function* () {
          const [turn] = yield* store.list
          assert.isTrue(yield* store.answer("t", turn?.waitsFor ?? "", "approved"))
        })
      )
      const result = yield* withStore(path, (store) => live(store, outer.executor, [helper]))
      assert.strictEqual(result.reply.text, "outer done")
      assert.deepStrictEqual(
        [look.ran, pay.ran],
        [["t/step/1/call/0/step/1/call/0"], ["t/step/1/call/0/step/2/call/0"]]
      )
      assert.deepStrictEqual(
        [outer.asked, inner.asked],
        [
          [0, 1],
          [0, 1, 2]
        ]
      )
    })
  )

  it.effect("books what was spent before once, and runs no hook again", () =>
    Effect.gen(function* () {
      const path = fresh()
      const prompts: Array<string> = []
      const stops: Array<string | null> = []
      const hooks = {
        onUserPrompt: (prompt: string) => Effect.sync(() => (prompts.push(prompt), `${prompt}!`)),
        onStop: (reply: ModelReply) => Effect.sync(() => (stops.push(reply.text) === 1 ? "and now?" : null))
      }
      const model = modelOf([says("one"), says("two")])
      const run = withStore(path, (store) =>
        live(store, model.executor, []).pipe(Effect.provideService(AgentHooks, hooks))
      )
      const [first, second] = [yield* run, yield* run]
      assert.deepStrictEqual([first.reply.text, second.reply.text], ["two", "two"])
      assert.deepStrictEqual([prompts, stops], [["go"], ["one", "two"]])
      const history = yield* withStore(path, (store) => historyOf(store, "t"))
      assert.deepStrictEqual(
        history.map(({ content }) => content),
        ["go!", "one", "and now?", "two"]
      )
    })
  )

  it.effect("comes after another turn without storing its history again", () =>
    Effect.gen(function* () {
      const path = fresh()
      const model = modelOf(Array.from({ length: 9 }, (_, at) => says(`answer ${at}`)))
      yield* withStore(path, (store) =>
        Effect.gen(function* () {
          yield* live(store, model.executor, [], { id: "one", history: [{ role: "system", content: "rules" }] })
          yield* live(store, model.executor, [], { id: "two", after: "one", prompt: "more" })
          yield* live(store, model.executor, [], { id: "three", after: "two", prompt: "again" })
          const history = yield* historyOf(store, "three")
          assert.deepStrictEqual(
            history.map(({ content }) => content),
            ["rules", "go", "answer 0", "more", "answer 1", "again", "answer 2"]
          )
          const size = JSON.stringify(yield* store.steps("three")).length
          assert.isBelow(size, JSON.stringify(yield* store.steps("one")).length)
        })
      )
    })
  )

  it.effect("ends within a second of a cancel from outside, in the middle of a tool", () =>
    Effect.gen(function* () {
      const path = fresh()
      const model = modelOf([asks(call("a", "slow")), says("done")])
      let isInterrupted = false
      const slow = ToolboxLive.tool({
        name: "slow",
        description: "slow",
        parameters: Schema.Struct({}),
        run: () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => (isInterrupted = true)))
      })
      const exit = yield* withStore(path, (store) =>
        Effect.gen(function* () {
          const fiber = yield* Effect.forkChild(Effect.exit(live(store, model.executor, [slow])))
          yield* TestClock.adjust(100)
          yield* withStore(path, (other) => other.cancel("t"))
          yield* TestClock.adjust(1_000)
          return yield* Fiber.join(fiber)
        })
      )
      assert.strictEqual(errorOf(exit)._tag, "TurnCancelled")
      assert.isTrue(isInterrupted)
      const again = yield* withStore(path, (store) => Effect.exit(live(store, model.executor, [slow])))
      assert.strictEqual(errorOf(again)._tag, "TurnCancelled")
    })
  )

  it.effect("is taken up by a program with other tools: what cannot run any more is told to the model", () =>
    Effect.gen(function* () {
      const strict = ToolboxLive.tool({
        name: "pay",
        description: "pays, by a name now",
        parameters: Schema.Struct({ account: Schema.String }),
        run: () => Effect.die("it must not run")
      })
      for (const [tools, words] of [
        [[], "pay"],
        [[strict], "account"]
      ] as const) {
        const path = fresh()
        const model = modelOf([asks(call("a", "look"), call("b", "pay", { n: 7 })), says("done")])
        const [look, pay] = [counter("look", { repeat: "safe" }), counter("pay", { approval: true })]
        const parked = yield* withStore(path, (store) => Effect.exit(live(store, model.executor, [look.one, pay.one])))
        assert.strictEqual(errorOf(parked)._tag, "TurnParked")
        yield* withStore(path, (store) => store.answer("t", "step/1/call/1/approval", "approved"))
        const again = counter("look", { repeat: "safe" })
        const result = yield* withStore(path, (store) => live(store, model.executor, [again.one, ...tools]))
        assert.strictEqual(result.reply.text, "done")
        assert.deepStrictEqual([again.ran.length, pay.ran.length, model.asked.length], [1, 0, 2])
        const history = yield* withStore(path, (store) => historyOf(store, "t"))
        assert.strictEqual(roles(history), "uatta")
        assert.isNull(unpaired(history))
        assert.include(String(history[3]?.content), words)
      }
    })
  )

  it.effect("ends within a second of a cancel from outside, in a wait of recovery and in the middle of a stream", () =>
    Effect.gen(function* () {
      for (const step of [{ fail: { kind: "overloaded", status: 529 } }, { stall: "half an ans" }] as const) {
        const path = fresh()
        const policy = new RecoveryPolicy({
          ...RecoveryPolicy.broad,
          routes: [{ model: "m" }],
          backoff: { base: 60_000, cap: 60_000, jitter: 0 }
        })
        const world = scriptedWorld(policy, [step, { reply: { text: "late" } }])
        const executor = yield* Effect.provide(Recovery, world.layer)
        const exit = yield* withStore(path, (store) =>
          Effect.gen(function* () {
            const fiber = yield* Effect.forkChild(Effect.exit(live(store, executor, [], { stream: true })))
            yield* TestClock.adjust(2_000)
            yield* withStore(path, (other) => other.cancel("t"))
            yield* TestClock.adjust(1_000)
            return fiber.pollUnsafe()
          })
        )
        if (exit === undefined || Exit.isFailure(exit)) return assert.fail("it goes on")
        assert.strictEqual(errorOf(exit.value)._tag, "TurnCancelled")
        assert.strictEqual(world.model.requests.length, 1)
      }
    })
  )

  it.effect("tells its events from the beginning to whoever takes it up", () =>
    Effect.gen(function* () {
      const path = fresh()
      const { one } = counter("never")
      const told: Array<ReadonlyArray<AgentEvent>> = []
      for (let round = 0; round < 2; round += 1) {
        const events: Array<AgentEvent> = []
        const model = modelOf([asks(call("a", "never")), says("done")])
        yield* withStore(path, (store) =>
          live(store, model.executor, [one], { emit: (event) => Effect.sync(() => events.push(event)) })
        )
        told.push(events)
      }
      assert.deepStrictEqual(told[0], told[1])
    })
  )

  it.effect("fails typed, naming the field, when what is kept has a form it does not read; new fields are kept", () =>
    Effect.gen(function* () {
      const path = fresh()
      const reply = { ...makeReply({ text: "done" }), details: { later: [1] }, unheard: "of" }
      const model = modelOf([reply])
      yield* withStore(path, (store) => live(store, model.executor, []))
      const again = yield* withStore(path, (store) => live(store, model.executor, []))
      assert.deepStrictEqual<object>(again.reply, reply)
      const file = new DatabaseSync(path)
      file.exec("update step set value = replace(value, '\"text\":\"done\"', '\"text\":7') where key = 'step/1/reply'")
      file.close()
      const exit = yield* withStore(path, (store) => Effect.exit(live(store, model.executor, [])))
      const failure = errorOf(exit)
      assert.strictEqual(failure._tag, "JournalMismatch")
      assert.include(failure.message, `step/1/reply["reply"]["text"]`)
    })
  )

  it("refuses options that do not go together, naming the field", () => {
    const store = {} as JournalStoreShape
    const { executor } = executorOf([])
    for (const [options, field] of [
      [{ id: "" }, "id"],
      [{ id: "a", after: "b", history: [] }, "history"],
      [{ id: "a", after: "a" }, "after"]
    ] as const)
      assert.throws(() => durableTurn({ store, executor, prompt: null, ...options }), new RegExp(`^${field}`))
  })
})

describe("a ledger", () => {
  it.effect("books what was spent before once per key, and then refuses like for any spending", () =>
    Effect.gen(function* () {
      const ledger = yield* BudgetMemory.make({ maxTokens: 100, maxCostUsd: null })
      for (const key of ["a", "a", "b"]) yield* ledger.book?.(key, { tokens: 60, costUsd: null }) ?? Effect.void
      assert.strictEqual((yield* ledger.balance).spent.tokens, 120)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(ledger.check)))
    })
  )
})
