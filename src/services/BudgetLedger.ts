/** The session's budget: every HTTP request reserves its worst case before it is sent and settles what it spent after. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { BudgetExceeded } from "../domain/failure/AgentError.ts"
import type { Amount, Ask, Budget, BudgetLimits } from "../domain/budget/Budget.ts"

/** Tokens of prompt and output together, and their cost; null = unknown price. */
export type Worst = Amount

/** A place taken in the budget; opaque to the caller. */
export interface Reservation {
  readonly worst: Worst
}

export type LedgerLimits = BudgetLimits

export interface LedgerShape {
  /** The tightest limits of this ledger and of those it is inside of. A limit in USD needs the price of every route. */
  readonly limits: LedgerLimits
  /**
   * How long the answer to this prompt may be, in tokens, for the limits to hold; null = no limit bounds it, or not even
   * the prompt is left: then `admit` decides.
   */
  readonly room: (ask: Ask) => Effect.Effect<number | null>
  readonly admit: (worst: Worst) => Effect.Effect<Reservation, BudgetExceeded>
  /** A reservation is settled once; a second time changes nothing. */
  readonly settle: (reservation: Reservation, spent: Worst) => Effect.Effect<void>
  /** Books what was spent before this process, once per key: no limit refuses it. */
  readonly book?: (key: string, spent: Worst) => Effect.Effect<void>
  /** A ledger of its own limits inside this one: both must admit. */
  readonly child: (limits: LedgerLimits) => Effect.Effect<LedgerShape>
  /** Fails when what was spent has reached a limit: asked after a reply and before a tool. */
  readonly check: Effect.Effect<void, BudgetExceeded>
  /** What is booked now. */
  readonly balance: Effect.Effect<Budget>
}

/** null = no budget. Only the interpreter admits and settles. */
export const BudgetLedger = Context.Reference<LedgerShape | null>("holdfast/BudgetLedger", { defaultValue: () => null })
