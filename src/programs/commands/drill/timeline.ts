/** A played scenario as people read it: time, attempt, model, budget, what happened, what was decided and why. */
import type { Outcome } from "../../../domain/recovery/Outcome.ts"
import type { RecoveryAction } from "../../../domain/recovery/RecoveryAction.ts"
import type { PlayedLine } from "./play.ts"

const seconds = (millis: number): string => `${(millis / 1000).toFixed(millis % 1000 === 0 ? 0 : 1)} s`

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

interface Row {
  readonly at: string
  readonly attempt: string
  readonly model: string
  readonly budget: string
  readonly what: string
  readonly decided: string
}

const rowsOf = (line: PlayedLine): ReadonlyArray<Row> => {
  const rows: Array<Row> = []
  let started: { readonly attempt: number; readonly model: string; readonly budget: number } | null = null
  for (const event of line.events) {
    if (event._tag === "AttemptStarted")
      started = {
        attempt: Number(event["attempt"]),
        model: String(event["model"]),
        budget: Number(event["maxOutputTokens"])
      }
    if (event._tag !== "Transitioned") continue
    const outcome = event["outcome"] as Outcome
    const action = event["action"] as RecoveryAction
    rows.push({
      at: seconds(event.atMs),
      attempt: started === null ? "" : `#${started.attempt}`,
      model: started === null ? "" : started.model,
      budget: started === null ? "" : String(started.budget),
      what: outcomeText(outcome),
      decided: actionText(action)
    })
    started = null
  }
  return rows
}

const pad = (text: string, width: number): string => text + " ".repeat(Math.max(0, width - text.length))

/** Rows in columns as wide as their widest cell. */
const table = (header: Row, rows: ReadonlyArray<Row>): ReadonlyArray<string> => {
  const keys = ["at", "attempt", "model", "budget", "what", "decided"] as const
  const all = [header, ...rows]
  const widths = keys.map((key) => Math.max(...all.map((row) => row[key].length)))
  return all.map((row) =>
    keys
      .map((key, at) => pad(row[key], widths[at] ?? 0))
      .join("  ")
      .trimEnd()
  )
}

const header: Row = {
  at: "time",
  attempt: "try",
  model: "model",
  budget: "budget",
  what: "what happened",
  decided: "what was decided"
}

const resultText = (line: PlayedLine): ReadonlyArray<string> =>
  line.results.map((result) => {
    if (result["interrupted"] === true) return "interrupted by the user"
    if (typeof result["configError"] === "string") return `configuration error: ${result["configError"]}`
    if (typeof result["error"] === "string") {
      const fields = result["fields"] as Readonly<Record<string, unknown>> | undefined
      return `${result["error"]}: ${String(fields?.["guidance"] ?? "")}`
    }
    if (typeof result["refusal"] === "string") return `refusal: ${result["refusal"]}`
    return `reply: ${JSON.stringify(result["reply"])}`
  })

/** The whole story of one scenario, line by line. */
export const timeline = (line: PlayedLine): ReadonlyArray<string> => [
  ...table(header, rowsOf(line)),
  ...resultText(line)
]
