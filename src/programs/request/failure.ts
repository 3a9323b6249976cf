/** The typed failure at the end of a request: what was tried, what happened last, and what the user can do. */
import * as Redacted from "effect/Redacted"
import { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import type { AttemptPlan } from "../../domain/recovery/AttemptPlan.ts"
import { guidanceForReason } from "../../domain/failure/Guidance.ts"
import { handOn, makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"
import {
  InvalidRetryAfterError,
  PromptTooLongRetryError,
  RecoveryDeadlineExceeded,
  RecoveryRetriesExhausted,
  type Standing
} from "../../domain/failure/RecoveryError.ts"
import { routeAt, type RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"
import { endOf, type RecoveryState } from "../../domain/recovery/RecoveryState.ts"
import type { Tick } from "../../domain/recovery/Tick.ts"
import { attemptsIn, type TrailEntry } from "../../domain/failure/Trail.ts"
import type { RequestFailure } from "../../services/Recovery.ts"

/** What the loop remembers of the failures on the way. */
interface Record {
  readonly startedAt: number
  readonly trail: ReadonlyArray<TrailEntry>
  readonly first: ModelError | null
  readonly last: ModelError | null
  readonly budget: BudgetExceeded | null
  readonly lastOutcome: string
}

export interface Ending {
  readonly action: Extract<RecoveryAction, { readonly _tag: "Fail" }>
  readonly policy: RecoveryPolicy
  readonly state: RecoveryState
  readonly tick: Tick
  readonly record: Record
  readonly partial: string | null
  readonly plan: AttemptPlan | null
}

/** Where a request stands at this instant (monotonic milliseconds), whatever ends it. */
export const standingOf = (record: Record, plan: AttemptPlan | null, now: number): Standing => {
  const last = record.last
  return {
    attempts: attemptsIn(record.trail),
    elapsedMs: now - record.startedAt,
    trail: [...record.trail],
    lastOutcome: record.lastOutcome,
    lastCause: last === null ? null : last._tag,
    lastStatus: last === null ? null : last.status,
    code: last === null ? null : last.code,
    model: plan === null ? null : plan.route.model,
    ...(last === null ? {} : { cause: last }),
    ...(record.first === null ? {} : { firstCause: record.first })
  }
}

export const failureOf = (ending: Ending): RequestFailure => {
  const { action, policy, state, tick, record, partial } = ending
  const last = record.last
  const standing = standingOf(record, ending.plan, tick.now)
  const { attempts, elapsedMs, trail } = standing
  const fields = { ...standing, guidance: guidanceForReason(action.reason) }
  const withPartial = partial === null ? {} : { partialText: Redacted.make(partial) }
  switch (action.reason) {
    case "Shed":
      return handOn(
        // Before its first attempt there is no failure of its own: other requests have met the overload.
        last ??
          makeModelError({
            kind: "overloaded",
            status: null,
            code: "route_shut",
            model: routeAt(policy, state.route).model
          }),
        { attempts, elapsedMs, trail, shed: true }
      )
    case "Passthrough":
      return handOn(
        last ??
          // A reply that ended because the window is full, with nothing left to try.
          makeModelError({
            kind: "prompt_too_long",
            status: 200,
            code: "window_full",
            model: ending.plan === null ? null : ending.plan.route.model
          }),
        { attempts, elapsedMs, trail, shed: false }
      )
    case "Attempts":
    case "Continuations":
    case "SmallGain":
    case "TruncatedToolCall":
    case "EmptyFragment":
      return new RecoveryRetriesExhausted({ ...fields, ...withPartial, reason: action.reason })
    case "InvalidRetryAfter":
      return new InvalidRetryAfterError(fields)
    case "Deadline": {
      const end = endOf(state)
      const retryAt = action.waitMillis === null ? null : tick.wall + action.waitMillis
      return new RecoveryDeadlineExceeded({
        ...fields,
        guidance: guidanceForReason("Deadline", retryAt),
        requestedWaitMs: action.waitMillis,
        remainingMs: end === null ? 0 : Math.max(0, end - tick.now),
        retryAt
      })
    }
    case "StillTooLong":
    case "NothingToCompact":
    case "SummaryFailed":
    case "NotSmaller":
      return new PromptTooLongRetryError({ ...fields, reason: action.reason })
    case "Budget": {
      const refused = record.budget
      return new BudgetExceeded({
        limit: refused?.limit ?? "tokens",
        allowed: refused?.allowed ?? 0,
        spent: refused?.spent ?? 0,
        reserved: refused?.reserved ?? 0,
        ...fields,
        ...withPartial
      })
    }
  }
}
