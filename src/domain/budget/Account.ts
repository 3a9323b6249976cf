/**
 * An account that several processes spend from: whole requests, tokens and nano-dollars, spent or reserved. Pure. Here a
 * limit is a promise: what is admitted fits with all of its worst case, beside everything that is reserved.
 */
import * as Schema from "effect/Schema"
import { Count } from "../chat/Usage.ts"
import type { Amount, BudgetLimits, Refusal } from "./Budget.ts"
import { counted, toUsd } from "./Budget.ts"

/** What a request uses, or what several of them have used. */
export const Counts = Schema.Struct({ requests: Count, tokens: Count, nanoUsd: Count })
export type Counts = typeof Counts.Type

/** null = no limit of that kind. */
export interface CountLimits {
  readonly requests: number | null
  readonly tokens: number | null
  readonly nanoUsd: number | null
}

export interface Account {
  readonly name: string
  readonly limits: CountLimits
  /** Epoch milliseconds after which nobody asks for it any more: it is forgotten then. null = it is kept. */
  readonly untilMillis: number | null
}

/** What is booked of an account now. */
export const Standing = Schema.Struct({ spent: Counts, reserved: Counts })
export type Standing = typeof Standing.Type

export const nothing: Counts = { requests: 0, tokens: 0, nanoUsd: 0 }
export const untouched: Standing = { spent: nothing, reserved: nothing }

export const units = ["requests", "tokens", "nanoUsd"] as const
export type Unit = (typeof units)[number]

export const plus = (left: Counts, right: Counts): Counts => ({
  requests: left.requests + right.requests,
  tokens: left.tokens + right.tokens,
  nanoUsd: left.nanoUsd + right.nanoUsd
})

export const minus = (left: Counts, right: Counts): Counts => ({
  requests: Math.max(0, left.requests - right.requests),
  tokens: Math.max(0, left.tokens - right.tokens),
  nanoUsd: Math.max(0, left.nanoUsd - right.nanoUsd)
})

/** The limit that does not let this in; null = it fits. A limit that is reached lets nothing in, also what costs nothing. */
export const misfit = (limits: CountLimits, { spent, reserved }: Standing, worst: Counts): Unit | null =>
  units.find((unit) => {
    const limit = limits[unit]
    const used = spent[unit] + reserved[unit]
    return limit !== null && (used >= limit || used + worst[unit] > limit)
  }) ?? null

/** One request's amount in whole numbers; an unknown cost is 0: whoever has a limit in USD asks before. */
export const countsOf = (amount: Amount): Counts => ({ requests: 1, ...counted(amount) })

/** The limits of a budget, for an account. */
export const limitsOf = ({ maxTokens, maxCostUsd }: BudgetLimits): CountLimits => ({
  requests: null,
  tokens: maxTokens,
  nanoUsd: maxCostUsd === null ? null : counted({ tokens: 0, costUsd: maxCostUsd }).nanoUsd
})

/** A refusal in the words of a budget. */
export const refusalBy = (limit: "tokens" | "nanoUsd", limits: CountLimits, { spent, reserved }: Standing): Refusal =>
  limit === "tokens"
    ? { limit, allowed: limits.tokens ?? 0, spent: spent.tokens, reserved: reserved.tokens }
    : {
        limit: "usd",
        allowed: toUsd(limits.nanoUsd ?? 0),
        spent: toUsd(spent.nanoUsd),
        reserved: toUsd(reserved.nanoUsd)
      }
