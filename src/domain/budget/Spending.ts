/**
 * What one HTTP request can have cost, by how it ended. What certainly never left, or was refused before a reply began,
 * cost nothing; what was sent and told no usage may have cost all it could: it is unknown, never zero.
 */
import { neverLeft } from "../failure/connectionCodes.ts"
import type { ModelError } from "../failure/ModelError.ts"
import type { Usage } from "../chat/Usage.ts"
import type { Amount } from "./Budget.ts"
import { costOf, type Prices } from "./Cost.ts"

/** Statuses with which something between here and the model gives up: the model may have worked on. */
const relayTimeouts: ReadonlyArray<number> = [504, 524]

/** Whether a failure tells that nothing was spent. */
export const costsNothing = (error: ModelError): boolean => {
  // An answer that has begun is paid for, as far as it came; only such a one can be interrupted.
  if (error.status === 200 || error.kind === "interrupted") return false
  if (error.status !== null) return !relayTimeouts.includes(error.status)
  switch (error.kind) {
    case "connection":
      return neverLeft(error.code)
    case "timeout":
      return false
    default:
      // Refused by the client itself: it was never built.
      return true
  }
}

/** How a request ended, for its bill. */
export type Bill = "nothing" | "final" | "unknown"

/** USD; null = unknown usage or price. */
export const spentUsd = (bill: Bill, prices: Prices | null, usage: Usage): number | null =>
  bill === "nothing" ? 0 : bill === "unknown" || prices === null ? null : costOf(prices, usage)

/** What a budget books: the most it could have cost when nothing is known. */
export const spentOf = (bill: Bill, prices: Prices | null, usage: Usage, worst: Amount): Amount =>
  bill === "unknown"
    ? worst
    : bill === "nothing"
      ? { tokens: 0, costUsd: 0 }
      : {
          tokens: (usage.promptTokens ?? 0) + (usage.completionTokens ?? 0),
          costUsd: spentUsd(bill, prices, usage)
        }
