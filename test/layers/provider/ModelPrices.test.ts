import { assert, it } from "@effect/vitest"
import { pricesOf } from "../../../src/domain/provider/ModelCatalog.ts"
import { completeRoute, factsOf } from "../../../src/layers/provider/ModelPrices.ts"

it("knows the window and the rates of a listed model", () => {
  const facts = factsOf("gpt-4o-mini", { provider: "openai" })
  assert.strictEqual(facts.contextWindow, 128_000)
  assert.hasAllKeys(facts.prices, ["inputPerM", "outputPerM", "cachedInputPerM"])
})

it("knows nothing of a model that is not listed", () =>
  assert.deepStrictEqual(factsOf("no-such-model", { provider: "openai" }), { contextWindow: null, prices: null }))

it("lets the route's own values win, null too", () => {
  const route = completeRoute({ model: "gpt-4o-mini", contextWindow: 5, prices: null }, { provider: "openai" })
  assert.deepStrictEqual(route, { model: "gpt-4o-mini", contextWindow: 5, prices: null })
})

it("takes the rate of writing that belongs to the lifetime", () => {
  const write = (cacheTtl: "5m" | "1h") =>
    factsOf("claude-haiku-4-5", { provider: "anthropic", cacheTtl }).prices?.cacheWritePerM
  assert.strictEqual(write("5m"), 1.25)
  assert.strictEqual(write("1h"), 2)
})

it("leaves a rate that depends on the prompt unknown, unless the window never reaches the step", () => {
  const step = { base: 3, tiers: [{ start: 200_000, price: 6 }] }
  const rates = { input: step, output: 15, cacheRead: undefined, cacheWrite: undefined }
  assert.isNull(pricesOf(rates, null))
  assert.isNull(pricesOf(rates, 200_001))
  assert.deepStrictEqual(pricesOf(rates, 200_000), { inputPerM: 3, outputPerM: 15 })
  assert.isNull(pricesOf({ ...rates, input: undefined }, 200_000))
})
