/**
 * The one machine: outcomes in, actions out. Total, deterministic, pure. Rules that span the roads live here: what
 * counts as an attempt, and that past the deadline nothing but a whole reply counts.
 */
import { isAttempt, type Outcome } from "./Outcome.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"
import { routeAt } from "./RecoveryPolicy.ts"
import { endOf, type RecoveryState } from "./RecoveryState.ts"
import { onCompacted, onPromptTooLong } from "./roads/Overflow.ts"
import { isRetryable, onFault, onSummaryFault } from "./roads/Transient.ts"
import { onRaiseRefused, onTruncated, refusesRaise } from "./roads/Truncation.ts"
import type { Tick } from "./Tick.ts"
import { fail, to, type Transition } from "./Transition.ts"

/** Counts the attempt and moves the deadline on by what a stream's progress earned. The hard cap never moves. */
const account = (state: RecoveryState, outcome: Outcome, tick: Tick): RecoveryState => ({
  ...state,
  attempts: isAttempt(outcome) ? state.attempts + 1 : state.attempts,
  deadline: state.deadline === null ? null : state.deadline + tick.progressMillis
})

const isPast = (state: RecoveryState, tick: Tick): boolean => {
  const end = endOf(state)
  return end !== null && tick.now >= end
}

const onHeld = (
  policy: RecoveryPolicy,
  state: RecoveryState,
  held: Extract<Outcome, { readonly _tag: "Held" }>,
  tick: Tick
): Transition => {
  if (held.reason === "shed") return fail(state, "Shed")
  if (held.other !== null && !state.gone.includes(held.other))
    return to(
      { ...state, route: held.other, run: null },
      {
        _tag: "Fallback",
        delayMillis: 0,
        origin: "held",
        shown: "none",
        from: routeAt(policy, state.route).model,
        to: routeAt(policy, held.other).model,
        why: held.reason
      }
    )
  const delayMillis = Math.max(0, held.untilMillis - tick.now)
  const end = endOf(state)
  return end !== null && tick.now + delayMillis >= end
    ? fail(state, "Deadline", delayMillis)
    : to(state, { _tag: "Retry", delayMillis, origin: "held", shown: "none", why: held.reason })
}

export const transition = (policy: RecoveryPolicy, before: RecoveryState, outcome: Outcome, tick: Tick): Transition => {
  const state = account(before, outcome, tick)
  switch (outcome._tag) {
    case "Completed":
    case "Refused":
      return to({ ...state, run: null, setAside: null }, { _tag: "Done" })
    case "DeadlineHit":
      return fail(state, "Deadline")
    case "BudgetRefused":
      return fail(state, "Budget")
    default:
      return isPast(state, tick) ? fail(state, "Deadline") : beforeDeadline(policy, state, outcome, tick)
  }
}

type Recoverable = Exclude<Outcome, { readonly _tag: "Completed" | "Refused" | "DeadlineHit" | "BudgetRefused" }>

const beforeDeadline = (policy: RecoveryPolicy, state: RecoveryState, outcome: Recoverable, tick: Tick): Transition => {
  switch (outcome._tag) {
    case "Truncated":
      return onTruncated(policy, state, outcome, tick)
    case "PromptTooLong":
      return refusesRaise(state, outcome.status)
        ? onRaiseRefused(policy, state, outcome)
        : onPromptTooLong(policy, state, outcome)
    case "Faulted":
      return refusesRaise(state, outcome.status) && !isRetryable(policy, outcome)
        ? onRaiseRefused(policy, state, outcome)
        : onFault(policy, state, outcome, tick)
    case "Held":
      return onHeld(policy, state, outcome, tick)
    case "Compacted":
      return onCompacted(state, outcome)
    case "NothingToCompact":
      return fail(state, "NothingToCompact")
    case "SummaryFaulted":
      return onSummaryFault(policy, state, outcome, tick)
  }
}
