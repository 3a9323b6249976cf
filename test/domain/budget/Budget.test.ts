import { assert, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Budget from "../../../src/domain/budget/Budget.ts"
import { costOf } from "../../../src/domain/budget/Cost.ts"

const admitted = (budget: Budget.Budget, worst: Budget.Amount): Budget.Budget =>
  Result.getOrThrow(Budget.admit(budget, worst))

it("admits while spent and reserved are below the limit, then refuses", () => {
  const worst = { tokens: 600, costUsd: 0 }
  const one = admitted(Budget.make({ maxTokens: 1_000, maxCostUsd: null }), worst)
  const two = admitted(one, worst)
  assert.deepStrictEqual(
    Budget.admit(two, worst),
    Result.fail({ limit: "tokens", allowed: 1_000, spent: 0, reserved: 1_200 })
  )
})

it("admits again when a settled request spent less than its worst case", () => {
  const worst = { tokens: 1_000, costUsd: 0 }
  const full = admitted(Budget.make({ maxTokens: 1_000, maxCostUsd: null }), worst)
  assert.isNotNull(Budget.refusalOf(full, worst))
  const settled = Budget.settle(full, worst, { tokens: 10, costUsd: 0 })
  assert.isNull(Budget.refusalOf(settled, worst))
  assert.strictEqual(settled.spent.tokens, 10)
  assert.strictEqual(settled.reserved.tokens, 0)
})

it("refuses at the limit itself, not beyond it", () => {
  const budget = Budget.make({ maxTokens: null, maxCostUsd: 1 }, { tokens: 0, costUsd: 0.99 })
  const next = admitted(budget, { tokens: 1_000, costUsd: 0.01 })
  assert.strictEqual(Budget.refusalOf(next, { tokens: 1, costUsd: 0 })?.limit, "usd")
  assert.isNull(Budget.exhaustionOf(next))
})

it("gives reservations back without a trace of rounding", () => {
  let budget = Budget.make({ maxTokens: null, maxCostUsd: 100 })
  const worsts = [0.1, 0.2, 0.3, 0.07].map((costUsd) => ({ tokens: 1, costUsd }))
  for (const worst of worsts) budget = admitted(budget, worst)
  for (const worst of worsts) budget = Budget.settle(budget, worst, { tokens: 1, costUsd: 0.1 })
  assert.deepStrictEqual(budget.reserved, { tokens: 0, nanoUsd: 0 })
  assert.strictEqual(Budget.toUsd(budget.spent.nanoUsd), 0.4)
})

it("books an unknown cost as the worst case", () => {
  const worst = { tokens: 100, costUsd: 0.5 }
  const budget = Budget.settle(admitted(Budget.make({ maxTokens: null, maxCostUsd: 1 }), worst), worst, {
    tokens: 100,
    costUsd: null
  })
  assert.strictEqual(Budget.toUsd(budget.spent.nanoUsd), 0.5)
})

it("prices every token once, at its own rate", () => {
  const prices = { inputPerM: 2, outputPerM: 10, cachedInputPerM: 1, cacheWritePerM: 4 }
  const usage = {
    promptTokens: 1_000,
    completionTokens: 100,
    cachedTokens: 400,
    cacheWriteTokens: 100,
    reasoningTokens: 50
  }
  assert.closeTo(costOf(prices, usage) ?? -1, (500 * 2 + 400 * 1 + 100 * 4 + 100 * 10) / 1e6, 1e-12)
  assert.isNull(costOf(prices, { ...usage, completionTokens: null }))
})

it("admits nothing of unknown price under a limit in USD, and names the model", () => {
  const limits = { maxTokens: null, maxCostUsd: 1 }
  assert.strictEqual(Budget.refusalOf(Budget.make(limits), { tokens: 1, costUsd: null })?.limit, "usd")
  const prices = { inputPerM: 1, outputPerM: 2 }
  const fault = Budget.unpriced([
    { model: "large", prices },
    { model: "small", prices: null }
  ])
  assert.deepStrictEqual([fault?.index, fault?.error.field], [1, "routes[1].prices"])
  assert.include(fault?.error.message, "small")
  assert.isNull(Budget.unpriced([{ model: "large", prices }]))
})

it("counts the worst case at the dearest rate of the prompt, and unknown prices as unknown", () => {
  const prices = { inputPerM: 2, outputPerM: 10 }
  assert.deepStrictEqual(Budget.worstOf(null, 100, 10), { tokens: 110, costUsd: null })
  assert.deepStrictEqual(Budget.worstOf(prices, 1_000_000, 100_000), { tokens: 1_100_000, costUsd: 3 })
  assert.strictEqual(Budget.worstOf({ ...prices, cacheWritePerM: 2.5 }, 1_000_000, 0).costUsd, 2.5)
  assert.strictEqual(Budget.worstOf({ ...prices, cacheWritePerM: 1 }, 1_000_000, 0).costUsd, 2)
})

const dollars = { inputPerM: 2, outputPerM: 10, cacheWritePerM: 4 }

it("leaves no answer to a prompt that takes the rest, and one token to one that leaves it", () => {
  const tokens = Budget.make({ maxTokens: 1_000, maxCostUsd: null }, { tokens: 600, costUsd: 0 })
  const behind = (promptTokens: number) => Budget.roomOf(tokens, { prices: null, promptTokens })
  assert.deepStrictEqual([behind(399), behind(400)], [1, 0])
  const usd = Budget.make({ maxTokens: null, maxCostUsd: 0.01 })
  assert.isBelow(Budget.roomOf(usd, { prices: dollars, promptTokens: 2_500 }), 1)
  assert.strictEqual(Budget.roomOf(usd, { prices: dollars, promptTokens: 2_497 }), 1)
})

it("never passes a limit by what it lets an answer be, whatever was spent", () => {
  for (let promptTokens = 1; promptTokens < 2_000; promptTokens += 37) {
    const budget = Budget.make({ maxTokens: 3_000, maxCostUsd: 0.02 }, { tokens: 500, costUsd: 0.0031 })
    const ask = { prices: dollars, promptTokens }
    const worst = Budget.worstOf(dollars, promptTokens, Budget.roomOf(budget, ask))
    const full = admitted(budget, worst)
    assert.isAtMost(full.spent.tokens + full.reserved.tokens, 3_000)
    assert.isAtMost(full.spent.nanoUsd + full.reserved.nanoUsd, 20_000_000)
  }
})
