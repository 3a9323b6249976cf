/** What the steps of one turn share: the caller's options and the services they may ask, read once when it begins. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { AgentEvent } from "../../domain/agent/AgentEvent.ts"
import type { Phase } from "../../domain/agent/ModelChoice.ts"
import type { ModelRequest, Priority } from "../../domain/chat/ModelRequest.ts"
import type { CacheTtl } from "../../domain/chat/PromptCache.ts"
import { guarded } from "../../domain/chat/TokenEstimate.ts"
import type { RouteInput } from "../../domain/recovery/RecoveryPolicy.ts"
import { AgentHooks, AgentMemory, HistoryPreparation, SystemPrompt } from "../../services/AgentHooks.ts"
import { BudgetLedger } from "../../services/BudgetLedger.ts"
import type { Conversation } from "../../services/Conversation.ts"
import { Journal } from "../../services/Journal.ts"
import { ModelSelector } from "../../services/ModelSelector.ts"
import { TokenEstimate } from "../../services/Overrides.ts"
import type { ModelRequestExecutor } from "../../services/Recovery.ts"
import { Toolbox } from "../../services/Toolbox.ts"
import { makeTurnWork } from "./turnWork.ts"

export interface AgentOptions {
  /** `Recovery`, or a raw client (`rawExecutor`): then a truncated reply is a failure. */
  readonly executor: ModelRequestExecutor
  /** Owned by the caller; valid after any ending. */
  readonly conversation: Conversation
  /** Model rounds of one turn. Default: 15. The tools of the last one still run. */
  readonly maxSteps?: number
  /** Parts are told as they come. Default: false. */
  readonly stream?: boolean
  /** Starts tools with `repeat: "safe"` while the reply still streams. Default: false; needs `stream`. */
  readonly earlyTools?: boolean
  /** Parallel tools that run at once. Default: 4. */
  readonly concurrency?: number
  readonly maxOutputTokens?: number
  readonly priority?: Priority
  readonly params?: ModelRequest["params"]
  /** Lifetime of the prompt cache where the provider has one; a session's own comes from CacheSession. Default: 5m. */
  readonly cacheTtl?: CacheTtl | null
  /** Never fails the run. */
  readonly emit?: (event: AgentEvent) => Effect.Effect<void>
  /** What the steps of this run are for; asked of the ModelSelector, if there is one. Default: act. */
  readonly phase?: Phase
  /** Routes of a model the ModelSelector names; without it the selector is not asked. */
  readonly routesFor?: (model: string) => ReadonlyArray<RouteInput>
  /** The run is part of a turn that has begun: it shares that turn's deadline. Default: false. */
  readonly nested?: boolean
}

/** Everything but `work` and `doubt` is fixed for the turn. */
export type AgentRun = Effect.Success<ReturnType<typeof makeRun>>

export const makeRun = Effect.fnUntraced(function* (options: AgentOptions) {
  const clock = yield* Clock.Clock
  const ledger = yield* BudgetLedger
  const journal = yield* Journal
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  return {
    options,
    journal,
    /** Whether a request may have been in flight when the owner before died. */
    doubt: { inFlight: journal.restarted },
    ledger,
    /** Monotonic milliseconds. */
    now,
    conversation: options.conversation,
    emit: options.emit ?? (() => Effect.void),
    toolbox: yield* Toolbox,
    hooks: yield* AgentHooks,
    prepare: yield* HistoryPreparation,
    systemPrompt: yield* SystemPrompt,
    memory: yield* AgentMemory,
    /** Fails when the session's budget is used up. */
    checkBudget: ledger === null ? Effect.void : ledger.check,
    estimate: guarded(yield* TokenEstimate),
    selector: Option.getOrNull(Context.getOption(yield* Effect.context<never>(), ModelSelector)),
    work: makeTurnWork(now)
  }
})
