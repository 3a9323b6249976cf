/** A scenario while it is played: its stage, and what has been seen so far. */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type { BudgetLimits } from "../../../domain/budget/Budget.ts"
import type * as OpenAiModelClient from "../../../layers/provider/OpenAiModelClient.ts"
import * as BudgetMemory from "../../../layers/stores/BudgetMemory.ts"
import type { LedgerShape } from "../../../services/BudgetLedger.ts"
import type { JournalStoreShape } from "../../../services/JournalStore.ts"
import type { Timed } from "./ResultLine.ts"
import type { Scenario } from "./Scenario.ts"
import type { DrillProvider } from "./ScriptBook.ts"
import type { AgentRecord } from "./playAgent.ts"

/** Where a scenario is played: its time and its provider. */
export interface Stage {
  readonly now: () => number
  readonly provider: DrillProvider
  readonly client: Pick<OpenAiModelClient.OpenAiOptions, "fetch" | "baseUrl">
}

export interface Play {
  readonly scenario: Scenario
  readonly stage: Stage
  /** Played through the API's own SDK under `holdfast(client)`, not through Recovery. */
  readonly isClient: boolean
  readonly events: Array<Timed>
  readonly parts: Array<Timed>
  readonly running: Set<Fiber.Fiber<unknown, unknown>>
  readonly agent: AgentRecord
  /** The session's budget; null = none. */
  readonly ledger: LedgerShape | null
  /** Where the turns of an agent are kept; null = nowhere. */
  readonly journals: JournalStoreShape | null
}

export const limitsOf = (scenario: Scenario): BudgetLimits => ({
  maxTokens: scenario.config?.maxTotalTokens ?? null,
  maxCostUsd: scenario.config?.maxCostUsd ?? null
})

export const ledgerOf = (scenario: Scenario): Effect.Effect<LedgerShape | null> => {
  const limits = limitsOf(scenario)
  return limits.maxTokens === null && limits.maxCostUsd === null
    ? Effect.succeed(null)
    : BudgetMemory.make(limits, { tokens: 0, costUsd: scenario.config?.spentUsd ?? 0 })
}
