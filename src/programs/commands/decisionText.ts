/** What happened in a request and what was decided, in a few words. */
import type { Outcome } from "../../domain/recovery/Outcome.ts"
import type { RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"

export const seconds = (millis: number): string => `${(millis / 1000).toFixed(millis % 1000 === 0 ? 0 : 1)} s`

const words: Readonly<Record<string, string>> = {
  rate_limited: "rate limit",
  quota_exhausted: "quota used up",
  overloaded: "overloaded",
  server_error: "server error",
  timeout: "no answer in time",
  connection: "connection failed",
  interrupted: "answer broke off",
  auth: "key not accepted",
  permission: "no permission",
  not_found: "not found",
  invalid_request: "request not accepted",
  payload_too_large: "body too large",
  content_filtered: "content filter",
  malformed_response: "not a valid reply",
  empty_reply: "empty reply"
}

const status = (value: number | null): string => (value === null ? "" : ` (${value})`)

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
      return `${words[outcome.kind] ?? outcome.kind}${status(outcome.status)}`
    case "SummaryFaulted":
      return `summary failed: ${words[outcome.kind] ?? outcome.kind}${status(outcome.status)}`
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
  return ` after ${seconds(action.delayMillis)}${why}`
}

/** What was decided, and why. */
export const actionText = (action: RecoveryAction): string => {
  switch (action._tag) {
    case "Retry":
      return `try again${waitText(action)}`
    case "Fallback":
      return `switch to ${action.to}${waitText(action)} (${words[action.why] ?? action.why} again and again)`
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
