/**
 * Journals of turns in one SQLite file: embedded, no server. What is new is stored, one row per step; a large value
 * stands once, under its digest. A turn has one owner at a time, over processes; anybody may answer it or cancel it.
 */
import { createHash } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import {
  JournalUnavailable,
  TurnCancelled,
  TurnOwned,
  TurnStuck,
  type JournalFailure
} from "../../domain/agent/JournalError.ts"
import { turnTaken } from "../../domain/agent/turnTaken.ts"
import { JournalStore, type JournalStoreShape, type StepRow, type StreamRow } from "../../services/JournalStore.ts"
import { tryLock, type HeldLock } from "./fileLock.ts"
import { guidances } from "./journalGuidance.ts"
import { numberOf, ownName, standingOf, summaryOf, textOf, valueText } from "./journalRows.ts"
import { ownedJournal, type TurnTable } from "./ownedJournal.ts"
import { openMemory, openSqlite, reasonOf, type Row, type SqliteFile } from "./sqliteFile.ts"

/** The form of the file; a later release reads every earlier one. */
const formatVersion = 1

const tables = `
create table if not exists format (version integer primary key) without rowid;
insert or ignore into format values (${formatVersion});
create table if not exists turn (
  turn text primary key, status text not null, created_at integer not null, changed_at integer not null,
  holder text, waits_for text, restarts integer not null default 0, facts integer not null default 0
) without rowid;
create table if not exists step (
  turn text not null, key text not null, state text not null, value text, blob text, at integer not null,
  ordinal integer not null, primary key (turn, key)
) without rowid;
create table if not exists stream (turn text not null, ordinal integer not null, key text not null, text text,
  primary key (turn, ordinal)) without rowid;
create table if not exists answer (turn text not null, key text not null, value text not null, at integer not null,
  primary key (turn, key)) without rowid;
create table if not exists blob (digest text primary key, value text not null) without rowid;
`

/** Values longer than this stand under their digest: the same text is stored once, whoever brings it. Characters. */
const blobLength = 2_000
/** Under this key stands the wish that the turn ends. */
const cancelKey = "\u0000cancel"

export interface JournalOptions {
  /** Made where there is none, readable for its owner only. */
  readonly path: string
}

const unavailable = (turn: string, key: string, cause: unknown): JournalUnavailable =>
  new JournalUnavailable({ turn, key, reason: reasonOf(cause), guidance: guidances.store })

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex")

/** The lock of a turn beside its file; the turn's name may hold anything. */
const lockPathOf = (path: string, turn: string): string => `${path}-own-${digestOf(turn).slice(0, 16)}`

/** Every statement about the steps of one file. Synchronous; throws what SQLite throws. */
const makeTable = (file: SqliteFile) => {
  const readValue = (row: Row | undefined): unknown => {
    const inline = textOf(row, "value")
    const digest = textOf(row, "blob")
    const [blob] = digest === null ? [] : file.all("select value from blob where digest = ?", digest)
    const text = inline ?? textOf(blob, "value")
    return text === null ? null : JSON.parse(text)
  }
  const write = (turn: string, ordinal: number, { key, state, value, at }: StepRow): void => {
    const text = valueText(state, value)
    // What is replaced again soon would leave its old values behind under their digests.
    const digest = state === "done" && text !== null && text.length > blobLength ? digestOf(text) : null
    const put = (): number =>
      file.run(
        `insert into step values (?, ?, ?, ?, ?, ?, ?) on conflict (turn, key) do update
         set state = excluded.state, value = excluded.value, blob = excluded.blob, at = excluded.at`,
        turn,
        key,
        state,
        digest === null ? text : null,
        digest,
        at,
        ordinal
      )
    if (digest === null || text === null) put()
    else
      file.together(() => {
        file.run("insert or ignore into blob values (?, ?)", digest, text)
        put()
      })
  }
  return {
    write,
    rows: (turn: string): ReadonlyArray<StepRow> =>
      file.all("select * from step where turn = ? order by ordinal", turn).map((row) => ({
        key: textOf(row, "key") ?? "",
        state: row["state"] === "done" ? "done" : "begun",
        value: readValue(row),
        at: numberOf(row, "at")
      })),
    pieces: (turn: string): ReadonlyArray<StreamRow> =>
      file
        .all("select key, text from stream where turn = ? order by ordinal", turn)
        .map((row) => ({ key: textOf(row, "key") ?? "", text: textOf(row, "text") })),
    answerOf: (turn: string, key: string): string | null =>
      textOf(file.all("select value from answer where turn = ? and key = ?", turn, key)[0], "value")
  }
}

