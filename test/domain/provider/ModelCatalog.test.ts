import { assert, describe, it } from "@effect/vitest"
import { pricesOf, withFacts } from "../../../src/domain/provider/ModelCatalog.ts"
import { chooseModel, planContextLimit } from "../../../src/domain/agent/ModelChoice.ts"

const stepped = { base: 1, tiers: [{ start: 200_000, price: 2 }] }
const flat = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 }
const all = { inputPerM: 3, outputPerM: 15, cachedInputPerM: 0.3, cacheWritePerM: 3.75 }

describe("prices of a catalogue", () => {
  it.each([
    { given: "flat rates", rates: flat, prices: all },
    {
      given: "no cache rates",
      rates: { ...flat, cacheRead: undefined, cacheWrite: undefined },
      prices: { inputPerM: 3, outputPerM: 15 }
    },
    { given: "no input rate", rates: { ...flat, input: undefined }, prices: null },
    { given: "no output rate", rates: { ...flat, output: undefined }, prices: null },
    { given: "an input rate that depends on the prompt", rates: { ...flat, input: stepped }, prices: null },
    { given: "an output rate that depends on the prompt", rates: { ...flat, output: stepped }, prices: null },
    { given: "a cache rate that depends on the prompt", rates: { ...flat, cacheRead: stepped }, prices: null },
    { given: "a cache-write rate that depends on the prompt", rates: { ...flat, cacheWrite: stepped }, prices: null },
    { given: "a step that is none", rates: { ...flat, input: { base: 3, tiers: [] } }, prices: all }
  ])("with $given and no known window: $prices", ({ rates, prices }) =>
    assert.deepStrictEqual(pricesOf(rates, null), prices)
  )

  it("take the base rate where no prompt reaches the step", () => {
    assert.deepInclude(pricesOf({ ...flat, input: stepped }, 200_000), { inputPerM: 1 })
    assert.isNull(pricesOf({ ...flat, input: stepped }, 200_001))
  })
})

describe("a route", () => {
  const facts = { contextWindow: 100_000, prices: all }
  it("takes from the catalogue what the user left out", () =>
    assert.deepStrictEqual(withFacts({ model: "m" }, facts), { model: "m", ...facts }))

  it("keeps what the user said, null too", () => {
    const own = { model: "m", contextWindow: null, prices: null }
    assert.deepStrictEqual(withFacts(own, facts), own)
    assert.deepStrictEqual(withFacts({ model: "m", contextWindow: 5 }, facts), {
      model: "m",
      contextWindow: 5,
      prices: all
    })
  })
})

describe("the model of a step", () => {
  const choice = { user: null, environment: null, fallback: "default", plan: null }
  it.each([
    { given: choice, model: "default" },
    { given: { ...choice, environment: "environment" }, model: "environment" },
    { given: { ...choice, environment: "environment", user: "user" }, model: "user" },
    { given: { ...choice, user: "user", plan: "strong" }, model: "user" }
  ])("that acts is the user's, then the environment's, then the default: $model", ({ given, model }) =>
    assert.strictEqual(chooseModel(given, { phase: "act", contextTokens: 5 }), model)
  )

  it.each([
    { plan: "strong", contextTokens: planContextLimit, model: "strong" },
    { plan: "strong", contextTokens: planContextLimit + 1, model: "default" },
    { plan: null, contextTokens: 5, model: "default" }
  ])("that plans is $model with $contextTokens tokens of context", ({ plan, contextTokens, model }) =>
    assert.strictEqual(chooseModel({ ...choice, plan }, { phase: "plan", contextTokens }), model)
  )
})
