/** A played scenario as people read it: time, attempt, model, budget, what happened, what was decided and why. */
import type { Outcome } from "../../../domain/recovery/Outcome.ts"
import type { RecoveryAction } from "../../../domain/recovery/RecoveryAction.ts"
import { spanText, tableLines } from "../../../domain/failure/wording.ts"
import { actionText, outcomeText } from "../decisionText.ts"
import type { PlayedLine } from "./ResultLine.ts"

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
      at: spanText(event.atMs),
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

const columns = ["at", "attempt", "model", "budget", "what", "decided"] as const

const table = (header: Row, rows: ReadonlyArray<Row>): ReadonlyArray<string> =>
  tableLines([header, ...rows].map((row) => columns.map((name) => row[name])))

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
