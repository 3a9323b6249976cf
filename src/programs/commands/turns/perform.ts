/** What `holdfast turns` does, over the store of one file. */
import { existsSync } from "node:fs"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import type { JournalFailure } from "../../../domain/agent/JournalError.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import type { JournalStoreShape, StepRow, TurnSummary } from "../../../services/JournalStore.ts"
import { loadJournal, withoutSqlite } from "../journalFile.ts"

import { tail } from "./tail.ts"
import { stepText } from "./trailText.ts"

export interface TurnsInput {
  readonly action: "list" | "show" | "tail" | "export" | "approve" | "deny" | "cancel" | "fork" | "forget"
  readonly file: string
  readonly id: string | null
  readonly from: string | null
  readonly into: string | null
  readonly why: string | null
}

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

const lineOf = ({ turn, status, steps, waitsFor }: TurnSummary): string =>
  `${turn}  ${status}  ${steps} steps${waitsFor === null ? "" : `  waits for ${waitsFor}`}`

const answer = (store: JournalStoreShape, { turn, waitsFor }: TurnSummary, text: string) =>
  waitsFor === null
    ? Effect.fail(bad("ID", `${turn} waits for no answer`))
    : Effect.flatMap(store.answer(turn, waitsFor, text), (isFirst) =>
        Console.log(isFirst ? `${waitsFor}: ${text}` : `${waitsFor} was answered before; nothing changes`)
      )

const printSteps = (store: JournalStoreShape, turn: string, linesOf: (row: StepRow) => ReadonlyArray<string>) =>
  Effect.flatMap(store.steps(turn), (rows) =>
    Effect.forEach(rows.flatMap(linesOf), (line) => Console.log(line), { discard: true })
  )

/** Whoever runs it ends within a second; a turn that nobody runs has ended now. */
const cancel = (store: JournalStoreShape, { turn, status, holder }: TurnSummary) =>
  Effect.andThen(
    store.cancel(turn),
    holder === null && (status === "running" || status === "parked") ? store.setStatus(turn, "cancelled") : Effect.void
  )

const fork = (
  store: JournalStoreShape,
  turn: string,
  into: string,
  from: string | null
): Effect.Effect<void, JournalFailure | ConfigurationError> =>
  Effect.gen(function* () {
    if ((yield* store.list).some((one) => one.turn === into))
      return yield* bad("--into", `(${into}) is a turn already: give another name`)
    if (from !== null && !(yield* store.steps(turn)).some(({ key }) => key === from))
      return yield* bad("--from", `(${from}) is no step of ${turn}: holdfast turns show ${turn} lists them`)
    yield* store.fork(turn, into, from)
  })

const act = (
  store: JournalStoreShape,
  input: TurnsInput,
  turn: TurnSummary
): Effect.Effect<void, JournalFailure | ConfigurationError> => {
  switch (input.action) {
    case "approve":
      return answer(store, turn, "approved")
    case "deny":
      return answer(store, turn, input.why === null ? "denied" : `denied: ${input.why}`)
    case "cancel":
      return cancel(store, turn)
    case "forget":
      return store.forget(turn.turn)
    case "fork":
      return input.into === null
        ? Effect.fail(bad("--into", "names the new turn"))
        : fork(store, turn.turn, input.into, input.from)
    case "tail":
      return tail(store, turn.turn, (text) => Effect.sync(() => void process.stdout.write(text)))
    case "show":
      return printSteps(store, turn.turn, stepText)
    case "export":
      return printSteps(store, turn.turn, (row) => [JSON.stringify(row)])
    case "list":
      return Effect.void
  }
}

export const perform = (input: TurnsInput): Effect.Effect<void, JournalFailure | ConfigurationError> =>
  Effect.scoped(
    Effect.gen(function* () {
      if (!existsSync(input.file))
        return yield* input.action === "list"
          ? Console.log(`No turns are kept in ${input.file} yet; --file names another journal.`)
          : bad("--file", `(${input.file}) does not exist`)
      const JournalSqlite = yield* Effect.promise(loadJournal)
      if (JournalSqlite === null) return yield* bad("turns", `cannot be read: ${withoutSqlite}`)
      const store = yield* JournalSqlite.make({ path: input.file })
      const all = yield* store.list
      if (input.action === "list")
        return yield* Effect.forEach(all, (one) => Console.log(lineOf(one)), { discard: true })
      const turn = all.find((one) => one.turn === input.id)
      if (turn === undefined)
        return yield* bad("ID", input.id === null ? "names the turn" : `(${input.id}) is no turn of ${input.file}`)
      if (input.action === "show") yield* Console.log(lineOf(turn))
      return yield* act(store, input, turn)
    })
  )
