/** What happened in a request and what was decided, in a few words. */
import type { FaultKind } from "../../domain/failure/FaultKind.ts"
import { spanText } from "../../domain/failure/wording.ts"
import { faultWords } from "../../domain/failure/words.ts"
import type { Outcome } from "../../domain/recovery/Outcome.ts"
import type { RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"

const isFaultKind = (kind: string): kind is FaultKind => Object.hasOwn(faultWords, kind)

const status = (value: number | null): string => (value === null ? "" : ` (${value})`)

/** Why a route was changed. One that is gone answered so once; a fault is met again and again before. */
const whyText = (why: string): string =>
  why === "gone" ? "it is not there" : isFaultKind(why) ? `${faultWords[why].name} again and again` : why

/** What happened, in a few words. */
export const outcomeText = (outcome: Outcome): string => {
  switch (outcome._tag) {
    case "Completed":
      return "whole answer"
    case "Refused":
      return "the model refused"
    case "Truncated":
      return outcome.toolCalls > 0 ? "tool call cut by the budget" : "answer cut by the budget"
    case "PromptTooLong":
      return `input too long${status(outcome.status)}`
    case "Faulted":
      return `${faultWords[outcome.kind].name}${status(outcome.status)}`
    case "SummaryFaulted":
      return `summary failed: ${faultWords[outcome.kind].name}${status(outcome.status)}`
    case "Held":
      return `route closed: ${outcome.reason}`
    case "Compacted":
      return `input shortened: ${outcome.before} -> ${outcome.after} tokens`
    case "NothingToCompact":
      return "nothing to shorten"
    case "BudgetRefused":
      return "session budget used up"
    case "DeadlineHit":
      return "deadline passed"
  }
}

const waitText = (action: { readonly delayMillis: number; readonly origin: string }): string => {
  if (action.delayMillis <= 0) return ""
  const why =
    action.origin === "hint"
      ? ", as the provider asked"
      : action.origin === "held"
        ? ", until the route opens"
        : ", backoff"
  return ` after ${spanText(action.delayMillis)}${why}`
}

/** What was decided, and why. */
export const actionText = (action: RecoveryAction): string => {
  switch (action._tag) {
    case "Retry":
      return `try again${waitText(action)}`
    case "Fallback":
      return `switch to ${action.to}${waitText(action)} (${whyText(action.why)})`
    case "Escalate":
      return `set the part aside, raise the budget to ${action.maxOutputTokens}`
    case "Continue":
      return `keep the part, ask for the rest (continuation ${action.ordinal})`
    case "Compact":
      return `shorten the input with a summary${waitText(action)}`
    case "Done":
      return "done"
    case "Fail":
      return action.reason === "Passthrough" ? "hand the failure on: not ours to repair" : `give up: ${action.reason}`
  }
}
