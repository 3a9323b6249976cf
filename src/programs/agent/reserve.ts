/** A place in the session's budget for one HTTP request outside recovery: taken before it is sent, settled after. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { worstOf } from "../../domain/budget/Budget.ts"
import { costOf, type Prices } from "../../domain/budget/Cost.ts"
import { isModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { WireRequest } from "../../domain/chat/ModelRequest.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { BudgetLedger } from "../../services/BudgetLedger.ts"
import { TokenEstimate } from "../../services/Overrides.ts"

/** Reserves the worst case. What is settled is the usage that was told, or the worst case when none was (null). */
export const reserve = Effect.fnUntraced(function* (wire: WireRequest, prices: Prices | null) {
  const ledger = yield* BudgetLedger
  const estimate = yield* TokenEstimate
  if (ledger === null) return () => Effect.void
  const promptTokens = Math.max(0, Math.ceil(estimate(wire.messages, wire.tools ?? [])))
  const worst = worstOf(prices, promptTokens, wire.maxOutputTokens)
  const reservation = yield* ledger.admit(worst)
  return (usage: Usage.Usage | null): Effect.Effect<void> =>
    ledger.settle(
      reservation,
      usage === null || !Usage.isKnown(usage)
        ? worst
        : {
            tokens: (usage.promptTokens ?? 0) + (usage.completionTokens ?? 0),
            costUsd: prices === null ? null : costOf(prices, usage)
          }
    )
})

const nothing: Usage.Usage = { ...Usage.unknown, promptTokens: 0, completionTokens: 0 }

/** What a request cost that brought no reply: nothing when the provider refused it before a 200; null = unknown. */
export const spentByFailure = (exit: Exit.Exit<unknown, unknown>): Usage.Usage | null => {
  const found = Exit.isFailure(exit) ? Cause.findErrorOption(exit.cause) : null
  if (found === null || found._tag === "None" || !isModelError(found.value)) return null
  // Only an answer that has begun can be interrupted.
  return found.value.status === 200 || found.value.kind === "interrupted" ? found.value.usage : nothing
}

/** One request under the session's budget. */
export const booked = (wire: WireRequest, prices: Prices | null, call: Effect.Effect<ModelReply, ModelError>) =>
  Effect.acquireUseRelease(
    reserve(wire, prices),
    () => call,
    (settle, exit) => settle(Exit.isSuccess(exit) ? exit.value.usage : spentByFailure(exit))
  )
