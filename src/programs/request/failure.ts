/** The typed failure at the end of a request: what was tried, what happened last, and what the user can do. */
import * as Redacted from "effect/Redacted"
import { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import { guidanceForDeadline, guidanceForReason } from "../../domain/failure/Guidance.ts"
import { handOn, makeModelError } from "../../domain/failure/ModelError.ts"
import type { RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"
import {
  InvalidRetryAfterError,
  PromptTooLongRetryError,
  RecoveryDeadlineExceeded,
  RecoveryRetriesExhausted,
  type Standing
} from "../../domain/failure/RecoveryError.ts"
import { routeAt } from "../../domain/recovery/RecoveryPolicy.ts"
import { endOf } from "../../domain/recovery/RecoveryState.ts"
import type { Tick } from "../../domain/recovery/Tick.ts"
import { attemptsIn, readableMillis } from "../../domain/failure/Trail.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import type { Position, Run, Silence } from "./Run.ts"

/** Where a request stands at this instant (monotonic milliseconds), whatever ends it. */
export const standingOf = (run: Run, { plan, met }: Position, now: number): Standing => {
  const { first, last } = met
  return {
    requestId: run.options.requestId,
    providerRequestId: last === null ? null : last.providerRequestId,
    attempts: attemptsIn(run.trail),
    elapsedMs: readableMillis(now - run.startedAt),
    trail: [...run.trail],
    lastOutcome: met.lastOutcome,
    lastCause: last === null ? null : last._tag,
    lastStatus: last === null ? null : last.status,
    code: last === null ? null : last.code,
    model: plan === null ? null : plan.route.model,
    client: plan === null ? null : plan.route.client,
    ...(last === null ? {} : { cause: last }),
    ...(first === null ? {} : { firstCause: first })
  }
}

/** Silence that used up the time: at least half of it. */
const decisive = (silence: Silence | null, elapsedMs: number): Silence | null =>
  silence !== null && silence.millis > 0 && silence.millis >= elapsedMs / 2 ? silence : null

type Failed = Extract<RecoveryAction, { readonly _tag: "Fail" }>

export const failureOf = (run: Run, position: Position, action: Failed, tick: Tick): RequestFailure => {
  const { policy } = run.options
  const { state, plan } = position
  const { last, refused } = position.met
  const partial = run.driver.partial()
  const standing = standingOf(run, position, tick.now)
  const { attempts, elapsedMs, trail } = standing
  const { requestId } = run.options
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
        { requestId, attempts, elapsedMs, trail, shed: true }
      )
    case "Passthrough":
      return handOn(
        last ??
          // A reply that ended because the window is full, with nothing left to try.
          makeModelError({
            kind: "prompt_too_long",
            status: 200,
            code: "window_full",
            model: plan === null ? null : plan.route.model
          }),
        { requestId, attempts, elapsedMs, trail, shed: false }
      )
    case "Attempts":
    case "Continuations":
    case "SmallGain":
    case "TruncatedToolCall":
    case "EmptyFragment":
    case "TruncatedStructure":
      return new RecoveryRetriesExhausted({ ...fields, ...withPartial, reason: action.reason })
    case "InvalidRetryAfter":
      return new InvalidRetryAfterError(fields)
    case "Deadline": {
      const end = endOf(state)
      const retryAt = action.waitMillis === null ? null : tick.wall + action.waitMillis
      return new RecoveryDeadlineExceeded({
        ...fields,
        guidance: guidanceForDeadline({ retryAt, last, silence: decisive(position.met.silence, elapsedMs) }),
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
    case "Budget":
      return new BudgetExceeded({
        limit: refused?.limit ?? "tokens",
        allowed: refused?.allowed ?? 0,
        spent: refused?.spent ?? 0,
        reserved: refused?.reserved ?? 0,
        ...fields,
        guidance: refused?.guidance ?? fields.guidance,
        ...withPartial
      })
  }
}
