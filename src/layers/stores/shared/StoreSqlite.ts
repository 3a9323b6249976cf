/**
 * A store for the processes of one host: two SQLite files, no server. What is spent is synced to the disk; what is known of
 * routes is not worth that, and stands in a file of its own.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { misfit, plus, type Account, type Counts, type Standing } from "../../../domain/budget/Account.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import {
  SharedStore,
  type Reserve,
  type Reserved,
  type Settle,
  type SharedStoreShape,
  type Swap,
  type Swapped
} from "../../../services/SharedStore.ts"
import { openSqlite, reasonOf, type Row, type SqliteFile } from "../sqliteFile.ts"
import { make as makeLink, patienceMillis, StoreFault } from "./storeLink.ts"

export interface StoreSqliteOptions {
  /** Made where there is none, readable for its owner only; a file `PATH-health` stands beside it. */
  readonly path: string
}

const accountTables = `
create table if not exists account (
  name text primary key, until integer,
  spent_requests integer not null default 0, spent_tokens integer not null default 0, spent_nano integer not null default 0
) without rowid;
create table if not exists lease (
  id text not null, account text not null, requests integer not null, tokens integer not null, nano integer not null,
  until integer not null, primary key (account, id)
) without rowid;
create table if not exists settled (id text primary key, until integer not null) without rowid;
create index if not exists lease_until on lease (until);
create index if not exists settled_until on settled (until);
`

const healthTables = `
create table if not exists known (key text primary key, version integer not null, value text not null, until integer not null)
  without rowid;
create index if not exists known_until on known (until);
`

/** A file waits so long for another process that writes: the whole process waits with it. */
const busyMillis = 50

const countsIn = (row: Row | undefined, prefix: string): Counts => ({
  requests: Number(row?.[`${prefix}requests`] ?? 0),
  tokens: Number(row?.[`${prefix}tokens`] ?? 0),
  nanoUsd: Number(row?.[`${prefix}nano`] ?? 0)
})

const standingOf = (file: SqliteFile, { name }: Account): Standing => ({
  spent: countsIn(file.all("select * from account where name = ?", name)[0], "spent_"),
  reserved: countsIn(
    file.all(
      "select sum(requests) as requests, sum(tokens) as tokens, sum(nano) as nano from lease where account = ?",
      name
    )[0],
    ""
  )
})

const touch = (file: SqliteFile, { name, untilMillis }: Account): void => {
  file.run(
    "insert into account (name, until) values (?1, ?2) on conflict (name) do update set until = ?2 where until is not ?2",
    name,
    untilMillis
  )
}

/** What is over: leases whose owner has not renewed them, accounts of a window that has passed, names of old requests. */
const sweep = (file: SqliteFile, now: number): void => {
  file.run("delete from lease where until <= ?", now)
  file.run("delete from settled where until <= ?", now)
  file.run("delete from account where until <= ?", now)
}

const hold = (file: SqliteFile, { id, worst, leaseMillis }: Reserve, { name }: Account, now: number): void => {
  const { requests, tokens, nanoUsd } = worst
  file.run(
    `insert into lease (id, account, requests, tokens, nano, until) values (?, ?, ?, ?, ?, ?)
     on conflict (account, id) do update set until = excluded.until`,
    id,
    name,
    requests,
    tokens,
    nanoUsd,
    now + leaseMillis
  )
}

const isSettled = (file: SqliteFile, id: string): boolean =>
  file.all("select 1 from settled where id = ?", id).length > 0

const reserve = (file: SqliteFile, asked: Reserve, now: number): Reserved =>
  file.together(() => {
    const { id, accounts, worst } = asked
    sweep(file, now)
    const before = accounts.map((account) => standingOf(file, account))
    const fits = (account: Account, index: number): boolean => {
      const standing = before[index]
      return standing !== undefined && misfit(account.limits, standing, worst) === null
    }
    if (isSettled(file, id) || !accounts.every(fits)) return { isAdmitted: false, standings: before }
    for (const account of accounts) {
      touch(file, account)
      hold(file, asked, account, now)
    }
    return {
      isAdmitted: true,
      standings: before.map(({ spent, reserved }) => ({ spent, reserved: plus(reserved, worst) }))
    }
  })

const settle = (
  file: SqliteFile,
  { id, accounts, spent, rememberMillis }: Settle,
  now: number
): ReadonlyArray<Standing> =>
  file.together(() => {
    for (const { name } of accounts) file.run("delete from lease where account = ? and id = ?", name, id)
    const isFirst = file.run("insert or ignore into settled values (?, ?)", id, now + rememberMillis) > 0
    for (const account of isFirst ? accounts : []) {
      touch(file, account)
      file.run(
        `update account set spent_requests = spent_requests + ?, spent_tokens = spent_tokens + ?, spent_nano = spent_nano + ?
         where name = ?`,
        spent.requests,
        spent.tokens,
        spent.nanoUsd,
        account.name
      )
    }
    return accounts.map((account) => standingOf(file, account))
  })

