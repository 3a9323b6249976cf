/**
 * Writes docs/machine.svg: which outcome of an attempt may lead to which action. Nothing is drawn by hand: the machine is
 * asked, along every path of a few steps, what it decides. `npm run docs`.
 */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { nothingSeen, type Outcome } from "../src/domain/recovery/Outcome.ts"
import type { RecoveryAction } from "../src/domain/recovery/RecoveryAction.ts"
import { transition } from "../src/domain/recovery/RecoveryMachine.ts"
import { RecoveryPolicy } from "../src/domain/recovery/RecoveryPolicy.ts"
import * as RecoveryState from "../src/domain/recovery/RecoveryState.ts"

type ActionTag = RecoveryAction["_tag"]

interface Row {
  readonly label: string
  readonly outcome: Outcome
}

const faulted = (
  kind: "overloaded" | "rate_limited" | "interrupted" | "timeout" | "quota_exhausted" | "auth",
  status: number | null
): Outcome => ({
  _tag: "Faulted",
  kind,
  status,
  code: null,
  hints: [],
  shouldRetry: null,
  ...nothingSeen,
  other: null
})

const rows: ReadonlyArray<Row> = [
  { label: "a whole reply", outcome: { _tag: "Completed" } },
  { label: "a refusal", outcome: { _tag: "Refused" } },
  {
    label: "cut by its output budget",
    outcome: {
      _tag: "Truncated",
      textLength: 900,
      toolCalls: 0,
      outputTokens: 8000,
      durationMillis: 10_000,
      sentTokens: 8000,
      promptTokens: 100,
      ...nothingSeen
    }
  },
  {
    label: "input too long",
    outcome: { _tag: "PromptTooLong", status: 400, code: "context_length_exceeded", ...nothingSeen }
  },
  { label: "overloaded", outcome: faulted("overloaded", 529) },
  { label: "rate limit", outcome: faulted("rate_limited", 429) },
  { label: "silence, a broken line", outcome: faulted("interrupted", null) },
  { label: "quota used up", outcome: faulted("quota_exhausted", 402) },
  { label: "key or request refused", outcome: faulted("auth", 401) },
  { label: "held by route health", outcome: { _tag: "Held", untilMillis: 2_000, reason: "breaker", other: 1 } },
  { label: "the budget is used up", outcome: { _tag: "BudgetRefused" } },
  { label: "the deadline", outcome: { _tag: "DeadlineHit" } }
]

/** Steps looked at: enough for a raise and all its continuations, and for a fallback. */
const depth = 6

const policy = new RecoveryPolicy({
  ...RecoveryPolicy.broad,
  maxAttempts: depth,
  routes: [{ model: "large" }, { model: "small", client: "backup" }]
})

const compacted: Outcome = { _tag: "Compacted", before: 9_000, after: 900, messagesBefore: 40, messagesAfter: 6 }

const ends: ReadonlySet<ActionTag> = new Set(["Done", "Fail"])

/** Every decision the machine comes to after an outcome, along all paths of `depth` steps. */
const decisions = (): ReadonlyMap<string, ReadonlySet<ActionTag>> => {
  const found = new Map<string, Set<ActionTag>>(rows.map(({ label }) => [label, new Set()]))
  const start = { now: 0, deadline: policy.deadline, route: 0, callerCap: null, streaming: false, background: false }
  let states = new Map<string, RecoveryState.RecoveryState>()
  states.set("start", RecoveryState.initial(policy, start))
  for (let step = 0; step < depth; step += 1) {
    const next = new Map<string, RecoveryState.RecoveryState>()
    const tick = { now: step * 1_000, wall: 0, backoffMillis: 500, spread: 0, progressMillis: 0 }
    for (const state of states.values())
      for (const { label, outcome } of rows) {
        const made = transition(policy, state, outcome, tick)
        found.get(label)?.add(made.action._tag)
        if (ends.has(made.action._tag)) continue
        const after =
          made.action._tag === "Compact" ? transition(policy, made.state, compacted, tick).state : made.state
        next.set(JSON.stringify(after), after)
      }
    states = next
  }
  return found
}

