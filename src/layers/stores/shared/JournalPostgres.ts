/**
 * Journals of turns in PostgreSQL, for owners on any number of machines. A turn has one owner at a time: its hold ends a few
 * seconds after the process that has it, and what an owner writes that has lost the turn is refused.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Reactivity from "effect/reactivity/Reactivity"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import {
  JournalUnavailable,
  TurnCancelled,
  TurnOwned,
  TurnStuck,
  type JournalFailure
} from "../../../domain/agent/JournalError.ts"
import { turnTaken } from "../../../domain/agent/turnTaken.ts"
import type { JournalStoreShape, StepRow } from "../../../services/JournalStore.ts"
import { guidances } from "../journalGuidance.ts"
import { numberOf, ownName, standingOf, summaryOf, textOf, valueText } from "../journalRows.ts"
import { ownedJournal, type TurnTable } from "../ownedJournal.ts"
import { serverNow, statements, turnTables } from "./turnTables.ts"

export interface JournalPostgresOptions {
  /** `postgres://`, with user and password. Tables named `holdfast_` are made there when they are missing. */
  readonly url: Redacted.Redacted
  /** Default 8. */
  readonly maxConnections?: number
}

/** A hold ends so long after its owner was last heard of. */
const holdMillis = 3_000
const renewMillis = 1_000
/** A statement that is not answered by then has failed. */
const answerMillis = 10_000
/** Under this key stands the wish that the turn ends. */
const cancelKey = "!cancel"

type Row = Readonly<Record<string, unknown>>
type Ask = (text: string, values?: ReadonlyArray<unknown>) => Effect.Effect<ReadonlyArray<Row>, JournalUnavailable>

const unavailable = (turn: string, reason: string): JournalUnavailable =>
  new JournalUnavailable({ turn, key: "", reason, guidance: guidances.store })

/** A code, never the server's words: they may quote a value. */
const reasonOf = (cause: unknown): string =>
  typeof cause === "object" && cause !== null && "_tag" in cause
    ? `the database says ${String(cause._tag)}`
    : "it failed"

const makeAsk =
  (sql: PgClient.PgClient): ((turn: string) => Ask) =>
  (turn) =>
  (text, values = []) =>
    sql.unsafe<Row>(text, [...values]).pipe(
      Effect.mapError((error) => unavailable(turn, reasonOf(error.reason))),
      Effect.timeoutOrElse({
        duration: answerMillis,
        orElse: () => Effect.fail(unavailable(turn, "the database does not answer"))
      })
    )

const rowOf = (row: Row): StepRow => {
  const value = textOf(row, "value")
  return {
    key: textOf(row, "key") ?? "",
    state: row["state"] === "done" ? "done" : "begun",
    value: value === null ? null : JSON.parse(value),
    at: numberOf(row, "at")
  }
}

const stepsOf = (ask: Ask, turn: string) =>
  Effect.map(ask("select * from holdfast_step where turn = $1 order by ordinal", [turn]), (rows) => rows.map(rowOf))

const streamOf = (ask: Ask, turn: string) =>
  Effect.map(ask("select key, text from holdfast_stream where turn = $1 order by ordinal", [turn]), (rows) =>
    rows.map((row) => {
      const text = textOf(row, "text")
      return { key: textOf(row, "key") ?? "", text: text === null ? null : String(JSON.parse(text)) }
    })
  )

const answerOf = (ask: Ask, turn: string, key: string) =>
  Effect.map(ask("select value from holdfast_answer where turn = $1 and key = $2", [turn, key]), ([row]) =>
    textOf(row, "value")
  )

const ownedBy = (turn: string, row: Row | undefined): TurnOwned =>
  new TurnOwned({ turn, key: "", holder: textOf(row, "holder") ?? "another process", guidance: guidances.owned })

interface Held {
  readonly turn: string
  readonly epoch: number
  readonly restarted: boolean
}

