/**
 * What is known of a model from a catalogue, as the part of a route that the user left out. The user's own values always
 * win; what nobody knows stays null: it clamps no budget and prices nothing.
 */
import type { Prices } from "../budget/Cost.ts"

export interface ModelFacts {
  /** Tokens of prompt and output together; null = unknown. */
  readonly contextWindow: number | null
  /** null = unknown, also where the rate depends on the length of the prompt. */
  readonly prices: Prices | null
}

export const unknownFacts: ModelFacts = { contextWindow: null, prices: null }

/** A rate that steps up with the prompt: `start` is the prompt's tokens from which the step holds. */
export interface SteppedRate {
  readonly base: number
  readonly tiers: ReadonlyArray<{ readonly start: number; readonly price: number }>
}

/** USD per million tokens, as a catalogue lists them. */
export interface ListedRates {
  readonly input: number | SteppedRate | undefined
  readonly output: number | SteppedRate | undefined
  readonly cacheRead: number | SteppedRate | undefined
  readonly cacheWrite: number | SteppedRate | undefined
}

/** One rate for all prompts that fit the window; undefined = not listed, null = it depends on the prompt. */
const flatRate = (rate: number | SteppedRate | undefined, contextWindow: number | null): number | null | undefined => {
  if (rate === undefined || typeof rate === "number") return rate
  const isOutOfReach = contextWindow !== null && rate.tiers.every((tier) => tier.start >= contextWindow)
  return isOutOfReach || rate.tiers.length === 0 ? rate.base : null
}

/** Prices need both rates, and no rate that depends on the prompt. */
export const pricesOf = (rates: ListedRates, contextWindow: number | null): Prices | null => {
  const input = flatRate(rates.input, contextWindow)
  const output = flatRate(rates.output, contextWindow)
  const cacheRead = flatRate(rates.cacheRead, contextWindow)
  const cacheWrite = flatRate(rates.cacheWrite, contextWindow)
  if (input === undefined || input === null || output === undefined || output === null) return null
  if (cacheRead === null || cacheWrite === null) return null
  return {
    inputPerM: input,
    outputPerM: output,
    ...(cacheRead === undefined ? {} : { cachedInputPerM: cacheRead }),
    ...(cacheWrite === undefined ? {} : { cacheWritePerM: cacheWrite })
  }
}

/** What a user may have said of a route's model. */
export interface KnownOfRoute {
  readonly contextWindow?: number | null
  readonly prices?: Prices | null
}

/** A route with the catalogue's facts where the user says nothing; null counts as said. */
export const withFacts = <R extends KnownOfRoute & { readonly model: string }>(
  route: R,
  facts: ModelFacts
): R & KnownOfRoute => ({
  ...route,
  ...(route.contextWindow === undefined ? { contextWindow: facts.contextWindow } : {}),
  ...(route.prices === undefined ? { prices: facts.prices } : {})
})
