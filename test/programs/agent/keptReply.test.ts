import { assert, describe, it } from "@effect/vitest"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import { isAgentError } from "../../../src/domain/failure/AgentError.ts"
import type { TrailEntry } from "../../../src/domain/failure/Trail.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import { spentOf, type DurableOptions } from "../../../src/programs/agent/durableTurn.ts"
import { BudgetLedger } from "../../../src/services/BudgetLedger.ts"
import type { JournalStoreShape } from "../../../src/services/JournalStore.ts"
import { RequestKeep, type RequestKeeper } from "../../../src/services/RequestKeep.ts"
import { CurrentTurn, makeTurn, type TurnState } from "../../../src/services/Turn.ts"
import type { ModelReply } from "../../../src/domain/chat/ModelReply.ts"
import { asks, call, errorOf, executorOf, says } from "../../support/agentRuns.ts"
import { counter, fresh, live, withStore } from "../../support/durableTurns.ts"

/** What a request is given by the journal, and what its turn has. */
interface Given {
  readonly keep: RequestKeeper
  readonly turn: TurnState
}

type Ask = (given: Given) => Effect.Effect<ModelReply>

/** An executor that does with each request what recovery could do with it. */
const executorBy = (...asked: ReadonlyArray<Ask>): DurableOptions["executor"] => {
  let at = -1
  return {
    ...executorOf([]).executor,
    complete: () =>
      Effect.gen(function* () {
        const keep = yield* RequestKeep
        const turn = yield* CurrentTurn
        at += 1
        if (keep === null || turn === null) return yield* Effect.die("nothing is kept")
        return yield* asked[at]?.({ keep, turn }) ?? Effect.succeed(says("end"))
      })
  }
}

const hang = Effect.never

/** One life of the turn, in a turn of its own, until it hangs or ends. */
const life = (
  store: JournalStoreShape,
  executor: DurableOptions["executor"],
  tools: ReadonlyArray<ToolboxLive.Tool> = [],
  options: Partial<DurableOptions> = {},
  turn: TurnState = makeTurn()
) =>
  Effect.gen(function* () {
    const running = Effect.provideService(Effect.exit(live(store, executor, tools, options)), CurrentTurn, turn)
    const fiber = yield* Effect.forkChild(running)
    yield* TestClock.adjust(1)
    yield* Fiber.interrupt(fiber)
    return yield* Fiber.await(fiber)
  })

/** A process that is killed cannot take its name back. */
const leaveHolder = (path: string): void => {
  const database = new DatabaseSync(path)
  database.exec("update turn set holder = 'process 1'")
  database.close()
}

const entry = (model: string): TrailEntry => ({
  role: "main",
  attempt: 1,
  model,
  maxOutputTokens: null,
  startedMs: 0,
  durationMs: 1,
  status: 529,
  outcome: "overloaded",
  code: null,
  requestId: "r",
  providerRequestId: null,
  waitMs: null,
  waitOrigin: null,
  usage: Usage.unknown,
  usageFinal: true,
  costUsd: 0
})

describe("the turn behind a reply that is read", () => {
  const small = { model: "small", client: null }
  const large = { model: "large", client: "eu" }
  const first: Ask = ({ turn }) =>
    Effect.sync(() => {
      turn.usedMillis = 5_000
      turn.route = small
      turn.gone = [large]
      return asks(call("a", "look"))
    })

  it.effect("stands where it stood: its time, its route and the routes that are gone", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const look = counter("look").one
        yield* life(
          store,
          executorBy(first, () => hang),
          [look]
        )
        const seen: Array<object> = []
        const note: Ask = ({ turn }) =>
          Effect.andThen(
            Effect.sync(() => seen.push({ ...turn })),
            hang
          )
        yield* life(store, executorBy(note), [look])
        assert.deepInclude(seen[0], { usedMillis: 5_000, route: small, gone: [large] })
        // Time that was spent beside it is not given back.
        yield* life(store, executorBy(note), [look], {}, { ...makeTurn(), usedMillis: 9_000 })
        assert.deepInclude(seen[1], { usedMillis: 9_000 })
      })
    )
  )
})

