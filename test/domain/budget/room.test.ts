import { assert, describe, it } from "@effect/vitest"
import * as Budget from "../../../src/domain/budget/Budget.ts"

const prices = { inputPerM: 1, outputPerM: 10 }
const spent = { tokens: 700, costUsd: 0.9 }

describe("what a limit still pays for", () => {
  it.each([
    { limits: { maxTokens: 1_000, maxCostUsd: null }, ask: { prices: null, promptTokens: 100 }, room: 200 },
    { limits: { maxTokens: null, maxCostUsd: 1 }, ask: { prices, promptTokens: 20_000 }, room: 8_000 },
    { limits: { maxTokens: 1_000, maxCostUsd: 1 }, ask: { prices, promptTokens: 100 }, room: 200 },
    { limits: { maxTokens: 100_000, maxCostUsd: 1 }, ask: { prices, promptTokens: 20_000 }, room: 8_000 },
    { limits: { maxTokens: null, maxCostUsd: null }, ask: { prices, promptTokens: 100 }, room: Infinity },
    { limits: { maxTokens: null, maxCostUsd: 1 }, ask: { prices: null, promptTokens: 100 }, room: Infinity },
    { limits: { maxTokens: 1_000, maxCostUsd: null }, ask: { prices: null, promptTokens: 300 }, room: 0 },
    {
      limits: { maxTokens: null, maxCostUsd: 1 },
      ask: { prices: { inputPerM: 1, outputPerM: 0 }, promptTokens: 10 },
      room: Infinity
    }
  ])("is $room output tokens under $limits behind $ask", ({ limits, ask, room }) => {
    assert.strictEqual(Budget.roomOf(Budget.make(limits, spent), ask), room)
  })

  it("counts what is reserved by requests under way", () => {
    const budget = Budget.make({ maxTokens: 1_000, maxCostUsd: null })
    const admitted = Budget.admit(budget, { tokens: 600, costUsd: null })
    assert.strictEqual(admitted._tag, "Success")
    if (admitted._tag === "Success")
      assert.strictEqual(Budget.roomOf(admitted.success, { prices: null, promptTokens: 100 }), 300)
  })
})
