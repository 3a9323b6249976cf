import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import type { ReplyPart } from "../../../src/domain/chat/ReplyPart.ts"
import type { ModelRequestExecutor } from "../../../src/services/Recovery.ts"
import type { JournalStoreShape } from "../../../src/services/JournalStore.ts"
import { RequestKeep } from "../../../src/services/RequestKeep.ts"
import { historyOf, spentOf } from "../../../src/programs/agent/durableTurn.ts"
import { asks, call, executorOf, says } from "../../support/agentRuns.ts"
import { counter, fresh, live, modelOf, withStore } from "../../support/durableTurns.ts"

describe("the answer of a person", () => {
  it.effect.each<readonly [string, string]>([
    ["approved", "pay 0"],
    ["denied", "Not run: it was not approved."],
    ["denied: too dear", "Not run: it was not approved: too dear"],
    ["denied: too\ndear", "Not run: it was not approved: too\ndear"],
    ["denied: ", "Not run: it was not approved."],
    ["denied:too dear", "Not run: it was not approved."],
    ["perhaps denied: who knows", "Not run: it was not approved."],
    ["Approved", "Not run: it was not approved."],
    ["", "Not run: it was not approved."]
  ])("%j lets the call run only when it says so, and a no may have a reason", ([answer, content]) =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const model = modelOf([asks(call("a", "pay")), says("done")])
        const pay = counter("pay", { approval: true }).one
        yield* Effect.exit(live(store, model.executor, [pay]))
        yield* store.answer("t", "step/1/call/0/approval", answer)
        yield* live(store, model.executor, [pay])
        assert.strictEqual((yield* historyOf(store, "t")).find(({ role }) => role === "tool")?.content, content)
      })
    )
  )
})

describe("turns that come after each other in a circle", () => {
  it.effect("are read once each", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const model = modelOf(Array.from({ length: 9 }, () => says("ok")))
        yield* live(store, model.executor, [], { id: "one", after: "two", prompt: "first" })
        yield* live(store, model.executor, [], { id: "two", after: "one", prompt: "second" })
        const contents = (turn: string) =>
          Effect.map(historyOf(store, turn), (history) => history.map(({ content }) => content))
        assert.deepStrictEqual(yield* contents("two"), ["first", "ok", "second", "ok"])
        assert.deepStrictEqual(yield* contents("one"), ["second", "ok", "first", "ok"])
        assert.deepStrictEqual(yield* spentOf(store, "one"), { tokens: 0, costUsd: 0 })
      })
    )
  )
})

describe("a stream in a journal", () => {
  const delta = (text: string): ReplyPart => ({ _tag: "TextDelta", text })

  it.effect("keeps what was shown before what was decided about it", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const written: Array<string> = []
        const noting: JournalStoreShape = {
          ...store,
          own: (turn) =>
            Effect.map(store.own(turn), (journal) => ({
              ...journal,
              tell: (key, text) =>
                Effect.andThen(
                  Effect.sync(() => written.push(`text ${text}`)),
                  journal.tell(key, text)
                ),
              open: (key, value) =>
                Effect.andThen(
                  Effect.sync(() => written.push("decision")),
                  journal.open(key, value)
                )
            }))
        }
        const deciding = Stream.fromEffect(
          Effect.flatMap(RequestKeep, (keep) => keep?.save({ shown: "half" }, [], 0) ?? Effect.die("nothing is kept"))
        )
        const executor: ModelRequestExecutor = {
          ...executorOf([]).executor,
          stream: () =>
            Stream.make(delta("half")).pipe(Stream.concat(Stream.drain(deciding)), Stream.concat(Stream.never))
        }
        const fiber = yield* Effect.forkChild(live(noting, executor, [], { stream: true }))
        yield* TestClock.adjust(10)
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(written, ["text half", "decision"])
      })
    )
  )

  it.effect("keeps what was shown every second, and gives a request that is taken up what it was shown", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const executor: ModelRequestExecutor = {
          ...executorOf([]).executor,
          stream: () => Stream.concat(Stream.make(delta("half")), Stream.never)
        }
        const textIn = Effect.map(store.stream("t"), (rows) => rows.map(({ text }) => text))
        const fiber = yield* Effect.forkChild(live(store, executor, [], { stream: true }))
        yield* TestClock.adjust(999)
        assert.deepStrictEqual(yield* textIn, [])
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(yield* textIn, ["half"])
        yield* Fiber.interrupt(fiber)
        const parts: Array<ReplyPart> = []
        const whole: ModelRequestExecutor = {
          ...executorOf([]).executor,
          stream: () =>
            Stream.make<Array<ReplyPart>>(delta("half and"), delta(" more"), {
              _tag: "Finish",
              reply: says("half and more")
            })
        }
        const exit = yield* Effect.exit(
          live(store, whole, [], {
            stream: true,
            emit: (event) => Effect.sync(() => event._tag === "PartSeen" && parts.push(event.part))
          })
        )
        assert.isTrue(Exit.isSuccess(exit))
        assert.deepStrictEqual(
          parts.map((part) => (part._tag === "TextDelta" ? part.text : part._tag)),
          ["half", " and", " more", "Finish"]
        )
      })
    )
  )
})
