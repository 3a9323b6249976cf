/** A resolved policy as a table people can read: routes, budgets, the first ten delays, the longest wait. */
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"

const span = (millis: number | null): string => {
  if (millis === null) return "none"
  if (millis % 3_600_000 === 0) return `${millis / 3_600_000} h`
  if (millis % 60_000 === 0) return `${millis / 60_000} min`
  return millis % 1000 === 0 || millis > 1000 ? `${millis / 1000} s` : `${millis} ms`
}

/** Delays of the backoff before jitter, milliseconds. */
export const delaysOf = (policy: RecoveryPolicy, count: number): ReadonlyArray<number> =>
  Array.from({ length: count }, (_, at) =>
    Math.min(policy.backoff.cap, policy.backoff.base * policy.backoff.factor ** at)
  )

/** Longest sum of backoff waits, with full jitter; null = unlimited. Hints may be longer, up to the deadline. */
export const worstCaseWait = (policy: RecoveryPolicy): number | null => {
  if (policy.maxAttempts === null) return policy.deadline
  const waits = delaysOf(policy, policy.maxAttempts - 1).reduce((sum, delay) => sum + delay, 0)
  const full = waits * (1 + policy.backoff.jitter)
  return policy.deadline === null ? full : Math.min(full, policy.deadline)
}

const known = (value: number | null): string => (value === null ? "unknown" : String(value))

export interface Row {
  readonly field: string
  readonly value: string
}

/** The table as rows, for commands and documents. */
export const rowsOf = (policy: RecoveryPolicy): ReadonlyArray<Row> => [
  ...policy.routes.map((route, at) => ({
    field: at === 0 ? "primary" : `fallback ${at}`,
    value: `${route.model}${route.client === null ? "" : ` (client ${route.client})`}, writes at most ${known(route.outputLimit)}, window ${known(route.contextWindow)}`
  })),
  { field: "retry", value: policy.retry.join(", ") },
  { field: "retryAfter", value: policy.retryAfter },
  { field: "maxAttempts", value: policy.maxAttempts === null ? "unlimited" : String(policy.maxAttempts) },
  {
    field: "backoff",
    value: `${delaysOf(policy, 10).map(span).join(", ")} (each +0..${policy.backoff.jitter * 100} %)`
  },
  { field: "longest backoff in all", value: span(worstCaseWait(policy)) },
  {
    field: "deadline",
    value: policy.deadline === null ? "none" : `${span(policy.deadline)} per ${policy.deadlinePer}`
  },
  { field: "hardCap", value: span(policy.hardCap) },
  { field: "resetCap", value: span(policy.resetCap) },
  { field: "attemptTimeout", value: span(policy.attemptTimeout) },
  { field: "firstTokenTimeout", value: span(policy.firstTokenTimeout) },
  { field: "idleTimeout", value: span(policy.idleTimeout) },
  { field: "contentTimeout", value: span(policy.contentTimeout) },
  { field: "heartbeat", value: span(policy.heartbeat) },
  {
    field: "fallbackAfter",
    value:
      Object.entries(policy.fallbackAfter)
        .map(([name, count]) => `${name} ${count}`)
        .join(", ") || "never"
  },
  { field: "fallbackScope", value: policy.fallbackScope },
  { field: "routeHealth", value: policy.routeHealth === null ? "off" : "on" },
  { field: "initialMaxTokens", value: String(policy.initialMaxTokens) },
  { field: "escalatedMaxTokens", value: policy.raise === "never" ? "never raised" : String(policy.escalatedMaxTokens) },
  { field: "maxContinuations", value: String(policy.maxContinuations) },
  { field: "compaction", value: `${policy.compaction.mode}, keeps ${policy.compaction.keepRecentMessages} messages` },
  { field: "onCut", value: policy.onCut }
]

/** The table as text, one row per line. */
export const describe = (policy: RecoveryPolicy): string => {
  const rows = rowsOf(policy)
  const width = Math.max(...rows.map((row) => row.field.length))
  return rows.map((row) => `${row.field.padEnd(width)}  ${row.value}`).join("\n")
}
