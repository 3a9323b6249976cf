/** A store for processes on any number of hosts, over PostgreSQL: each operation is one statement. */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Reactivity from "effect/reactivity/Reactivity"
import type { SqlError } from "effect/sql/SqlError"
import type { Account, Counts, Standing } from "../../../domain/budget/Account.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { SharedStore, type SharedStoreShape } from "../../../services/SharedStore.ts"
import { make as makeLink, StoreFault } from "./storeLink.ts"
import { schema } from "./storeTables.ts"

export interface StorePostgresOptions {
  /** `postgres://`, with user and password. Tables and functions named `holdfast_` are made there when they are missing. */
  readonly url: Redacted.Redacted | string
  /** Default 4. */
  readonly maxConnections?: number
}

const defaultConnections = 4
/** How often what is over is deleted. */
const sweepSpan = "5 minutes"

/** What PostgreSQL says, in its code: its messages may quote values. */
const faultOf = (error: SqlError): StoreFault => {
  const { cause } = error.reason
  const code = typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : error.reason._tag
  return new StoreFault(`says: ${code}`)
}

const Numbers = Schema.Tuple([Schema.Finite, Schema.Finite, Schema.Finite, Schema.Finite, Schema.Finite, Schema.Finite])
const Standings = Schema.Array(Numbers)
const Reserved = Schema.Struct({ admitted: Schema.Boolean, standings: Standings })
const Swapped = Schema.Struct({
  done: Schema.Boolean,
  at: Schema.Finite,
  current: Schema.Array(
    Schema.Struct({ key: Schema.String, version: Schema.Finite, value: Schema.NullOr(Schema.String) })
  )
})

const standingsOf = (all: typeof Standings.Type): ReadonlyArray<Standing> =>
  all.map(([requests, tokens, nanoUsd, reservedRequests, reservedTokens, reservedNano]) => ({
    spent: { requests, tokens, nanoUsd },
    reserved: { requests: reservedRequests, tokens: reservedTokens, nanoUsd: reservedNano }
  }))

const accountsText = (accounts: ReadonlyArray<Account>) =>
  accounts.map(({ name, untilMillis, limits }) => ({
    name,
    until: untilMillis,
    requests: limits.requests,
    tokens: limits.tokens,
    nano: limits.nanoUsd
  }))

const countsText = ({ requests, tokens, nanoUsd }: Counts) => [requests, tokens, nanoUsd] as const

/** One statement that answers with one value. */
const makeAsk =
  (sql: PgClient.PgClient) =>
  <S extends Schema.Codec<unknown, unknown>>(
    answer: S,
    call: string,
    values: ReadonlyArray<unknown>
  ): Effect.Effect<S["Type"], StoreFault> =>
    sql.unsafe<{ readonly answer: unknown }>(`select ${call} as answer`, [...values]).pipe(
      Effect.mapError(faultOf),
      Effect.flatMap(([row]) =>
        Effect.mapError(
          Schema.decodeUnknownEffect(answer)(row?.answer),
          () => new StoreFault("answers in another form")
        )
      )
    )

type Ask = ReturnType<typeof makeAsk>

/** Two processes that make the tables at once would get into each other's way: one waits. */
const makeTables = (sql: PgClient.PgClient): Effect.Effect<void, SqlError> =>
  sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`select pg_advisory_xact_lock(${7_403_112})`
      // The last of them: who has it has all. A process need not be allowed to make what is there.
      const [row] = yield* sql<{
        readonly made: boolean
      }>`select to_regprocedure('holdfast_sweep_1()') is not null as made`
      if (row?.made === true) return
      for (const statement of statementsOf(schema)) yield* sql.unsafe(statement)
    })
  )

/** Statements end with a semicolon at the end of a line that is outside a function's body. */
const statementsOf = (text: string): ReadonlyArray<string> =>
  text
    .split(/;\n(?=\s*(?:create (?:table|index|or replace)|$))/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== "")

const urlOf = ({ url }: StorePostgresOptions): string => (typeof url === "string" ? url : Redacted.value(url))

