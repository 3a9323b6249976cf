/** A resolved policy as a table people can read: routes, then every field of the table of fields, with the delays. */
import { spanText, tableLines } from "../failure/wording.ts"
import { policyFieldNames, type PolicyFieldName } from "./policyFields.ts"
import { spanWords, wordsOf } from "./policyWords.ts"
import type { RecoveryPolicy, Route } from "./RecoveryPolicy.ts"

/** Delays of the backoff before jitter, milliseconds. */
const delaysOf = (policy: RecoveryPolicy, count: number): ReadonlyArray<number> =>
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

const longest = (millis: number | null): string => (millis === null ? "unlimited" : spanText(millis))

const known = (value: number | null): string => (value === null ? "unknown" : String(value))

export interface Row {
  readonly field: string
  readonly value: string
}

const routeRow = (route: Route, at: number): Row => ({
  field: at === 0 ? "primary" : `fallback ${at}`,
  value: `${route.model}${route.client === null ? "" : ` (client ${route.client})`}, writes at most ${known(route.outputLimit)}, window ${known(route.contextWindow)}`
})

/** Fields of which a policy says more than their own value. */
const fuller: { readonly [Name in PolicyFieldName]?: (policy: RecoveryPolicy) => ReadonlyArray<Row> } = {
  backoff: (policy) => [
    {
      field: "backoff",
      value: `${delaysOf(policy, 10).map(spanText).join(", ")} (each +0..${policy.backoff.jitter * 100} %)`
    },
    { field: "longest backoff in all", value: longest(worstCaseWait(policy)) }
  ],
  deadline: (policy) => [
    {
      field: "deadline",
      value: policy.deadline === null ? "none" : `${spanWords(policy.deadline)} per ${policy.deadlinePer}`
    }
  ],
  deadlinePer: () => []
}

/** The table as rows, for commands and documents. */
export const rowsOf = (policy: RecoveryPolicy): ReadonlyArray<Row> => [
  ...policy.routes.map(routeRow),
  ...policyFieldNames.flatMap((name) => fuller[name]?.(policy) ?? [{ field: name, value: wordsOf(name, policy[name]) }])
]

/** The table as text, one row per line. */
export const describe = (policy: RecoveryPolicy): string =>
  tableLines(rowsOf(policy).map(({ field, value }) => [field, value])).join("\n")
