/** What the rows of a journal say, whatever database they stand in. */
import { hostname } from "node:os"
import type { TurnStanding } from "../../domain/agent/turnTaken.ts"
import type { StreamRow, TurnStatus, TurnSummary } from "../../services/JournalStore.ts"

type Row = Readonly<Record<string, unknown>>

export const textOf = (row: Row | undefined, column: string): string | null => {
  const value = row?.[column]
  return typeof value === "string" ? value : null
}

export const numberOf = (row: Row | undefined, column: string): number => Number(row?.[column] ?? 0)

const isStatus = (text: string): text is TurnStatus =>
  ["running", "parked", "done", "failed", "cancelled"].includes(text)

export const summaryOf = (row: Row): TurnSummary => {
  const status = textOf(row, "status") ?? ""
  return {
    turn: textOf(row, "turn") ?? "",
    status: isStatus(status) ? status : "failed",
    createdAt: numberOf(row, "created_at"),
    changedAt: numberOf(row, "changed_at"),
    steps: numberOf(row, "steps"),
    waitsFor: textOf(row, "waits_for"),
    holder: textOf(row, "holder")
  }
}

export const standingOf = (row: Row | undefined): TurnStanding => ({
  holder: textOf(row, "holder"),
  restarts: numberOf(row, "restarts"),
  facts: numberOf(row, "facts")
})

/** The value of a step as it is written; null = the step has only begun and says nothing. */
export const valueText = (state: "begun" | "done", value: unknown): string | null =>
  state === "done" || value !== null ? JSON.stringify(value ?? null) : null

/** What the pieces of each stream come to, in their order. */
export const toldIn = (pieces: ReadonlyArray<StreamRow>): Map<string, string> => {
  const told = new Map<string, string>()
  for (const { key, text } of pieces) told.set(key, text === null ? "" : (told.get(key) ?? "") + text)
  return told
}

/** How an owner is named to others. */
export const ownName = (): string => `process ${process.pid} on ${hostname()}`
