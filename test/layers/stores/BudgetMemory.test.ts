import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { ConfigurationError } from "../../../src/domain/failure/ConfigurationError.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import { BudgetLedger, type LedgerShape } from "../../../src/services/BudgetLedger.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { Recovery } from "../../../src/services/Recovery.ts"

const worst = { tokens: 100, costUsd: 0.01 }

it.effect(
  "never passes a limit by more than one worst case under 64 concurrent spenders, and ends at what was spent",
  () =>
    Effect.gen(function* () {
      const ledger = yield* BudgetMemory.make({ maxTokens: 5_050, maxCostUsd: null })
      const children = yield* Effect.forEach(Array.from({ length: 64 }), () =>
        ledger.child({ maxTokens: 1_000, maxCostUsd: null })
      )
      let highest = 0
      let spent = 0
      let refused = 0
      yield* Effect.forEach(
        children,
        (child, index) =>
          Effect.gen(function* () {
            for (let round = 0; round < 5; round += 1) {
              const reservation = yield* Effect.exit(child.admit(worst))
              if (Exit.isFailure(reservation)) {
                refused += 1
                return
              }
              const now = yield* ledger.balance
              highest = Math.max(highest, now.spent.tokens + now.reserved.tokens)
              for (let turn = 0; turn < index % 4; turn += 1) yield* Effect.yieldNow
              const tokens = 40 + ((index * 7 + round * 13) % 61)
              spent += tokens
              yield* child.settle(reservation.value, { tokens, costUsd: 0.001 })
            }
          }),
        { concurrency: "unbounded", discard: true }
      )
      const end = yield* ledger.balance
      assert.isAtMost(highest, 5_050 + worst.tokens)
      assert.isAbove(refused, 0)
      assert.strictEqual(end.spent.tokens, spent)
      assert.deepStrictEqual(end.reserved, { tokens: 0, nanoUsd: 0 })
    })
)

it.effect("asks the limits of every ledger above it", () =>
  Effect.gen(function* () {
    const ledger = yield* BudgetMemory.make({ maxTokens: 150, maxCostUsd: null })
    const child = yield* ledger.child({ maxTokens: 1_000, maxCostUsd: null })
    const sibling = yield* ledger.child({ maxTokens: 50, maxCostUsd: null })
    const first = yield* child.admit(worst)
    yield* sibling.admit(worst)
    const refused = yield* Effect.flip(child.admit(worst))
    assert.strictEqual(refused.allowed, 150)
    assert.strictEqual((yield* Effect.flip(sibling.admit(worst))).allowed, 50)
    yield* child.settle(first, { tokens: 160, costUsd: 0 })
    assert.strictEqual((yield* Effect.flip(child.check)).spent, 160)
  })
)

it.effect("settles a reservation once", () =>
  Effect.gen(function* () {
    const ledger = yield* BudgetMemory.make({ maxTokens: null, maxCostUsd: 1 }, { tokens: 0, costUsd: 0.5 })
    const reservation = yield* ledger.admit(worst)
    yield* ledger.settle(reservation, worst)
    yield* ledger.settle(reservation, worst)
    assert.strictEqual((yield* ledger.balance).spent.nanoUsd, 510_000_000)
    assert.strictEqual((yield* ledger.balance).spent.tokens, 100)
  })
)

const prices = { inputPerM: 1, outputPerM: 1 }

/** One request over two routes, of which the second has no price; the ledger of the call and that of the layer. */
const askUnder = (ledgers: { readonly call: LedgerShape | null; readonly layer?: LedgerShape }, second = false) =>
  Effect.gen(function* () {
    const model = ScriptedModel.make([{ reply: { text: "fine" } }])
    const small = second ? { model: "small", prices } : { model: "small" }
    const recovery = RecoveryLive.layer(new RecoveryPolicy({ routes: [{ model: "large", prices }, small] })).pipe(
      Layer.provide(ModelSummarizer.layer({ model: "large" })),
      Layer.provide(Layer.succeed(ModelClient, model.client)),
      Layer.provide(Layer.succeed(BudgetLedger, ledgers.layer ?? null))
    )
    const exit = yield* Effect.flatMap(Recovery, (one) =>
      one.complete({ messages: [{ role: "user", content: "go" }] })
    ).pipe(Effect.provideService(BudgetLedger, ledgers.call), Effect.provide(recovery), Effect.exit)
    const [reason] = Exit.isFailure(exit) ? exit.cause.reasons : []
    const error = reason?._tag === "Fail" ? reason.error : reason?._tag === "Die" ? reason.defect : null
    return {
      how: Exit.isSuccess(exit) ? "Success" : reason?._tag,
      field: error instanceof ConfigurationError ? error.field : null,
      requests: model.requests.length
    }
  })

const usd = { maxTokens: null, maxCostUsd: 1 }

it.effect("a limit in USD with a fallback of unknown price is a configuration error before the first request", () =>
  Effect.gen(function* () {
    const ledger = yield* BudgetMemory.make(usd)
    const child = yield* ledger.child({ maxTokens: 1_000_000, maxCostUsd: null })
    const found = { field: "routes[1].prices", requests: 0 }
    assert.deepStrictEqual(yield* askUnder({ call: ledger }), { how: "Die", ...found })
    assert.deepStrictEqual(yield* askUnder({ call: child }), { how: "Die", ...found })
    assert.deepStrictEqual(yield* askUnder({ call: null, layer: ledger }), { how: "Fail", ...found })
  })
)

it.effect("a limit in tokens needs no price, and one in USD is fine with a price for each model", () =>
  Effect.gen(function* () {
    const fine = { how: "Success", field: null, requests: 1 }
    const tokens = yield* BudgetMemory.make({ maxTokens: 1_000_000, maxCostUsd: null })
    assert.deepStrictEqual(yield* askUnder({ call: tokens, layer: tokens }), fine)
    const ledger = yield* BudgetMemory.make(usd)
    assert.deepStrictEqual(yield* askUnder({ call: ledger, layer: ledger }, true), fine)
  })
)
