/** What `holdfast turns` does, over the store of a file or of a database. */
import { existsSync } from "node:fs"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { JournalFailure } from "../../../domain/agent/JournalError.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import type { JournalStoreShape, StepRow, TurnSummary } from "../../../services/JournalStore.ts"
import { loadJournal, withoutSqlite } from "../journalFile.ts"
import { ownModule } from "../ownModule.ts"
import { databaseOf } from "./database.ts"
import { tail } from "./tail.ts"
import { stepText } from "./trailText.ts"

export interface TurnsInput {
  readonly action: "list" | "show" | "tail" | "export" | "approve" | "deny" | "cancel" | "fork" | "forget" | "start"
  readonly file: string
  /** PostgreSQL in the place of the file; null = the file. */
  readonly database: string | null
  readonly prompt: string | null
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
    case "start":
      return Effect.void
  }
}

/** Where turns are kept, and how an answer gets to whoever is to go on with one. */
interface Place {
  readonly store: JournalStoreShape
  readonly name: string
}

const inFile = (file: string) =>
  Effect.gen(function* () {
    const JournalSqlite = yield* Effect.promise(loadJournal)
    if (JournalSqlite === null) return yield* bad("turns", `cannot be read: ${withoutSqlite}`)
    return { store: yield* JournalSqlite.make({ path: file }), name: file }
  })

/** An answer has to wake the runner: the store of a client of the cluster does both. */
const inDatabase = (database: string) =>
  Effect.gen(function* () {
    const url = yield* databaseOf(database, process.env)
    const cluster = yield* Effect.promise(() => ownModule("holdfast/cluster"))
    const away = bad("--database", "cannot be reached, or refuses us")
    // The engine takes a database that is not there for a defect.
    const turns = yield* cluster.client({ database: Redacted.value(url) }).pipe(
      Effect.mapError(() => away),
      Effect.catchDefect(() => Effect.fail(away))
    )
    return { store: { ...turns.store, answer: turns.answer }, name: "the database", start: turns.start }
  })

const start = (input: TurnsInput) =>
  Effect.gen(function* () {
    const { database, id, prompt } = input
    if (database === null)
      return yield* bad("--database", "is missing: the turns of a file are started by their program")
    if (id === null) return yield* bad("ID", "names the turn")
    if (prompt === null) return yield* bad("--prompt", "is missing: it says what the turn is asked")
    const turns = yield* inDatabase(database)
    yield* turns.start({ id, prompt })
    yield* Console.log(`${id} is under way; holdfast turns tail ${id} follows it`)
  })

const atPlace = (input: TurnsInput, { store, name }: Place) =>
  Effect.gen(function* () {
    const all = yield* store.list
    if (input.action === "list") return yield* Effect.forEach(all, (one) => Console.log(lineOf(one)), { discard: true })
    const turn = all.find((one) => one.turn === input.id)
    if (turn === undefined)
      return yield* bad("ID", input.id === null ? "names the turn" : `(${input.id}) is no turn of ${name}`)
    if (input.action === "show") yield* Console.log(lineOf(turn))
    return yield* act(store, input, turn)
  })

export const perform = (input: TurnsInput): Effect.Effect<void, JournalFailure | ConfigurationError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { action, database, file } = input
      if (action === "start") return yield* start(input)
      if (database !== null) return yield* atPlace(input, yield* inDatabase(database))
      if (existsSync(file)) return yield* atPlace(input, yield* inFile(file))
      return yield* action === "list"
        ? Console.log(`No turns are kept in ${file} yet; --file names another journal.`)
        : bad("--file", `(${file}) does not exist`)
    })
  )
