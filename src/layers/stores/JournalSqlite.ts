/**
 * Journals of turns in one SQLite file: embedded, no server. What is new is stored, one row per step; a large value
 * stands once, under its digest. A turn has one owner at a time, over processes; anybody may answer it or cancel it.
 */
import { createHash } from "node:crypto"
import { hostname } from "node:os"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import {
  JournalMismatch,
  JournalUnavailable,
  StepInDoubt,
  TurnCancelled,
  TurnOwned,
  TurnParked,
  TurnStuck,
  type JournalFailure
} from "../../domain/agent/JournalError.ts"
import type { JournalShape, StepOptions } from "../../services/Journal.ts"
import {
  JournalStore,
  type JournalStoreShape,
  type StepRow,
  type TurnStatus,
  type TurnSummary
} from "../../services/JournalStore.ts"
import { guidances } from "./journalGuidance.ts"
import { tryLock, type HeldLock } from "./fileLock.ts"
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
/** Takes of one turn without a new fact between them, after which it is given up. */
const maxRestarts = 10
/** Under this key stands the wish that the turn ends. */
const cancelKey = "\u0000cancel"

export interface JournalOptions {
  /** Made where there is none, readable for its owner only. */
  readonly path: string
}

const unavailable = (turn: string, key: string, cause: unknown): JournalUnavailable =>
  new JournalUnavailable({ turn, key, reason: reasonOf(cause), guidance: guidances.store })

const textOf = (row: Row | undefined, column: string): string | null => {
  const value = row?.[column]
  return typeof value === "string" ? value : null
}
const numberOf = (row: Row | undefined, column: string): number => Number(row?.[column] ?? 0)

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex")

const isStatus = (text: string): text is TurnStatus =>
  ["running", "parked", "done", "failed", "cancelled"].includes(text)

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
    const text = state === "done" || value !== null ? JSON.stringify(value ?? null) : null
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
    answerOf: (turn: string, key: string): string | null =>
      textOf(file.all("select value from answer where turn = ? and key = ?", turn, key)[0], "value")
  }
}

type Table = ReturnType<typeof makeTable>

/** What the owner of a turn knows of it. Nobody else writes its steps or pieces: they are counted here. */
interface Owned {
  readonly file: SqliteFile
  readonly table: Table
  readonly turn: string
  readonly known: Map<string, StepRow>
  /** What is kept of streams that have not ended. */
  readonly told: Map<string, string>
  steps: number
  pieces: number
}

/** Everything known is read once; after that the file is only written. */
const ownedOf = (file: SqliteFile, table: Table, turn: string): Owned => {
  const last = (name: "step" | "stream"): number =>
    numberOf(file.all(`select max(ordinal) as last from ${name} where turn = ?`, turn)[0], "last")
  const told = new Map<string, string>()
  for (const row of file.all("select key, text from stream where turn = ? order by ordinal", turn)) {
    const key = textOf(row, "key") ?? ""
    told.set(key, row["text"] === null ? "" : (told.get(key) ?? "") + (textOf(row, "text") ?? ""))
  }
  const known = new Map(table.rows(turn).map((row) => [row.key, row]))
  return { file, table, turn, known, told, steps: last("step"), pieces: last("stream") }
}

/** Asks the file; what it throws is told with the step it was for. */
const asked = <A>(turn: string, key: string, body: () => A): Effect.Effect<A, JournalUnavailable> =>
  Effect.suspend(() => {
    const done = Result.try(body)
    return Result.isSuccess(done) ? Effect.succeed(done.success) : Effect.fail(unavailable(turn, key, done.failure))
  })

const forgetStream = ({ file, turn }: Owned, key: string): void => {
  file.run("delete from stream where turn = ? and key = ?", turn, key)
}

const note = (
  owned: Owned,
  key: string,
  state: StepRow["state"],
  value: unknown
): Effect.Effect<void, JournalUnavailable> =>
  Effect.flatMap(Clock.currentTimeMillis, (at) =>
    asked(owned.turn, key, () => {
      const row: StepRow = { key, state, value, at }
      owned.steps += 1
      owned.table.write(owned.turn, owned.steps, row)
      owned.known.set(key, row)
      // The pieces of a stream are in its reply now.
      if (state === "done" && owned.told.delete(key)) forgetStream(owned, key)
    })
  )

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

const sleepUntil = (owned: Owned, key: string, epochMillis: number): Effect.Effect<void, JournalUnavailable> =>
  Effect.gen(function* () {
    const row = owned.known.get(key)
    const until = typeof row?.value === "number" ? row.value : epochMillis
    if (row === undefined) yield* note(owned, key, "done", until)
    yield* Effect.sleep(Math.max(0, until - (yield* Clock.currentTimeMillis)))
  })

const tell = (owned: Owned, key: string, text: string | null): Effect.Effect<void, JournalUnavailable> =>
  asked(owned.turn, key, () => {
    if (text === null) forgetStream(owned, key)
    owned.told.set(key, text === null ? "" : (owned.told.get(key) ?? "") + text)
    owned.pieces += 1
    owned.file.run("insert into stream values (?, ?, ?, ?)", owned.turn, owned.pieces, key, text)
  })

/** A person's answer; without one the turn is put down, with the question it waits for. */
const wait = ({ file, table, turn }: Owned, key: string): Effect.Effect<string, JournalUnavailable | TurnParked> =>
  Effect.gen(function* () {
    const answer = yield* asked(turn, key, () => table.answerOf(turn, key))
    if (answer !== null) return answer
    yield* asked(turn, key, () => file.run("update turn set waits_for = ? where turn = ?", key, turn))
    return yield* new TurnParked({ turn, key, guidance: guidances.parked })
  })

/** What the owner of a turn reads and writes. */
const makeJournal = (file: SqliteFile, table: Table, turn: string, restarted: boolean): JournalShape => {
  const owned = ownedOf(file, table, turn)
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

/** Notes that the turn is taken up; refuses one that is over, or that never gets any further. */
const takeUp = (
  file: SqliteFile,
  turn: string,
  at: number
): TurnStuck | TurnCancelled | { readonly restarted: boolean } => {
  const holder = `process ${process.pid} on ${hostname()}`
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
    // A turn that was put down in order is no failure of the one before.
    const restarted = textOf(row, "holder") !== null
    const isNew = facts !== numberOf(row, "facts") || !restarted
    const restarts = isNew ? 0 : numberOf(row, "restarts") + 1
    file.run(
      "update turn set status = 'running', holder = ?, restarts = ?, facts = ?, changed_at = ?, waits_for = null where turn = ?",
      holder,
      restarts,
      facts,
      at,
      turn
    )
    return restarts >= maxRestarts
      ? new TurnStuck({ turn, key: "", restarts, guidance: guidances.stuck })
      : { restarted }
  })
}

const summaryOf = (row: Row): TurnSummary => {
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
      return yield* attempt(turn, () => makeJournal(file, table, turn, taken.restarted))
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
    stream: (turn) =>
      attempt(turn, () =>
        file
          .all("select key, text from stream where turn = ? order by ordinal", turn)
          .map((row) => ({ key: textOf(row, "key") ?? "", text: textOf(row, "text") }))
      ),
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
