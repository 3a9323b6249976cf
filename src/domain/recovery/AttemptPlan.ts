/** What the next request looks like. Always derived from policy and state, never carried beside them. */
import { routeAt, type RecoveryPolicy, type Route } from "./RecoveryPolicy.ts"
import { capLeft, type RecoveryState } from "./RecoveryState.ts"

export interface AttemptPlan {
  /** Counts from 1. */
  readonly attempt: number
  readonly route: Route
  /** The clamped budget, >= 1; null = none is sent. */
  readonly maxOutputTokens: number | null
  /** Estimated prompt tokens of this request. */
  readonly promptTokens: number
}

/** Tokens left free between prompt and output, since every estimate is one: 1 % of the prompt, at least 64. */
const marginOf = (promptTokens: number): number => Math.max(64, Math.ceil(promptTokens / 100))

/**
 * The budget that is sent: min(wanted, the model's own limit, window - prompt - margin, the caller's cap), at least 1.
 * What is unknown does not clamp; when the estimate alone reaches the window, the window does not clamp either (the
 * provider has to say it).
 */
export const clampBudget = (wanted: number, route: Route, promptTokens: number, callerCap: number | null): number => {
  const room =
    route.contextWindow === null || promptTokens >= route.contextWindow
      ? Infinity
      : route.contextWindow - promptTokens - marginOf(promptTokens)
  return Math.max(1, Math.min(wanted, route.outputLimit ?? Infinity, room, callerCap ?? Infinity))
}

/** The budget that is sent when none is wanted of ours: the caller's cap, and without one none. */
const budgetOf = (wanted: number | null, route: Route, promptTokens: number, cap: number | null): number | null =>
  wanted === null && cap === null ? null : clampBudget(wanted ?? Infinity, route, promptTokens, cap)

/** How long a reply is at most where no budget says it. */
export const longestReplyOf = (policy: RecoveryPolicy, route: Route): number =>
  route.outputLimit ?? policy.escalatedMaxTokens

/** `payable` is what the session's budget still pays for, in output tokens; null = as much as is wanted. */
export const planOf = (
  policy: RecoveryPolicy,
  state: RecoveryState,
  promptTokens: number,
  payable: number | null = null
): AttemptPlan => {
  const route = routeAt(policy, state.route)
  const budget = budgetOf(state.maxOutputTokens, route, promptTokens, capLeft(state))
  const isTight = payable !== null && payable < (budget ?? longestReplyOf(policy, route))
  return { attempt: state.attempts + 1, route, maxOutputTokens: isTight ? payable : budget, promptTokens }
}
