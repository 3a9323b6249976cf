/** Where a run keeps what it does: the journal of its folder, or one session file. */
import type * as Effect from "effect/Effect"
import type { Amount } from "../../../domain/budget/Budget.ts"
import type { JournalFailure } from "../../../domain/agent/JournalError.ts"
import type { Toolbox } from "../../../services/Toolbox.ts"
import type { AgentFailure, AgentOptions, AgentResult } from "../../agent/runAgent.ts"

export type RunFailure = AgentFailure | JournalFailure

/** How the loop runs, whatever keeps it. */
export type TurnOptions = Omit<AgentOptions, "conversation" | "nested">

export interface KeptTurn {
  readonly run: (options: TurnOptions) => Effect.Effect<AgentResult, RunFailure, Toolbox>
  /** The last requests may have brought nothing for the history, and have cost something. */
  readonly save: Effect.Effect<void>
  /** Why the newest history is not on disk; null = it is. */
  readonly fault: Effect.Effect<string | null>
}

export interface Keeping {
  /** What was spent before this turn, where it goes on with a session. */
  readonly spentBefore: Amount
  /** What a person should know of it before it begins. */
  readonly news: ReadonlyArray<string>
  /** `spent` tells what the session has spent at any later moment. */
  readonly begin: (spent: Effect.Effect<Amount>) => Effect.Effect<KeptTurn>
}
