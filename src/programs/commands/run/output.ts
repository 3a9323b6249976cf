/** What a run shows: events as JSON lines for machines, or a display for a person. Nothing else goes to stdout. */
import * as Effect from "effect/Effect"
import type { AgentEvent } from "../../../domain/agent/AgentEvent.ts"
import type { RecoveryEvent } from "../../../domain/recovery/RecoveryEvent.ts"
import { makeDisplay } from "./display.ts"
import * as Summary from "./summary.ts"

/** How a run ended. */
export interface Ending {
  readonly ok: boolean
  /** For a person; null = what was shown says it. */
  readonly words: string | null
  /** For a machine. */
  readonly fields: Readonly<Record<string, unknown>>
}

export interface Output {
  readonly onAgent: (event: AgentEvent) => Effect.Effect<void>
  readonly onRecovery: (event: RecoveryEvent) => Effect.Effect<void>
  /** Something a person should know, beside the run. */
  readonly tell: (sentence: string) => Effect.Effect<void>
  readonly conclude: (ending: Ending) => Effect.Effect<void>
}

const print = (value: unknown): void => {
  process.stdout.write(`${JSON.stringify(value)}\n`)
}

const complain = (sentence: string): Effect.Effect<void> =>
  Effect.sync(() => void process.stderr.write(`holdfast: ${sentence}\n`))

const jsonOutput = (summary: Summary.Summary): Output => ({
  onAgent: (event) =>
    Effect.sync(() => {
      Summary.noteAgent(summary, event)
      print(event)
    }),
  // Whole, with the policy of Started: `holdfast replay` folds what this prints.
  onRecovery: (event) =>
    Effect.sync(() => {
      Summary.noteRecovery(summary, event)
      print(event)
    }),
  tell: complain,
  conclude: ({ ok, fields }) =>
    Effect.sync(() => print({ _tag: "Ended", ok, ...fields, summary: Summary.summaryJson(summary) }))
})

const displayOutput = (summary: Summary.Summary): Output => {
  const display = makeDisplay({
    write: (text) => process.stdout.write(text),
    isTerminal: process.stdout.isTTY === true
  })
  return {
    onAgent: (event) =>
      Effect.sync(() => {
        Summary.noteAgent(summary, event)
        display.onAgent(event)
      }),
    onRecovery: (event) =>
      Effect.sync(() => {
        Summary.noteRecovery(summary, event)
        display.onRecovery(event)
      }),
    tell: (sentence) => Effect.andThen(Effect.sync(display.close), complain(sentence)),
    conclude: ({ ok, words }) =>
      Effect.sync(() => {
        display.close()
        if (words !== null) process.stderr.write(`${words}\n`)
        process.stdout.write(`\n${Summary.summaryTable(summary)}\n`)
        if (!ok) process.stdout.write("  go on with    holdfast run --resume\n")
      })
  }
}

export const makeOutput = (isJson: boolean, summary: Summary.Summary): Output =>
  isJson ? jsonOutput(summary) : displayOutput(summary)