type Table = ReturnType<typeof makeTable>

/** Asks the file; what it throws is told with the step it was for. */
const asked = <A>(turn: string, key: string, body: () => A): Effect.Effect<A, JournalUnavailable> =>
  Effect.suspend(() => {
    const done = Result.try(body)
    return Result.isSuccess(done) ? Effect.succeed(done.success) : Effect.fail(unavailable(turn, key, done.failure))
  })

/** Nobody else writes the steps and pieces of an owned turn: they are counted here. */
const ownedTable = (file: SqliteFile, table: Table, turn: string): TurnTable => {
  const last = (name: "step" | "stream"): number =>
    numberOf(file.all(`select max(ordinal) as last from ${name} where turn = ?`, turn)[0], "last")
  let steps = last("step")
  let pieces = last("stream")
  return {
    writeStep: (row) =>
      asked(turn, row.key, () => {
        steps += 1
        table.write(turn, steps, row)
      }),
    writePiece: ({ key, text }) =>
      asked(turn, key, () => {
        pieces += 1
        file.run("insert into stream values (?, ?, ?, ?)", turn, pieces, key, text)
      }),
    forgetStream: (key) => asked(turn, key, () => file.run("delete from stream where turn = ? and key = ?", turn, key)),
    answerOf: (key) => asked(turn, key, () => table.answerOf(turn, key)),
    noteWait: (key) => asked(turn, key, () => file.run("update turn set waits_for = ? where turn = ?", key, turn))
  }
}

/** Notes that the turn is taken up; refuses one that is over, or that never gets any further. */
const takeUp = (
  file: SqliteFile,
  turn: string,
  at: number
): TurnStuck | TurnCancelled | { readonly restarted: boolean } => {
  return file.together(() => {
    file.run(
      "insert or ignore into turn (turn, status, created_at, changed_at) values (?, 'running', ?, ?)",
      turn,
      at,
      at
    )
    const [row] = file.all("select * from turn where turn = ?", turn)
    if (row?.["status"] === "cancelled") return new TurnCancelled({ turn, key: "", guidance: guidances.cancelled })
    const [counted] = file.all(
      `select (select count(*) from step where turn = ?1 and state = 'done')
            + (select count(*) from answer where turn = ?1)
            + (select coalesce(sum(json_extract(value, '$.facts')), 0) from step
               where turn = ?1 and state = 'begun' and value is not null) as facts`,
      turn
    )
    const facts = numberOf(counted, "facts")
    const { restarted, restarts, isStuck } = turnTaken(standingOf(row), facts)
    file.run(
      "update turn set status = 'running', holder = ?, restarts = ?, facts = ?, changed_at = ?, waits_for = null where turn = ?",
      ownName(),
      restarts,
      facts,
      at,
      turn
    )
    return isStuck ? new TurnStuck({ turn, key: "", restarts, guidance: guidances.stuck }) : { restarted }
  })
}

