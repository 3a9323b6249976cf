/** The most a request can use, before anything is known of it: what is reserved of its key's budget. */
import { worstOf as worstWith } from "../../../domain/budget/Budget.ts"
import type { ResolvedRoute } from "./GatewayConfig.ts"
import type { Use } from "./KeyBudget.ts"

/** Output tokens a request may use when it says nothing of a cap: what is reserved for it. */
const uncappedTokens = 8_000
/** Characters of a body for one token: prompts are counted by the provider, this is what is reserved before. */
const charactersPerToken = 4

const capIn = (body: Readonly<Record<string, unknown>>): number => {
  for (const field of ["max_output_tokens", "max_completion_tokens", "max_tokens"]) {
    const value = body[field]
    if (typeof value === "number" && Number.isFinite(value) && value > 0) return value
  }
  return uncappedTokens
}

export const worstOf = (route: ResolvedRoute, text: string, body: Readonly<Record<string, unknown>>): Use => {
  const worst = worstWith(route.prices, Math.ceil(text.length / charactersPerToken), capIn(body))
  return { tokens: worst.tokens, usd: worst.costUsd }
}
