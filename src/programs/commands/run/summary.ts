/** What a run did, counted from its events: the small table at the end. */
import type { AgentEvent } from "../../../domain/agent/AgentEvent.ts"
import { spanText, tableLines } from "../../../domain/failure/wording.ts"
import { delayOf } from "../../../domain/recovery/RecoveryAction.ts"
import type { RecoveryEvent } from "../../../domain/recovery/RecoveryEvent.ts"
import * as Usage from "../../../domain/chat/Usage.ts"

export interface Summary {
  steps: number
  toolCalls: number
  /** HTTP requests of the conversation. */
  attempts: number
  waits: number
  waitedMs: number
  usage: Usage.Usage
  /** USD; null = unknown. */
  costUsd: number | null
  /** USD the run may spend; null = no limit. */
  readonly maxCostUsd: number | null
  /** Every model that may be asked has a price. */
  readonly hasPrices: boolean
  readonly filesChanged: Set<string>
}

export const makeSummary = (given: Pick<Summary, "maxCostUsd" | "hasPrices">): Summary => ({
  ...given,
  steps: 0,
  toolCalls: 0,
  attempts: 0,
  waits: 0,
  waitedMs: 0,
  usage: Usage.unknown,
  costUsd: 0,
  filesChanged: new Set()
})

export const noteAgent = (summary: Summary, event: AgentEvent): void => {
  if (event._tag === "Replied") summary.steps = event.step
  if (event._tag === "ToolStarted") summary.toolCalls += 1
}

export const noteRecovery = (summary: Summary, event: RecoveryEvent): void => {
  switch (event._tag) {
    case "AttemptStarted":
      summary.attempts += 1
      break
    case "Transitioned": {
      const delayMillis = delayOf(event.action)
      if (delayMillis > 0) {
        summary.waits += 1
        summary.waitedMs += delayMillis
      }
      break
    }
    case "UsageSeen":
      summary.usage = Usage.sum(summary.usage, event.usage)
      summary.costUsd = summary.costUsd === null || event.costUsd === null ? null : summary.costUsd + event.costUsd
      break
    default:
      break
  }
}

const count = (value: number | null): string => (value === null ? "unknown" : String(value))

const costText = (summary: Summary): string => {
  const limit = summary.maxCostUsd === null ? "" : ` of $${summary.maxCostUsd} allowed`
  if (summary.costUsd !== null) return `$${summary.costUsd.toFixed(4)}${limit}`
  return summary.hasPrices
    ? `unknown (a request ended without its usage; booked as the most it could cost)${limit}`
    : "unknown (no prices for this model)"
}

const rowsOf = (summary: Summary): ReadonlyArray<readonly [string, string]> => [
  ["steps", String(summary.steps)],
  ["tool calls", String(summary.toolCalls)],
  ["attempts", String(summary.attempts)],
  ["waits", summary.waits === 0 ? "none" : `${summary.waits}, ${spanText(summary.waitedMs)} in all`],
  [
    "tokens",
    `${count(summary.usage.promptTokens)} in${summary.usage.cachedTokens === null ? "" : ` (${summary.usage.cachedTokens} cached)`}, ${count(summary.usage.completionTokens)} out`
  ],
  ["cost", costText(summary)],
  ["files changed", summary.filesChanged.size === 0 ? "none" : [...summary.filesChanged].join(", ")]
]

export const summaryTable = (summary: Summary): string =>
  tableLines(rowsOf(summary))
    .map((line) => `  ${line}`)
    .join("\n")

export const summaryJson = (summary: Summary): Readonly<Record<string, unknown>> => ({
  ...summary,
  filesChanged: [...summary.filesChanged]
})
