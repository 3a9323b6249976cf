/** What tokens cost, in USD. Unknown stays unknown: a cost without a known usage or price is null, never 0. */
import * as Schema from "effect/Schema"
import type { Usage } from "../chat/Usage.ts"

const Rate = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

/** USD per million tokens. Absent cache rates mean: at the rate of ordinary input. */
export const Prices = Schema.Struct({
  inputPerM: Rate,
  outputPerM: Rate,
  cachedInputPerM: Schema.optionalKey(Rate),
  cacheWritePerM: Schema.optionalKey(Rate)
})
export type Prices = typeof Prices.Type

/** Cached and cache-write tokens are parts of the prompt; each token is priced once, at its own rate. */
export const costOf = (prices: Prices, usage: Usage): number | null => {
  if (usage.promptTokens === null || usage.completionTokens === null) return null
  const cached = Math.min(usage.cachedTokens ?? 0, usage.promptTokens)
  const written = Math.min(usage.cacheWriteTokens ?? 0, usage.promptTokens - cached)
  const plain = usage.promptTokens - cached - written
  return (
    (plain * prices.inputPerM +
      cached * (prices.cachedInputPerM ?? prices.inputPerM) +
      written * (prices.cacheWritePerM ?? prices.inputPerM) +
      usage.completionTokens * prices.outputPerM) /
    1_000_000
  )
}