/** Every statement names the epoch of the hold: it writes only while the turn is ours. */
const heldTable = (ask: Ask, { turn, epoch }: Held): TurnTable => {
  const lost = new TurnOwned({ turn, key: "", holder: "another process", guidance: guidances.owned })
  const write = (text: string, ...values: ReadonlyArray<unknown>): Effect.Effect<void, JournalFailure> =>
    Effect.flatMap(ask(text, [turn, epoch, ...values]), (rows) => (rows.length === 0 ? Effect.fail(lost) : Effect.void))
  return {
    writeStep: ({ key, state, value }) => write(statements.note, key, state, valueText(state, value)),
    writePiece: ({ key, text }) => write(statements.tell, key, text === null ? null : JSON.stringify(text)),
    forgetStream: (key) => write(statements.forgetStream, key),
    answerOf: (key) => answerOf(ask, turn, key),
    noteWait: (key) => write(statements.waits, key)
  }
}

/** Takes the turn up: refused while another owner is heard of, when it is over, or when it never gets any further. */
const takeUp = (sql: PgClient.PgClient, ask: Ask, turn: string): Effect.Effect<Held, JournalFailure> =>
  sql
    .withTransaction(
      Effect.gen(function* () {
        yield* ask(
          `insert into holdfast_turn (turn, status, created_at, changed_at, epoch)
           values ($1, 'running', ${serverNow}, ${serverNow}, 0) on conflict (turn) do nothing`,
          [turn]
        )
        const [row] = yield* ask(
          `select *, coalesce(held_until > ${serverNow}, false) as is_held from holdfast_turn where turn = $1 for update`,
          [turn]
        )
        if (row?.["status"] === "cancelled")
          return yield* new TurnCancelled({ turn, key: "", guidance: guidances.cancelled })
        if (row?.["is_held"] === true) return yield* ownedBy(turn, row)
        const [counted] = yield* ask(statements.facts, [turn])
        const facts = numberOf(counted, "facts")
        const { restarted, restarts, isStuck } = turnTaken(standingOf(row), facts)
        const [taken] = yield* ask(statements.take, [turn, ownName(), holdMillis, restarts, facts])
        return { held: { turn, epoch: numberOf(taken, "epoch"), restarted }, restarts, isStuck }
      })
    )
    .pipe(
      Effect.catchTag("SqlError", (error) => Effect.fail(unavailable(turn, reasonOf(error.reason)))),
      Effect.flatMap(({ held, restarts, isStuck }) =>
        isStuck
          ? Effect.fail(new TurnStuck({ turn, key: "", restarts, guidance: guidances.stuck }))
          : Effect.succeed(held)
      )
    )

/** Holds the turn as long as the scope is open. Renewing that fails is no end: the next write tells whether it is lost. */
const holdOn = (ask: Ask, { turn, epoch }: Held): Effect.Effect<void, never, Scope.Scope> =>
  Effect.asVoid(
    Effect.forkScoped(
      Effect.forever(
        Effect.andThen(Effect.sleep(renewMillis), Effect.ignore(ask(statements.renew, [turn, epoch, holdMillis])))
      )
    )
  )

const makeStore = (sql: PgClient.PgClient): JournalStoreShape => {
  const asking = makeAsk(sql)
  const own: JournalStoreShape["own"] = (turn) =>
    Effect.gen(function* () {
      const ask = asking(turn)
      const held = yield* Effect.acquireRelease(takeUp(sql, ask, turn), (taken) =>
        // A process that was killed leaves its name: the next one counts a restart.
        Effect.ignore(ask(statements.release, [turn, taken.epoch]))
      )
      yield* holdOn(ask, held)
      const { restarted } = held
      const known = { turn, restarted, steps: yield* stepsOf(ask, turn), pieces: yield* streamOf(ask, turn) }
      return ownedJournal(known, heldTable(ask, held))
    })
  const answer: JournalStoreShape["answer"] = (turn, key, value) =>
    Effect.map(
      asking(turn)(
        `insert into holdfast_answer values ($1, $2, $3, ${serverNow}) on conflict (turn, key) do nothing returning 1`,
        [turn, key, value]
      ),
      (rows) => rows.length > 0
    )
  return {
    own,
    answer,
    setStatus: (turn, status) =>
      Effect.asVoid(
        asking(turn)(`update holdfast_turn set status = $2, changed_at = ${serverNow} where turn = $1`, [turn, status])
      ),
    list: Effect.map(
      asking("")(
        `select t.*, coalesce(t.held_until > ${serverNow}, false) as is_held,
           (select count(*) from holdfast_step s where s.turn = t.turn and s.state = 'done') as steps
         from holdfast_turn t order by created_at, turn`
      ),
      (rows) =>
        // A name that nobody has renewed is nobody's.
        rows.map((row) => ({ ...summaryOf(row), holder: row["is_held"] === true ? textOf(row, "holder") : null }))
    ),
    steps: (turn) => stepsOf(asking(turn), turn),
    stream: (turn) => streamOf(asking(turn), turn),
    cancel: (turn) => Effect.asVoid(answer(turn, cancelKey, "")),
    isCancelled: (turn) => Effect.map(answerOf(asking(turn), turn, cancelKey), (wish) => wish !== null),
    fork: (turn, into, from) => fork(sql, asking(turn), turn, into, from),
    forget: (turn) => forget(sql, asking(turn), turn)
  }
}

