/**
 * The journal of the one owner of a turn, over whatever keeps its rows. Nobody else writes its steps or pieces: they are
 * read once, when the turn is taken up, and after that only written.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { JournalMismatch, StepInDoubt, TurnParked, type JournalFailure } from "../../domain/agent/JournalError.ts"
import type { JournalShape, StepOptions } from "../../services/Journal.ts"
import type { StepRow, StreamRow } from "../../services/JournalStore.ts"
import { guidances } from "./journalGuidance.ts"
import { toldIn } from "./journalRows.ts"

/** What the owner asks of its store: one statement each, and no rule. */
export interface TurnTable {
  readonly writeStep: (row: StepRow) => Effect.Effect<void, JournalFailure>
  readonly writePiece: (piece: StreamRow) => Effect.Effect<void, JournalFailure>
  readonly forgetStream: (key: string) => Effect.Effect<void, JournalFailure>
  readonly answerOf: (key: string) => Effect.Effect<string | null, JournalFailure>
  /** Notes that the turn waits for the answer of this key. */
  readonly noteWait: (key: string) => Effect.Effect<void, JournalFailure>
}

export interface OwnedTurn {
  readonly turn: string
  readonly restarted: boolean
  /** What stands there when it is taken up. */
  readonly steps: ReadonlyArray<StepRow>
  readonly pieces: ReadonlyArray<StreamRow>
}

/** A turn and what its owner knows of it. */
interface Owned {
  readonly turn: string
  readonly table: TurnTable
  readonly known: Map<string, StepRow>
  /** What is kept of streams that have not ended. */
  readonly told: Map<string, string>
}

const note = (
  { table, known, told }: Owned,
  key: string,
  state: StepRow["state"],
  value: unknown
): Effect.Effect<void, JournalFailure> =>
  Effect.gen(function* () {
    const row: StepRow = { key, state, value, at: yield* Clock.currentTimeMillis }
    yield* table.writeStep(row)
    known.set(key, row)
    // The pieces of a stream are in its reply now.
    if (state === "done" && told.delete(key)) yield* table.forgetStream(key)
  })

const readKept = <A>(
  turn: string,
  key: string,
  options: StepOptions<A>,
  value: unknown
): Effect.Effect<A, JournalMismatch> => {
  const decoded = Schema.decodeUnknownResult(options.success)(value)
  if (Result.isSuccess(decoded)) return Effect.succeed(decoded.success)
  const where = /at (\[.*\])/.exec(decoded.failure.message)?.[1] ?? ""
  const reason = "is kept in a form that this version does not read"
  return Effect.fail(new JournalMismatch({ turn, key, field: `${key}${where}`, reason, guidance: guidances.mismatch }))
}

const runStep = <A, E, R>(
  owned: Owned,
  key: string,
  options: StepOptions<A>,
  body: Effect.Effect<A, E, R>
): Effect.Effect<A, E | JournalFailure, R> => {
  const begin = options.repeat === "never" ? note(owned, key, "begun", null) : Effect.void
  // From its end to the row that keeps it nothing can come between.
  return Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(begin, () =>
      Effect.flatMap(restore(body), (value) =>
        Effect.as(note(owned, key, "done", Schema.encodeSync(options.success)(value)), value)
      )
    )
  )
}

/** A step that is done is read, one that began and may not be repeated is in doubt, any other runs. */
const step = <A, E, R>(
  owned: Owned,
  key: string,
  options: StepOptions<A>,
  body: Effect.Effect<A, E, R>
): Effect.Effect<A, E | JournalFailure, R> =>
  Effect.suspend((): Effect.Effect<A, E | JournalFailure, R> => {
    const { turn } = owned
    const row = owned.known.get(key)
    if (row?.state === "done") return readKept(turn, key, options, row.value)
    if (row?.state === "begun" && options.repeat === "never")
      return Effect.fail(new StepInDoubt({ turn, key, guidance: guidances.doubt }))
    return runStep(owned, key, options, body)
  })

const sleepUntil = (owned: Owned, key: string, epochMillis: number): Effect.Effect<void, JournalFailure> =>
  Effect.gen(function* () {
    const row = owned.known.get(key)
    const until = typeof row?.value === "number" ? row.value : epochMillis
    if (row === undefined) yield* note(owned, key, "done", until)
    yield* Effect.sleep(Math.max(0, until - (yield* Clock.currentTimeMillis)))
  })

const tell = ({ table, told }: Owned, key: string, text: string | null): Effect.Effect<void, JournalFailure> =>
  Effect.gen(function* () {
    if (text === null) yield* table.forgetStream(key)
    told.set(key, text === null ? "" : (told.get(key) ?? "") + text)
    yield* table.writePiece({ key, text })
  })

/** A person's answer; without one the turn is put down, with the question it waits for. */
const wait = ({ turn, table }: Owned, key: string): Effect.Effect<string, JournalFailure> =>
  Effect.gen(function* () {
    const answer = yield* table.answerOf(key)
    if (answer !== null) return answer
    yield* table.noteWait(key)
    return yield* new TurnParked({ turn, key, guidance: guidances.parked })
  })

export const ownedJournal = ({ turn, restarted, steps, pieces }: OwnedTurn, table: TurnTable): JournalShape => {
  const owned: Owned = { turn, table, known: new Map(steps.map((row) => [row.key, row])), told: toldIn(pieces) }
  return {
    turn,
    restarted,
    open: (key, value) => note(owned, key, "begun", value),
    opened: (key) => {
      const row = owned.known.get(key)
      return row?.state === "begun" ? row.value : null
    },
    step: (key, options, body) => step(owned, key, options, body),
    sleepUntil: (key, epochMillis) => sleepUntil(owned, key, epochMillis),
    tell: (key, text) => tell(owned, key, text),
    told: (key) => owned.told.get(key) ?? "",
    wait: (key) => wait(owned, key)
  }
}
