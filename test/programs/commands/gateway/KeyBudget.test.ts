import { assert, describe, it } from "@effect/vitest"
import * as KeyBudget from "../../../../src/programs/commands/gateway/KeyBudget.ts"

const { unused, exhausted, reserve, settle, dayMillis, minuteMillis } = KeyBudget
const now = 5 * dayMillis + 3 * minuteMillis + 17
const worst = { tokens: 100, usd: 1 }

/** Sends until the budget refuses; how many went, and what refused. */
const fill = (limits: KeyBudget.KeyLimits, start = unused) => {
  let use = start
  for (let sent = 0; sent < 1_000; sent += 1) {
    const refusal = exhausted(limits, use, worst, now)
    if (refusal !== null) return { use, sent, refusal }
    use = reserve(use, worst, now).use
  }
  return { use, sent: 1_000, refusal: null }
}

describe("the budget of a key", () => {
  it.each([
    { limits: { requestsPerMinute: 7 }, sent: 7, limit: "requestsPerMinute", until: 5 * dayMillis + 4 * minuteMillis },
    { limits: { tokensPerMinute: 450 }, sent: 4, limit: "tokensPerMinute", until: 5 * dayMillis + 4 * minuteMillis },
    { limits: { usdPerDay: 3.5 }, sent: 3, limit: "usdPerDay", until: 6 * dayMillis },
    { limits: { usdPerDay: 3, tokensPerMinute: 100_000 }, sent: 3, limit: "usdPerDay", until: 6 * dayMillis }
  ])("admits $sent under $limits and tells when its window is over", ({ limits, sent, limit, until }) => {
    const filled = fill(limits)
    assert.deepStrictEqual([filled.sent, filled.refusal], [sent, { limit, until }])
    assert.isNotNull(exhausted(limits, filled.use, worst, until - 1))
    assert.isNull(exhausted(limits, filled.use, worst, until))
  })

  it("gives back what a request did not use, within its own window only", () => {
    const { use, reserved } = reserve(unused, worst, now)
    const settled = settle(use, reserved, { tokens: 30, usd: 0.25 }, now + 1)
    assert.deepStrictEqual([settled.tokens, settled.nanoUsd], [30, 250_000_000])
    const later = settle(use, reserved, { tokens: 30, usd: 0.25 }, now + minuteMillis)
    assert.deepStrictEqual([later.tokens, later.nanoUsd, later.requests], [0, 250_000_000, 0])
    const nextDay = settle(use, reserved, { tokens: 30, usd: 0.25 }, now + dayMillis)
    assert.deepStrictEqual([nextDay.tokens, nextDay.nanoUsd], [0, 0])
  })

  it("books an unknown cost as the most it could be", () => {
    const { use, reserved } = reserve(unused, worst, now)
    assert.strictEqual(settle(use, reserved, { tokens: 100, usd: null }, now).nanoUsd, 1_000_000_000)
  })

  it("lets a request that is larger than its window go when it has the window for itself", () => {
    const large = { tokens: 10_000, usd: 0 }
    assert.isNull(exhausted({ tokensPerMinute: 450 }, unused, large, now))
    assert.isNotNull(exhausted({ tokensPerMinute: 450 }, reserve(unused, worst, now).use, large, now))
  })
})
