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

const longest = (millis: number | null): string => (millis === null ? "unlimited" : span(millis))

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
  {
    field: "retry",
    value: `${policy.retry.join(", ") || "nothing"}${policy.shedOnOverload ? "; gives up at the first overload" : ""}`
  },
  { field: "retryAfter", value: policy.retryAfter },
  {
    field: "x-should-retry: true",
    value: policy.trustShouldRetry ? "repeats what else would not be" : "is not obeyed"
  },
  { field: "maxAttempts", value: policy.maxAttempts === null ? "unlimited" : String(policy.maxAttempts) },
  {
    field: "backoff",
    value: `${delaysOf(policy, 10).map(span).join(", ")} (each +0..${policy.backoff.jitter * 100} %)`
  },
  { field: "longest backoff in all", value: longest(worstCaseWait(policy)) },
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
  {
    field: "routeHealth",
    value:
      policy.routeHealth === null
        ? "off"
        : `opens on ${policy.routeHealth.counts.join(", ")}; cool-down ${span(policy.routeHealth.coolDown)}, at most ${span(policy.routeHealth.coolDownMax)}`
  },
  { field: "initialMaxTokens", value: String(policy.initialMaxTokens) },
  {
    field: "escalatedMaxTokens",
    value:
      policy.raise === "never"
        ? "never raised"
        : `${policy.escalatedMaxTokens}${policy.raise === "ifTimeAllows" ? ", if the time allows" : ""}`
  },
  {
    field: "maxContinuations",
    value: `${policy.maxContinuations}, or ${policy.minContinuationGain.times} in a row under ${policy.minContinuationGain.tokens} tokens`
  },
  { field: "seamRepair", value: policy.seamRepair === 0 ? "off" : `up to ${policy.seamRepair} characters` },
  {
    field: "compaction",
    value: `${policy.compaction.mode}, keeps ${policy.compaction.keepRecentMessages} messages${policy.suspectOverflow ? "; a bare 400, 413 or 422 over the window counts" : ""}`
  },
  { field: "onCut", value: policy.onCut }
]

/** The table as text, one row per line. */
export const describe = (policy: RecoveryPolicy): string => {
  const rows = rowsOf(policy)
  const width = Math.max(...rows.map((row) => row.field.length))
  return rows.map((row) => `${row.field.padEnd(width)}  ${row.value}`).join("\n")
}
