/** Follows a turn from outside: what is kept of it, as it comes, with the text of the reply that is being written. */
import * as Effect from "effect/Effect"
import type { JournalFailure } from "../../../domain/agent/JournalError.ts"
import type { JournalStoreShape, StepRow, StreamRow, TurnSummary } from "../../../services/JournalStore.ts"
import { stepText } from "./trailText.ts"

/** Kept at least every second: looked at twice as often. */
const pollMillis = 500

const isOver = ({ status, holder }: TurnSummary): boolean => status !== "running" && holder === null

/** What was shown of the steps and of each stream. */
interface Shown {
  /** Steps by name, as they were shown. */
  readonly steps: Map<string, string>
  /** Characters of each stream, and whether they end in the middle of a line. */
  readonly streams: Map<string, string>
  isMidLine: boolean
}

export type Write = (text: string) => Effect.Effect<void>

const lineOf = (shown: Shown, write: Write, line: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    const start = shown.isMidLine ? "\n" : ""
    shown.isMidLine = false
    return write(`${start}${line}\n`)
  })

const showSteps = (shown: Shown, write: Write, rows: ReadonlyArray<StepRow>) =>
  Effect.forEach(
    rows,
    (row) => {
      const mark = `${row.state} ${row.at}`
      if (shown.steps.get(row.key) === mark) return Effect.void
      shown.steps.set(row.key, mark)
      return Effect.forEach(stepText(row), (line) => lineOf(shown, write, line), { discard: true })
    },
    { discard: true }
  )

const textsOf = (rows: ReadonlyArray<StreamRow>): ReadonlyMap<string, string> => {
  const texts = new Map<string, string>()
  for (const { key, text } of rows) texts.set(key, text === null ? "" : (texts.get(key) ?? "") + text)
  return texts
}

/** The same text goes on, or it was dropped and begins again. */
const showStreams = (shown: Shown, write: Write, rows: ReadonlyArray<StreamRow>) =>
  Effect.forEach(
    textsOf(rows),
    ([key, text]) =>
      Effect.gen(function* () {
        const before = shown.streams.get(key) ?? ""
        if (text === before) return
        shown.streams.set(key, text)
        if (!text.startsWith(before)) yield* lineOf(shown, write, "↺ the answer broke off; it begins again")
        const more = text.startsWith(before) ? text.slice(before.length) : text
        if (more === "") return
        yield* write(more)
        shown.isMidLine = !more.endsWith("\n")
      }),
    { discard: true }
  )

/** Ends when the turn has ended, waits for an answer, or is gone. */
export const tail = (store: JournalStoreShape, turn: string, write: Write): Effect.Effect<void, JournalFailure> =>
  Effect.gen(function* () {
    const shown: Shown = { steps: new Map(), streams: new Map(), isMidLine: false }
    while (true) {
      // How it stands is asked first: what was kept before it ended is shown then.
      const summary = (yield* store.list).find((one) => one.turn === turn)
      if (summary === undefined) return
      const streams = yield* store.stream(turn)
      yield* showSteps(shown, write, yield* store.steps(turn))
      yield* showStreams(shown, write, streams)
      if (isOver(summary)) {
        const waits = summary.waitsFor === null ? "" : `, waits for ${summary.waitsFor}`
        return yield* lineOf(shown, write, `${turn}  ${summary.status}${waits}`)
      }
      yield* Effect.sleep(pollMillis)
    }
  })