const renew = (file: SqliteFile, reserves: ReadonlyArray<Reserve>, now: number): void =>
  file.together(() => {
    for (const one of reserves)
      if (!isSettled(file, one.id)) for (const account of one.accounts) hold(file, one, account, now)
  })

const swap = (file: SqliteFile, { known, writes, keepMillis }: Swap, now: number): Swapped =>
  file.together(() => {
    if (writes.length > 0) file.run("delete from known where until <= ?", now)
    const stands = known.map(({ key, version }) => {
      const [row] = file.all("select version, value from known where key = ? and until > ?", key, now)
      const value = row?.["value"]
      return {
        key,
        version: Number(row?.["version"] ?? 0),
        value: typeof value === "string" ? value : null,
        isSame: Number(row?.["version"] ?? 0) === version
      }
    })
    const isDone = stands.every(({ isSame }) => isSame)
    for (const { key, value } of isDone ? writes : [])
      file.run(
        `insert into known values (?1, 1, ?2, ?3)
         on conflict (key) do update set version = version + 1, value = excluded.value, until = excluded.until`,
        key,
        value,
        now + keepMillis
      )
    const differing = stands.filter(({ isSame }) => !isSame)
    return { isDone, current: differing.map(({ key, version, value }) => ({ key, version, value })), atMillis: now }
  })

const isBusy = (cause: unknown): boolean =>
  typeof cause === "object" && cause !== null && "errcode" in cause && (cause.errcode === 5 || cause.errcode === 261)

interface Files {
  readonly money: SqliteFile
  readonly health: SqliteFile
}

/** Busy = another process writes this very moment. */
class Busy extends StoreFault {}

const asked = <A>(body: (now: number) => A): Effect.Effect<A, StoreFault> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Effect.try({
      try: () => body(now),
      catch: (cause) => (isBusy(cause) ? new Busy("is busy") : new StoreFault(`says: ${reasonOf(cause)}`))
    })
  ).pipe(Effect.retry({ while: (fault) => fault instanceof Busy, schedule: Schedule.spaced("5 millis") }))

const open = (path: string, tables: string, pragmas: string): Effect.Effect<SqliteFile, StoreFault, Scope.Scope> =>
  Effect.acquireRelease(
    asked(() => {
      const file = openSqlite(path, tables)
      file.exec(`PRAGMA busy_timeout = ${busyMillis}; ${pragmas}`)
      return file
    }),
    (file) => Effect.sync(() => file.close())
  )

const shapeOf = (options: StoreSqliteOptions): Effect.Effect<SharedStoreShape, never, Scope.Scope> =>
  Effect.gen(function* () {
    const link = yield* makeLink<Files>({
      atOnce: 1,
      name: "sqlite",
      connect: Effect.all({
        money: open(options.path, accountTables, ""),
        health: open(`${options.path}-health`, healthTables, "PRAGMA synchronous = OFF")
      }),
      ping: ({ money, health }) => asked(() => [money.all("select 1"), health.all("select 1")])
    })
    return {
      name: "sqlite",
      isAway: link.isAway,
      reserve: (one) => link.use(({ money }) => asked((now) => reserve(money, one, now))),
      settle: (one) => link.use(({ money }) => asked((now) => settle(money, one, now))),
      renew: (reserves) => link.use(({ money }) => asked((now) => renew(money, reserves, now))),
      standings: (accounts) =>
        link.use(({ money }) =>
          asked((now) =>
            money.together(() => {
              sweep(money, now)
              return accounts.map((account) => standingOf(money, account))
            })
          )
        ),
      swap: (one, millis) =>
        link.use(({ health }) => asked((now) => swap(health, one, now)), Math.min(millis, patienceMillis))
    }
  })

/** The store over its files; they are closed with the scope. */
export const make = (options: StoreSqliteOptions): Effect.Effect<SharedStoreShape, ConfigurationError, Scope.Scope> =>
  options.path === ""
    ? Effect.fail(new ConfigurationError({ field: "path", reason: "is empty: it names the file" }))
    : shapeOf(options)

export const layer = (options: StoreSqliteOptions): Layer.Layer<SharedStore, ConfigurationError> =>
  Layer.effect(
    SharedStore,
    Effect.map(make(options), (store) => SharedStore.of(store))
  )