const connect = (options: StorePostgresOptions): Effect.Effect<Ask, StoreFault, Scope.Scope> =>
  Effect.gen(function* () {
    const { maxConnections = defaultConnections } = options
    const url = Redacted.make(urlOf(options))
    const sql = yield* PgClient.make({ url, maxConnections, connectTimeout: "1 second", applicationName: "holdfast" })
    yield* makeTables(sql)
    const ask = makeAsk(sql)
    const sweep = Effect.ignore(sql.unsafe("select holdfast_sweep_1()"))
    yield* Effect.forkScoped(Effect.repeat(sweep, Schedule.spaced(sweepSpan)))
    return ask
  }).pipe(Effect.provide(Reactivity.layer), Effect.mapError(faultOf))

const shapeOf = (options: StorePostgresOptions): Effect.Effect<SharedStoreShape, never, Scope.Scope> =>
  Effect.gen(function* () {
    const link = yield* makeLink<Ask>({
      // One is left for what may not wait.
      atOnce: Math.max(1, (options.maxConnections ?? defaultConnections) - 1),
      name: "postgres",
      connect: connect(options),
      ping: (ask) => ask(Schema.Unknown, "1", [])
    })
    return {
      name: "postgres",
      isAway: link.isAway,
      reserve: ({ id, accounts, worst, leaseMillis }) =>
        Effect.map(
          link.use((ask) =>
            ask(Reserved, "holdfast_reserve_1($1, $2::jsonb, $3, $4, $5, $6)", [
              id,
              JSON.stringify(accountsText(accounts)),
              ...countsText(worst),
              leaseMillis
            ])
          ),
          ({ admitted, standings }) => ({ isAdmitted: admitted, standings: standingsOf(standings) })
        ),
      settle: ({ id, accounts, spent, rememberMillis }) =>
        Effect.map(
          link.use((ask) =>
            ask(Standings, "holdfast_settle_1($1, $2::jsonb, $3, $4, $5, $6)", [
              id,
              JSON.stringify(accountsText(accounts)),
              ...countsText(spent),
              rememberMillis
            ])
          ),
          standingsOf
        ),
      renew: (reserves) =>
        link.use((ask) =>
          Effect.asVoid(
            ask(Schema.Unknown, "holdfast_renew_1($1::jsonb)::text", [
              JSON.stringify(
                reserves.map(({ id, worst, leaseMillis, accounts }) => ({
                  id,
                  requests: worst.requests,
                  tokens: worst.tokens,
                  nano: worst.nanoUsd,
                  lease: leaseMillis,
                  accounts: accountsText(accounts)
                }))
              )
            ])
          )
        ),
      standings: (accounts) =>
        Effect.map(
          link.use((ask) => ask(Standings, "holdfast_read_1($1::jsonb)", [JSON.stringify(accountsText(accounts))])),
          standingsOf
        ),
      swap: ({ known, writes, keepMillis }, patienceMillis) =>
        Effect.map(
          link.use(
            (ask) =>
              ask(Swapped, "holdfast_swap_1($1::jsonb, $2::jsonb, $3)", [
                JSON.stringify(known),
                JSON.stringify(writes),
                keepMillis
              ]),
            patienceMillis
          ),
          ({ done, at, current }) => ({ isDone: done, atMillis: at, current })
        )
    }
  })

/** The store over its server; connections are closed with the scope. A server that is not there yet is waited for. */
export const make = (
  options: StorePostgresOptions
): Effect.Effect<SharedStoreShape, ConfigurationError, Scope.Scope> => {
  const url = urlOf(options)
  return /^postgres(ql)?:\/\/./.test(url) && URL.canParse(url)
    ? shapeOf(options)
    : Effect.fail(new ConfigurationError({ field: "url", reason: "must be an address postgres://HOST:PORT/DATABASE" }))
}

export const layer = (options: StorePostgresOptions): Layer.Layer<SharedStore, ConfigurationError> =>
  Layer.effect(
    SharedStore,
    Effect.map(make(options), (store) => SharedStore.of(store))
  )