const actions: ReadonlyArray<{ readonly tag: ActionTag; readonly label: string; readonly hue: string }> = [
  { tag: "Done", label: "Done: the merged reply", hue: "#2e7d32" },
  { tag: "Retry", label: "Retry: wait, ask again", hue: "#1565c0" },
  { tag: "Fallback", label: "Fallback: another route", hue: "#6a1b9a" },
  { tag: "Escalate", label: "Escalate: a larger budget", hue: "#00838f" },
  { tag: "Continue", label: "Continue: ask for the rest", hue: "#00695c" },
  { tag: "Compact", label: "Compact: a shorter input", hue: "#ef6c00" },
  { tag: "Fail", label: "Fail: a typed failure", hue: "#c62828" }
]

const width = 900
const top = 62
const rowHeight = 36
const height = top + rows.length * rowHeight + 24
const left = { x: 150, width: 210 }
const right = { x: 610, width: 220 }

const rowY = (index: number): number => top + index * rowHeight
const actionY = (index: number): number => {
  const gap = ((rows.length - 1) * rowHeight) / (actions.length - 1)
  return Math.round(top + index * gap)
}

const box = (x: number, y: number, boxWidth: number, label: string, stroke = "currentColor"): string =>
  `<rect x="${x}" y="${y - 13}" width="${boxWidth}" height="26" rx="5" fill="none" stroke="${stroke}"/>` +
  `<text x="${x + boxWidth / 2}" y="${y + 4}" text-anchor="middle">${label}</text>`

const edge = (from: number, to: number, hue: string): string => {
  const [x1, x2] = [left.x + left.width, right.x]
  const middle = (x1 + x2) / 2
  return `<path d="M${x1} ${from}C${middle} ${from} ${middle} ${to} ${x2} ${to}" stroke="${hue}" fill="none"/>`
}

/** The way back: an action that asks again leads to the next attempt. */
const back = (to: number, hue: string): string => {
  const x = right.x + right.width
  return `<path d="M${x} ${to}h26V28H75V${attemptY - 15}" stroke="${hue}" fill="none" opacity="0.55"/>`
}

const attemptY = Math.round(top + ((rows.length - 1) * rowHeight) / 2)

export const machinePicture = (): string => {
  const found = decisions()
  const edges = rows.flatMap(({ label }, at) =>
    actions.flatMap(({ tag, hue }, to) =>
      found.get(label)?.has(tag) === true ? [edge(rowY(at), actionY(to), hue)] : []
    )
  )
  const fan = rows.map(
    (_, at) => `<path d="M130 ${attemptY}L${left.x} ${rowY(at)}" stroke="currentColor" opacity="0.3"/>`
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="t" font-family="system-ui, sans-serif" font-size="13" fill="currentColor" color="#57606a">
<title id="t">What the machine may decide after each outcome of an attempt, in the preset broad</title>
<text x="${left.x + left.width / 2}" y="20" text-anchor="middle">an attempt ends with</text>
<text x="${right.x + right.width / 2}" y="20" text-anchor="middle">the machine decides</text>
${[...actions.flatMap(({ tag, hue }, at) => (ends.has(tag) ? [] : [back(actionY(at), hue)])), ...fan, ...edges].join("\n")}
${box(20, attemptY, 110, "one attempt")}
${rows.map(({ label }, at) => box(left.x, rowY(at), left.width, label)).join("\n")}
${actions.map(({ label, hue }, at) => box(right.x, actionY(at), right.width, label, hue)).join("\n")}
</svg>
`
}

const path = join(import.meta.dirname, "..", "docs", "machine.svg")
if (process.argv[1] === import.meta.filename) writeFileSync(path, machinePicture())
