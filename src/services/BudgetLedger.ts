/** The session's budget: every HTTP request reserves its worst case before it is sent and settles what it spent after. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { BudgetExceeded } from "../domain/AgentError.ts"

/** Tokens of prompt and output together, and their cost; null = unknown price. */
export interface Worst {
  readonly tokens: number
  readonly costUsd: number | null
}

/** A place taken in the budget; opaque to the caller. */
export interface Reservation {
  readonly worst: Worst
}

export interface LedgerLimits {
  readonly maxTokens: number | null
  readonly maxCostUsd: number | null
}

export interface LedgerShape {
  readonly admit: (worst: Worst) => Effect.Effect<Reservation, BudgetExceeded>
  readonly settle: (reservation: Reservation, spent: Worst) => Effect.Effect<void>
  /** A ledger of its own limits inside this one: both must admit. */
  readonly child: (limits: LedgerLimits) => Effect.Effect<LedgerShape>
}

/** null = no budget. Only the interpreter admits and settles. */
export const BudgetLedger = Context.Reference<LedgerShape | null>("holdfast/BudgetLedger", { defaultValue: () => null })
