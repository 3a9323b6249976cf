/** What puts a caller's kind of reply under the loop. Only drivers see bodies; the loop sees counts. */
import type * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import type { ModelError } from "../../domain/failure/ModelError.ts"
import type { AttemptPlan } from "../../domain/recovery/AttemptPlan.ts"
import type { Outcome } from "../../domain/recovery/Outcome.ts"
import type { RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"
import type { Route } from "../../domain/recovery/RecoveryPolicy.ts"
import type { Book } from "../../services/Summarizer.ts"
import type { Progress } from "./attemptWatch.ts"
import type { Meter } from "./httpRequest.ts"

/** How a compaction that did not fail ended. */
export type CompactionOutcome = Extract<Outcome, { readonly _tag: "Compacted" | "NothingToCompact" }>

export interface AttemptDriver {
  readonly streaming: boolean
  /** Estimated tokens of what would be sent now. */
  readonly promptTokens: (route: Route) => number
  /** Why the window must not be sent (a tool call without its result); null = fine. */
  readonly fault: () => string | null
  /** `accepted` is run as soon as the provider has taken the call, before its reply is whole. */
  readonly attempt: (
    plan: AttemptPlan,
    meter: Meter,
    progress: Progress,
    accepted: Effect.Effect<void>
  ) => Effect.Effect<ModelReply, ModelError>
  /** Total. `durationMillis` is the attempt's. */
  readonly classify: (
    result: Result.Result<ModelReply, ModelError>,
    plan: AttemptPlan,
    durationMillis: number
  ) => Outcome
  /** Makes window and view ready for the next request, as the action says. True = a partial was dropped or set aside. */
  readonly prepare: (action: RecoveryAction) => Effect.Effect<boolean>
  /** Every HTTP request of the summary goes through `book`. */
  readonly compact: (plan: AttemptPlan, book: Book) => Effect.Effect<CompactionOutcome, ModelError | BudgetExceeded>
  /** Fragments and last reply, verbatim, in one. */
  readonly merge: (last: ModelReply) => ModelReply
  /** Text of the reply so far; null = none. */
  readonly partial: () => string | null
  /** For a request that another process may take up. Absent: none can. */
  readonly handing?: Handing
}

export interface Handing {
  /** What a consumer has of the reply. */
  readonly shown: () => string
  /** Window and view as JSON. */
  readonly snapshot: () => unknown
  /** Goes on from a snapshot; false = it is none of this driver's. */
  readonly restore: (snapshot: unknown) => boolean
}
