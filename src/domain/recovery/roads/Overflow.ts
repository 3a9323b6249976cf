/** The overflow road: an input that is too long is compacted once per logical request, or goes to a larger window. */
import type { Outcome, PromptTooLong } from "../Outcome.ts"
import { routeAt, type RecoveryPolicy } from "../RecoveryPolicy.ts"
import type { RecoveryState } from "../RecoveryState.ts"
import { fail, to, type Transition } from "../Transition.ts"
import { shownBeforeRestart } from "./Shown.ts"

/** First later route whose window is larger or unknown; null = none. */
const widerRoute = (policy: RecoveryPolicy, state: RecoveryState): number | null => {
  const window = routeAt(policy, state.route).contextWindow
  const index = policy.routes.findIndex(
    (route, at) => at > state.route && (route.contextWindow === null || window === null || route.contextWindow > window)
  )
  return index === -1 ? null : index
}

export const onPromptTooLong = (policy: RecoveryPolicy, before: RecoveryState, outcome: PromptTooLong): Transition => {
  const overflows = before.overflows + 1
  // An overflow that is no refusal of the raise has taken the raised budget: what comes now is not about it.
  const state: RecoveryState = { ...before, overflows, run: null, setAside: null }
  const shown = shownBeforeRestart(outcome)
  const limit = policy.fallbackAfter.overflow
  const wider = limit !== undefined && overflows >= limit ? widerRoute(policy, state) : null
  if (wider !== null)
    return to(
      { ...state, route: wider },
      {
        _tag: "Fallback",
        delayMillis: 0,
        origin: "none",
        shown,
        from: routeAt(policy, state.route).model,
        to: routeAt(policy, wider).model,
        why: "prompt_too_long"
      }
    )
  if (policy.compaction.mode === "off") return fail(state, "Passthrough")
  return state.compacted
    ? fail(state, "StillTooLong")
    : to({ ...state, compacted: true }, { _tag: "Compact", delayMillis: 0, origin: "none", shown })
}

/** Below this estimate token counts are too coarse: the number of messages decides. */
const comparableTokens = 1_000

/** A compaction must make the window smaller; an estimate that does not move (a constant one) is no evidence. */
export const isSmaller = (compacted: Extract<Outcome, { readonly _tag: "Compacted" }>): boolean =>
  compacted.before >= comparableTokens && compacted.after !== compacted.before
    ? compacted.after < compacted.before
    : compacted.messagesAfter <= compacted.messagesBefore

export const onCompacted = (
  state: RecoveryState,
  compacted: Extract<Outcome, { readonly _tag: "Compacted" }>
): Transition =>
  isSmaller(compacted)
    ? to(state, { _tag: "Retry", delayMillis: 0, origin: "none", shown: "none", why: "compacted" })
    : fail(state, "NotSmaller")