describe("a request that did not end", () => {
  const kept = { shown: "half", step: { n: 1 } }

  it.effect("is given what was kept of it, and counts from the instant it was begun at", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const seen: Array<object> = []
        const note: Ask = ({ keep, turn }) =>
          Effect.gen(function* () {
            seen.push({ before: keep.before, begunAt: keep.begunAt, key: keep.key, usedMillis: turn.usedMillis })
            turn.usedMillis = Math.max(turn.usedMillis, 2_000)
            yield* keep.save(kept, [], 0)
            return yield* hang
          })
        for (let lives = 0; lives < 3; lives += 1) {
          yield* life(store, executorBy(note))
          yield* TestClock.adjust(7_000)
        }
        const key = "t/step/1/reply"
        assert.deepStrictEqual(seen, [
          { before: null, begunAt: null, key, usedMillis: 0 },
          // Time goes on while no process has it.
          { before: kept, begunAt: 0, key, usedMillis: 2_000 + 7_001 },
          { before: kept, begunAt: 0, key, usedMillis: 2_000 + 2 * 7_001 }
        ])
      })
    )
  )

  it.effect("has in its failure what every process tried, counted from the beginning of the turn", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const tries =
          (model: string): Ask =>
          ({ keep }) =>
            Effect.andThen(keep.save(kept, [entry(model)], 40), hang)
        yield* life(store, executorBy(tries("one")))
        yield* life(store, executorBy(tries("two")))
        const cut: Ask = () => Effect.succeed(ScriptedModel.makeReply({ text: "half", finishReason: "length" }))
        const turn = makeTurn()
        const exit = yield* Effect.exit(Effect.provideService(live(store, executorBy(cut), []), CurrentTurn, turn))
        const error = errorOf(exit)
        assert.isTrue(isAgentError(error))
        if (!isAgentError(error)) return
        assert.deepStrictEqual(
          error.trail.map(({ model, startedMs }) => [model, startedMs]),
          [
            ["one", 40],
            ["two", 39]
          ]
        )
      })
    )
  )

  it.effect("is told where its answer is kept, which is written once; such an answer is in no doubt", () =>
    Effect.gen(function* () {
      const path = fresh()
      yield* withStore(path, (store) =>
        Effect.gen(function* () {
          let written = 0
          const counting: JournalStoreShape = {
            ...store,
            own: (turn) =>
              Effect.map(store.own(turn), (journal) => ({
                ...journal,
                open: (key, value) =>
                  Effect.andThen(
                    Effect.sync(() => (written += 1)),
                    journal.open(key, value)
                  )
              }))
          }
          const note: Ask = ({ keep }) =>
            Effect.gen(function* () {
              for (const name of ["r1", "r1", "r2"]) yield* keep.noteStored({ attempt: 1, name })
              yield* keep.noteStored({ attempt: 2, name: "r2" })
              yield* keep.noteStored({ attempt: 2, name: "r2" })
              return yield* hang
            })
          yield* life(counting, executorBy(note))
          assert.strictEqual(written, 3)
        })
      )
      leaveHolder(path)
      const seen: Array<unknown> = []
      yield* withStore(path, (store) =>
        life(
          store,
          executorBy(({ keep }) =>
            Effect.andThen(
              Effect.sync(() => seen.push(keep.stored, keep.takeDoubt())),
              hang
            )
          )
        )
      )
      assert.deepStrictEqual(seen, [{ attempt: 2, name: "r2" }, false])
    })
  )

  it.effect("is kept nowhere outside where nothing has said so", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const seen: Array<unknown> = []
        yield* life(
          store,
          executorBy(({ keep }) =>
            Effect.andThen(
              Effect.sync(() => seen.push(keep.stored)),
              hang
            )
          )
        )
        assert.deepStrictEqual(seen, [null])
      })
    )
  )

  it.effect("fails typed, naming what of it cannot be read", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const executor = executorBy(({ keep }) => keep.unreadable("[request][state]"))
        const exit = yield* Effect.exit(Effect.provideService(live(store, executor, []), CurrentTurn, makeTurn()))
        const failure = errorOf(exit)
        assert.strictEqual(failure._tag, "JournalMismatch")
        assert.include(failure.message, "step/1/reply[request][state] is kept in a form")
      })
    )
  )
})

