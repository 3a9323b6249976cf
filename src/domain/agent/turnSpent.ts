/** What the requests of a turn were booked as, from what its journal keeps. Pure. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Amount } from "../budget/Budget.ts"
import { AmountFields, keys } from "./turnFacts.ts"

/** A step as it is kept; `value` null = nothing is known of it. */
export interface KeptStep {
  readonly key: string
  readonly state: "begun" | "done"
  readonly value: unknown
}

const decodeSpent = Schema.decodeUnknownResult(Schema.Struct({ spent: AmountFields }))
const decodeBefore = Schema.decodeUnknownResult(AmountFields)

const nothing: Amount = { tokens: 0, costUsd: 0 }

const plus = (left: Amount, right: Amount): Amount => ({
  tokens: left.tokens + right.tokens,
  costUsd: left.costUsd === null || right.costUsd === null ? null : left.costUsd + right.costUsd
})

/** Of one step: a reply, finished or not, also of a nested agent; null = it spends nothing. */
export const spentAt = ({ key, value }: KeptStep): Amount | null => {
  if (key === keys.spent) return Result.getOrElse(decodeBefore(value), () => nothing)
  if (!key.endsWith("/reply") || value === null) return null
  return Result.match(decodeSpent(value), { onSuccess: ({ spent }) => spent, onFailure: () => null })
}

/** Of all of them; `costUsd` null = a model without a price was asked. */
export const spentBy = (steps: ReadonlyArray<KeptStep>): Amount =>
  steps.reduce((sum, step) => plus(sum, spentAt(step) ?? nothing), nothing)

const callPattern = /^((?:.*\/)?step\/\d+\/call\/\d+)\/step\/\d+\/reply$/

/** Replies of nested agents that have ended: their own steps are not read again, only what the call brought. */
export const nestedDone = (steps: ReadonlyArray<KeptStep>): ReadonlyArray<KeptStep> => {
  const done = new Set(steps.flatMap(({ key, state }) => (state === "done" ? [key] : [])))
  const isBelowDone = (key: string): boolean => {
    const call = callPattern.exec(key)?.[1]
    if (call === undefined) return false
    return done.has(call) || isBelowDone(`${call.replace(/\/call\/\d+$/, "")}/reply`)
  }
  return steps.filter(({ key }) => isBelowDone(key))
}
