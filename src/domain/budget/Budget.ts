/**
 * What a session may spend, in tokens and USD. Pure: a request reserves its worst case before it is sent and settles what
 * it spent after. USD are counted in whole nano-dollars, so that sums are exact and reservations come back to zero.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigurationError } from "../failure/ConfigurationError.ts"
import { costOf, type Prices } from "./Cost.ts"
import { Count, unknown } from "../chat/Usage.ts"

/** Tokens of prompt and output together, and their cost in USD; null = unknown. */
export interface Amount {
  readonly tokens: number
  readonly costUsd: number | null
}

/** What a request costs at most: the whole budget written, and the whole prompt at its dearest rate. */
export const worstOf = (prices: Prices | null, promptTokens: number, maxOutputTokens: number): Amount => {
  const usage = { ...unknown, promptTokens, completionTokens: maxOutputTokens }
  return {
    tokens: promptTokens + maxOutputTokens,
    costUsd:
      prices === null
        ? null
        : Math.max(...[0, promptTokens].map((cacheWriteTokens) => costOf(prices, { ...usage, cacheWriteTokens }) ?? 0))
  }
}

/** null = no limit of that kind. */
export interface BudgetLimits {
  readonly maxTokens: number | null
  readonly maxCostUsd: number | null
}

const Counted = Schema.Struct({ tokens: Count, nanoUsd: Count })
type Counted = typeof Counted.Type

export const Budget = Schema.Struct({
  maxTokens: Schema.NullOr(Schema.Finite),
  maxNanoUsd: Schema.NullOr(Schema.Finite),
  spent: Counted,
  reserved: Counted
})
export type Budget = typeof Budget.Type

/** Which limit refused, in its own unit. */
export interface Refusal {
  readonly limit: "tokens" | "usd"
  readonly allowed: number
  readonly spent: number
  readonly reserved: number
}

const nanoPerUsd = 1e9

const toNano = (usd: number): number => Math.max(0, Math.round(usd * nanoPerUsd))
export const toUsd = (nanoUsd: number): number => nanoUsd / nanoPerUsd

/** In whole tokens and nano-dollars; an unknown cost is 0. */
export const counted = (amount: Amount): Counted => ({
  tokens: Math.max(0, Math.ceil(amount.tokens)),
  nanoUsd: amount.costUsd === null ? 0 : toNano(amount.costUsd)
})

const plus = (left: Counted, right: Counted): Counted => ({
  tokens: left.tokens + right.tokens,
  nanoUsd: left.nanoUsd + right.nanoUsd
})

const minus = (left: Counted, right: Counted): Counted => ({
  tokens: Math.max(0, left.tokens - right.tokens),
  nanoUsd: Math.max(0, left.nanoUsd - right.nanoUsd)
})

const zero: Amount = { tokens: 0, costUsd: 0 }

/** `spent` is what was booked before. */
export const make = (limits: BudgetLimits, spent: Amount = zero): Budget => ({
  maxTokens: limits.maxTokens,
  maxNanoUsd: limits.maxCostUsd === null ? null : toNano(limits.maxCostUsd),
  spent: counted(spent),
  reserved: counted(zero)
})

/** The refusal by a limit that there is. */
const refusalIn = ({ maxTokens, maxNanoUsd, spent, reserved }: Budget, limit: Refusal["limit"]): Refusal =>
  limit === "tokens"
    ? { limit, allowed: maxTokens ?? 0, spent: spent.tokens, reserved: reserved.tokens }
    : { limit, allowed: toUsd(maxNanoUsd ?? 0), spent: toUsd(spent.nanoUsd), reserved: toUsd(reserved.nanoUsd) }

const refusalAt = (budget: Budget, used: Counted): Refusal | null =>
  budget.maxTokens !== null && used.tokens >= budget.maxTokens
    ? refusalIn(budget, "tokens")
    : budget.maxNanoUsd !== null && used.nanoUsd >= budget.maxNanoUsd
      ? refusalIn(budget, "usd")
      : null

/** Why this request is not admitted now; null = it is. A limit in USD admits nothing whose price is unknown. */
export const refusalOf = (budget: Budget, worst: Amount): Refusal | null => {
  const refusal = refusalAt(budget, plus(budget.spent, budget.reserved))
  return refusal !== null || worst.costUsd !== null || budget.maxNanoUsd === null ? refusal : refusalIn(budget, "usd")
}

/** A request that is about to be sent, as far as its price is known. */
export interface Ask {
  /** null = unknown. */
  readonly prices: Prices | null
  /** Estimated. */
  readonly promptTokens: number
}

/** Output tokens that the limits still pay for behind this prompt; under 1 there are none, Infinity = no bound. */
export const roomOf = (budget: Budget, { prices, promptTokens }: Ask): number => {
  const used = plus(budget.spent, budget.reserved)
  const tokens = budget.maxTokens === null ? Infinity : budget.maxTokens - used.tokens - promptTokens
  if (budget.maxNanoUsd === null || prices === null) return tokens
  const left = budget.maxNanoUsd - used.nanoUsd - toNano(worstOf(prices, promptTokens, 0).costUsd ?? 0)
  const nanoPerToken = (prices.outputPerM * nanoPerUsd) / 1_000_000
  const usd = nanoPerToken > 0 ? Math.floor(left / nanoPerToken) : left > 0 ? Infinity : 0
  return Math.min(tokens, usd)
}

/** Why the work stops: what was really spent has reached a limit; null = it has not. */
export const exhaustionOf = (budget: Budget): Refusal | null => refusalAt(budget, budget.spent)

/**
 * Admitted while spent + reserved is below the limit; then the whole worst case is reserved. What is admitted passes a
 * limit by less than one worst case in total.
 */
export const admit = (budget: Budget, worst: Amount): Result.Result<Budget, Refusal> => {
  const refusal = refusalOf(budget, worst)
  return refusal === null
    ? Result.succeed({ ...budget, reserved: plus(budget.reserved, counted(worst)) })
    : Result.fail(refusal)
}

/** A limit in USD needs the price of every model that may be asked; null = all have one. */
export const unpriced = (
  routes: ReadonlyArray<{ readonly model: string; readonly prices: Prices | null }>
): { readonly index: number; readonly model: string; readonly error: ConfigurationError } | null => {
  const index = routes.findIndex((route) => route.prices === null)
  const model = routes[index]?.model
  if (model === undefined) return null
  const reason = `is not known for ${model}: a limit in USD needs it, without a price no cost can be counted`
  return { index, model, error: new ConfigurationError({ field: `routes[${index}].prices`, reason }) }
}

/** What was booked so far. */
export const spentIn = ({ spent }: Budget): Amount => ({ tokens: spent.tokens, costUsd: toUsd(spent.nanoUsd) })

/** Gives the reservation back and books what was spent; an unknown cost is booked as the worst case. */
export const settle = (budget: Budget, worst: Amount, spent: Amount): Budget => ({
  ...budget,
  reserved: minus(budget.reserved, counted(worst)),
  spent: plus(budget.spent, counted({ tokens: spent.tokens, costUsd: spent.costUsd ?? worst.costUsd }))
})