const makeStore = (file: SqliteFile, lockOf: (turn: string) => HeldLock | null): JournalStoreShape => {
  const table = makeTable(file)
  const attempt = <A>(turn: string, body: () => A): Effect.Effect<A, JournalUnavailable> => asked(turn, "", body)
  const refused = (turn: string): Effect.Effect<never, JournalFailure> =>
    Effect.flatMap(
      attempt(turn, () => textOf(file.all("select holder from turn where turn = ?", turn)[0], "holder")),
      (holder) =>
        Effect.fail(new TurnOwned({ turn, key: "", holder: holder ?? "another process", guidance: guidances.owned }))
    )

  const own: JournalStoreShape["own"] = (turn) =>
    Effect.gen(function* () {
      const lock = yield* Effect.acquireRelease(
        attempt(turn, () => lockOf(turn)),
        (held) =>
          Effect.sync(() => {
            if (held === null) return
            // A process that was killed leaves its name: the next one counts a restart.
            Result.try(() => file.run("update turn set holder = null where turn = ?", turn))
            held.release()
          })
      )
      if (lock === null) return yield* refused(turn)
      const at = yield* Clock.currentTimeMillis
      const taken = yield* attempt(turn, () => takeUp(file, turn, at))
      if ("_tag" in taken) return yield* taken
      const { restarted } = taken
      return yield* attempt(turn, () => {
        const known = { turn, restarted, steps: table.rows(turn), pieces: table.pieces(turn) }
        return ownedJournal(known, ownedTable(file, table, turn))
      })
    })

  const answer = (turn: string, key: string, value: string): Effect.Effect<boolean, JournalUnavailable> =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      attempt(turn, () => file.run("insert or ignore into answer values (?, ?, ?, ?)", turn, key, value, at) > 0)
    )

  return {
    own,
    setStatus: (turn, status) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) =>
        Effect.asVoid(
          attempt(turn, () => file.run("update turn set status = ?, changed_at = ? where turn = ?", status, at, turn))
        )
      ),
    list: attempt("", () =>
      file
        .all(
          `select turn.*, (select count(*) from step where step.turn = turn.turn and state = 'done') as steps
           from turn order by created_at, turn`
        )
        .map(summaryOf)
    ),
    steps: (turn) => attempt(turn, () => table.rows(turn)),
    stream: (turn) => attempt(turn, () => table.pieces(turn)),
    answer,
    cancel: (turn) => Effect.asVoid(answer(turn, cancelKey, "")),
    isCancelled: (turn) => attempt(turn, () => table.answerOf(turn, cancelKey) !== null),
    fork: (turn, into, from) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => attempt(turn, () => fork(file, turn, into, from, at))),
    // Who has the lock runs the turn, whatever name a killed process has left.
    forget: (turn) =>
      Effect.flatMap(
        attempt(turn, () => {
          const lock = lockOf(turn)
          if (lock === null) return false
          try {
            forget(file, turn)
          } finally {
            lock.release()
          }
          return true
        }),
        (isForgotten) => (isForgotten ? Effect.void : refused(turn))
      )
  }
}

/** Copies rows, not values: what is large stands under its digest already. */
const fork = (file: SqliteFile, turn: string, into: string, from: string | null, at: number): void =>
  file.together(() => {
    file.run("insert into turn (turn, status, created_at, changed_at) values (?, 'running', ?, ?)", into, at, at)
    file.run(
      `insert into step select ?1, key, state, value, blob, at, ordinal from step
       where turn = ?2 and state = 'done'
       and ordinal < coalesce((select ordinal from step where turn = ?2 and key = ?3), 9e15)`,
      into,
      turn,
      from
    )
    // What a person has said to a call that is kept stays said.
    file.run(
      `insert into answer select ?1, key, value, at from answer
       where turn = ?2 and key <> ?3 and at < coalesce((select at from step where turn = ?2 and key = ?4), 9e15)`,
      into,
      turn,
      cancelKey,
      from
    )
  })

const forget = (file: SqliteFile, turn: string): void => {
  file.together(() => {
    for (const name of ["step", "stream", "answer", "turn"]) file.run(`delete from ${name} where turn = ?`, turn)
    file.run("delete from blob where digest not in (select blob from step where blob is not null)")
  })
  // Deleted pages are overwritten in the file; the log before it still has them until it is cut.
  const [cut] = file.all("PRAGMA wal_checkpoint(TRUNCATE)")
  if (numberOf(cut, "busy") !== 0)
    throw new Error("somebody reads the file: its log still has the text, forget the turn again")
}

/** The store over one file; it is closed with the scope. */
export const make = (options: JournalOptions) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.suspend(() => {
        const opened = Result.try(() => openSqlite(options.path, tables))
        return Result.isSuccess(opened)
          ? Effect.succeed(opened.success)
          : Effect.fail(unavailable("", "", opened.failure))
      }),
      (file) => Effect.sync(() => file.close())
    ),
    (file) => makeStore(file, (turn) => tryLock(lockPathOf(file.path, turn)))
  )

/** The same without a file: for tests, and for turns that only have to outlive a failure of theirs. */
export const makeMemory = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => openMemory(tables)),
    (file) => Effect.sync(() => file.close())
  ),
  (file) => {
    const held = new Set<string>()
    return makeStore(file, (turn) => {
      if (held.has(turn)) return null
      held.add(turn)
      return { release: () => void held.delete(turn) }
    })
  }
)

export const layer = (options: JournalOptions): Layer.Layer<JournalStore, JournalUnavailable> =>
  Layer.effect(
    JournalStore,
    Effect.map(make(options), (store) => JournalStore.of(store))
  )
