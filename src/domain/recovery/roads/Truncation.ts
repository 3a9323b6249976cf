/** The truncation road: raise the output budget once, then continue from the fragment, a bounded number of times. */
import { clampBudget } from "../AttemptPlan.ts"
import type { Seen, Truncated } from "../Outcome.ts"
import { routeAt, type RecoveryPolicy } from "../RecoveryPolicy.ts"
import { capLeft, endOf, type RecoveryState } from "../RecoveryState.ts"
import type { Tick } from "../Tick.ts"
import { fail, to, type Transition } from "../Transition.ts"
import { shownBeforeRestart } from "./Shown.ts"

type Partial = { readonly textLength: number; readonly toolCalls: number }

const isContinuable = (state: RecoveryState, partial: Partial): boolean =>
  !state.structured && partial.toolCalls === 0 && partial.textLength > 0

const notContinuable = (partial: Partial): "TruncatedToolCall" | "EmptyFragment" | "TruncatedStructure" => {
  if (partial.toolCalls > 0) return "TruncatedToolCall"
  return partial.textLength > 0 ? "TruncatedStructure" : "EmptyFragment"
}

/** A stop at the budget the caller has set is what the caller asked for; a tool call that is cut is never a value. */
const isAsked = (state: RecoveryState, outcome: Truncated): boolean => {
  const left = capLeft(state)
  return (
    left !== null && outcome.toolCalls === 0 && Math.max(outcome.sentTokens ?? 0, outcome.outputTokens ?? 0) >= left
  )
}

/** The budget that stopped the reply: ours, or the server's own, which shows only in what was written. */
const limitOf = (outcome: Truncated): number => outcome.sentTokens ?? outcome.outputTokens ?? 0

/** Under this duration in milliseconds a rate is noise. */
const shortestMeasure = 1

/** Output tokens per millisecond of the truncated attempt; null = unknown. */
const rateOf = (outcome: Truncated): number | null =>
  outcome.outputTokens === null || outcome.durationMillis < shortestMeasure
    ? null
    : outcome.outputTokens / outcome.durationMillis

/**
 * Whether the time that is left could carry a reply twice the old budget: less than that, and a reply that has to start
 * again from nothing would most likely not finish. An unknown rate raises.
 */
export const hasTimeToRaise = (
  policy: RecoveryPolicy,
  state: RecoveryState,
  outcome: Truncated,
  tick: Tick
): boolean => {
  if (policy.raise !== "ifTimeAllows") return policy.raise === "always"
  const rate = rateOf(outcome)
  const end = state.streaming ? state.hardCap : endOf(state)
  return rate === null || end === null || (end - tick.now) * rate >= 2 * limitOf(outcome)
}

/** The budget that is wanted after a raise, when the clamped one is larger than what was sent; null = no room. */
const raisedBudget = (policy: RecoveryPolicy, state: RecoveryState, outcome: Truncated): number | null => {
  if (state.raised || policy.raise === "never") return null
  const clamped = clampBudget(
    policy.escalatedMaxTokens,
    routeAt(policy, state.route),
    outcome.promptTokens,
    capLeft(state)
  )
  return clamped > limitOf(outcome) ? policy.escalatedMaxTokens : null
}

export const onTruncated = (
  policy: RecoveryPolicy,
  before: RecoveryState,
  outcome: Truncated,
  tick: Tick
): Transition => {
  const state: RecoveryState = { ...before, run: null, setAside: null }
  if (isAsked(state, outcome)) return to(state, { _tag: "Done" })
  const raised = raisedBudget(policy, state, outcome)
  const partial: Partial = outcome
  const canContinue = isContinuable(state, partial)
  // Text a consumer has seen is never dropped for a raise: continue, with the larger budget.
  if (raised !== null && outcome.delivered > 0 && canContinue)
    return continueFrom(policy, { ...state, raised: true, maxOutputTokens: raised }, outcome, state.maxOutputTokens)
  // What cannot be continued can only be helped by the raise, however little time is left.
  if (raised !== null && (!canContinue || hasTimeToRaise(policy, state, outcome, tick)))
    return to(
      {
        ...state,
        raised: true,
        maxOutputTokens: raised,
        setAside: { maxOutputTokens: state.maxOutputTokens, ...pick(outcome), kept: false }
      },
      { _tag: "Escalate", maxOutputTokens: raised, shown: shownBeforeRestart(outcome) }
    )
  return canContinue ? continueFrom(policy, state, outcome, null) : fail(state, notContinuable(partial))
}

/** A stop at the budget used all of it, when nobody says otherwise. */
const tokensOf = (outcome: Truncated): number => outcome.outputTokens ?? limitOf(outcome)

const pick = (outcome: Truncated): Partial & { readonly tokens: number } => ({
  textLength: outcome.textLength,
  toolCalls: outcome.toolCalls,
  tokens: tokensOf(outcome)
})

/** `previous` is the budget to go back to when the provider refuses the raised one; null when nothing was raised. */
const continueFrom = (
  policy: RecoveryPolicy,
  state: RecoveryState,
  outcome: Truncated,
  previous: number | null
): Transition => {
  const gain = policy.minContinuationGain
  const isSmall = state.continuations > 0 && outcome.outputTokens !== null && outcome.outputTokens < gain.tokens
  const smallGains = isSmall ? state.smallGains + 1 : 0
  if (state.continuations >= policy.maxContinuations) return fail({ ...state, smallGains }, "Continuations")
  if (smallGains >= gain.times) return fail({ ...state, smallGains }, "SmallGain")
  const ordinal = state.continuations + 1
  return to(
    {
      ...state,
      continuations: ordinal,
      smallGains,
      keptTokens: state.keptTokens + tokensOf(outcome),
      setAside: previous === null ? null : { maxOutputTokens: previous, ...pick(outcome), kept: true }
    },
    { _tag: "Continue", ordinal, delayMillis: 0, origin: "none", maxOutputTokens: state.maxOutputTokens }
  )
}

/** Statuses with which providers refuse a budget, or the credit for it, whatever code they add. */
const refusalStatuses = [400, 402, 413, 422]

/** Whether an answer to the raised request means: not with this budget. */
export const refusesRaise = (state: RecoveryState, status: number | null): boolean =>
  state.setAside !== null && status !== null && refusalStatuses.includes(status)

/** The old budget again, and on from the partial that was set aside: the refusal is not a failure. */
export const onRaiseRefused = (policy: RecoveryPolicy, before: RecoveryState, seen: Seen): Transition => {
  const partial = before.setAside
  if (partial === null) return fail(before, "Passthrough")
  const state: RecoveryState = { ...before, run: null, setAside: null, maxOutputTokens: partial.maxOutputTokens }
  if (partial.kept)
    return to(state, {
      _tag: "Retry",
      delayMillis: 0,
      origin: "none",
      shown: shownBeforeRestart(seen),
      why: "raise_refused"
    })
  if (!isContinuable(state, partial)) return fail(state, notContinuable(partial))
  if (state.continuations >= policy.maxContinuations) return fail(state, "Continuations")
  const ordinal = state.continuations + 1
  return to(
    { ...state, continuations: ordinal, keptTokens: state.keptTokens + partial.tokens },
    { _tag: "Continue", ordinal, delayMillis: 0, origin: "none", maxOutputTokens: state.maxOutputTokens }
  )
}