const together = (
  sql: PgClient.PgClient,
  turn: string,
  body: Effect.Effect<void, JournalFailure>
): Effect.Effect<void, JournalFailure> =>
  sql
    .withTransaction(body)
    .pipe(Effect.catchTag("SqlError", (error) => Effect.fail(unavailable(turn, reasonOf(error.reason)))))

const fork = (sql: PgClient.PgClient, ask: Ask, turn: string, into: string, from: string | null) =>
  together(
    sql,
    turn,
    Effect.gen(function* () {
      yield* ask(
        `insert into holdfast_turn (turn, status, created_at, changed_at, epoch)
         values ($1, 'running', ${serverNow}, ${serverNow}, 0)`,
        [into]
      )
      yield* ask(
        `insert into holdfast_step (turn, key, state, value, at)
         select $2, key, state, value, at from holdfast_step where turn = $1 and state = 'done' and ordinal <
           coalesce((select ordinal from holdfast_step where turn = $1 and key = $3), 9223372036854775807) order by ordinal`,
        [turn, into, from]
      )
    })
  )

const forget = (sql: PgClient.PgClient, ask: Ask, turn: string) =>
  together(
    sql,
    turn,
    Effect.gen(function* () {
      const [row] = yield* ask(
        `select holder, coalesce(held_until > ${serverNow}, false) as is_held from holdfast_turn where turn = $1 for update`,
        [turn]
      )
      if (row?.["is_held"] === true) return yield* ownedBy(turn, row)
      for (const name of ["step", "stream", "answer", "turn"])
        yield* ask(`delete from holdfast_${name} where turn = $1`, [turn])
    })
  )

/** Over a client that is there already: the tables are made when they are missing. */
export const makeOver = (sql: PgClient.PgClient): Effect.Effect<JournalStoreShape, JournalUnavailable> =>
  sql
    .withTransaction(
      Effect.gen(function* () {
        // Two processes that make the tables at once would get into each other's way: one waits.
        yield* sql`select pg_advisory_xact_lock(${7_403_113})`
        for (const statement of turnTables) yield* sql.unsafe(statement)
      })
    )
    .pipe(
      Effect.mapError((error) => unavailable("", reasonOf(error.reason))),
      Effect.as(makeStore(sql))
    )

/** The store; its connections are closed with the scope. */
export const make = (
  options: JournalPostgresOptions
): Effect.Effect<JournalStoreShape, JournalUnavailable | ConfigurationError, Scope.Scope> =>
  Effect.gen(function* () {
    const { url, maxConnections = 8 } = options
    if (!/^postgres(ql)?:\/\/./.test(Redacted.value(url)) || !URL.canParse(Redacted.value(url)))
      return yield* new ConfigurationError({ field: "url", reason: "must be an address postgres://HOST:PORT/DATABASE" })
    const sql = yield* PgClient.make({
      url,
      maxConnections,
      connectTimeout: "5 seconds",
      applicationName: "holdfast"
    }).pipe(Effect.mapError((error) => unavailable("", reasonOf(error.reason))))
    return yield* makeOver(sql)
  }).pipe(Effect.provide(Reactivity.layer))