describe("whether a request was in flight", () => {
  const doubts =
    (seen: Array<boolean>): Ask =>
    ({ keep }) =>
      Effect.andThen(
        Effect.sync(() => seen.push(keep.takeDoubt(), keep.takeDoubt())),
        hang
      )

  it.effect("is in doubt once, when the process before was killed, and not when it put the turn down", () =>
    Effect.gen(function* () {
      const path = fresh()
      const seen: Array<boolean> = []
      for (let lives = 0; lives < 3; lives += 1) {
        yield* withStore(path, (store) => life(store, executorBy(doubts(seen))))
        if (lives === 1) leaveHolder(path)
      }
      assert.deepStrictEqual(seen, [false, false, false, false, true, false])
    })
  )

  it.effect("is known when the process was killed in a tool: its last request had its reply", () =>
    Effect.gen(function* () {
      const path = fresh()
      const seen: Array<boolean> = []
      const look = counter("look", { repeat: "safe" }).one
      const asking: Ask = () => Effect.succeed(asks(call("a", "look")))
      const stuck = ToolboxLive.tool({
        name: "look",
        description: "",
        parameters: Schema.Struct({}),
        run: () => hang,
        repeat: "safe"
      })
      yield* withStore(path, (store) => life(store, executorBy(asking), [stuck]))
      leaveHolder(path)
      yield* withStore(path, (store) => life(store, executorBy(doubts(seen)), [look]))
      assert.deepStrictEqual(seen, [false, false])
    })
  )

  it.effect("is booked as lost, for this owner and for every later one", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const ledger = yield* BudgetMemory.make({ maxTokens: 1_000, maxCostUsd: null })
        const lose: Ask = ({ keep }) =>
          Effect.andThen(keep.bookLost({ tokens: 70, costUsd: null }, [entry("lost")], 0), hang)
        yield* life(store, executorBy(lose), [], { ledger })
        assert.strictEqual((yield* ledger.balance).spent.tokens, 70)
        assert.strictEqual((yield* spentOf(store, "t")).tokens, 70)
        const later = yield* BudgetMemory.make({ maxTokens: 1_000, maxCostUsd: null })
        yield* life(store, executorBy(lose), [], { ledger: later })
        assert.strictEqual((yield* later.balance).spent.tokens, 140)
        assert.strictEqual((yield* spentOf(store, "t")).tokens, 140)
      })
    )
  )
})

describe("what a request has spent", () => {
  const spends =
    (tokens: number, costUsd: number | null): Ask =>
    () =>
      Effect.gen(function* () {
        const ledger = yield* BudgetLedger
        if (ledger === null) return says("no ledger")
        const place = yield* Effect.orDie(ledger.admit({ tokens: 50, costUsd: 3 }))
        yield* ledger.settle(place, { tokens, costUsd })
        return says("done")
      })

  it.effect("is its cost, or the most it could cost where that is not known", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        for (const [id, costUsd, kept] of [
          ["known", 1, 1],
          ["unknown", null, 3]
        ] as const) {
          const ledger = yield* BudgetMemory.make({ maxTokens: 1_000, maxCostUsd: 100 })
          yield* life(store, executorBy(spends(5, costUsd)), [], { id, ledger })
          assert.deepStrictEqual(yield* spentOf(store, id), { tokens: 5, costUsd: kept })
        }
      })
    )
  )

  it.effect("is nothing without a ledger", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        yield* life(store, executorBy(spends(5, 1)))
        assert.deepStrictEqual(yield* spentOf(store, "t"), { tokens: 0, costUsd: 0 })
      })
    )
  )

  it.effect("is booked under the name of its turn: one ledger may have several", () =>
    withStore(fresh(), (store) =>
      Effect.gen(function* () {
        const first = yield* BudgetMemory.make({ maxTokens: 1_000, maxCostUsd: null })
        for (const id of ["a", "b"]) yield* life(store, executorBy(spends(5, 1)), [], { id, ledger: first })
        const later = yield* BudgetMemory.make({ maxTokens: 1_000, maxCostUsd: null })
        for (const id of ["a", "b", "a"]) yield* life(store, executorBy(), [], { id, ledger: later })
        assert.strictEqual((yield* later.balance).spent.tokens, 10)
      })
    )
  )
})
