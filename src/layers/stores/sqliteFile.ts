/**
 * One SQLite file over `node:sqlite`: write-ahead log, every commit synced to the disk, deleted bytes overwritten, for
 * the owner's eyes only. Statements are prepared once. Synchronous: a commit takes a millisecond or two.
 */
import { chmodSync, closeSync, constants, fstatSync, lstatSync, mkdirSync, openSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync, type SQLInputValue, type SQLOutputValue } from "node:sqlite"

export type Row = Readonly<Record<string, SQLOutputValue>>

export interface SqliteFile {
  readonly path: string
  readonly run: (sql: string, ...values: ReadonlyArray<SQLInputValue>) => number
  readonly all: (sql: string, ...values: ReadonlyArray<SQLInputValue>) => ReadonlyArray<Row>
  /** All or nothing. */
  readonly together: <A>(body: () => A) => A
  readonly exec: (sql: string) => void
  readonly close: () => void
}

/** Waits so long for another process that is writing, in milliseconds. */
const busyMillis = 2_000

/** Makes the file where there is none, follows no link to one, and keeps others from reading it. */
const claim = (path: string): void => {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const handle = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  try {
    if (!fstatSync(handle).isFile()) throw new Error("is no regular file")
  } finally {
    closeSync(handle)
  }
  chmodSync(path, 0o600)
  // SQLite follows a link in the place of its log: what somebody has put there would be written over.
  for (const beside of ["-wal", "-shm", "-journal"]) {
    const found = lstatSync(`${path}${beside}`, { throwIfNoEntry: false })
    if (found !== undefined && !found.isFile()) throw new Error(`its ${beside.slice(1)} is no regular file`)
  }
}

export const openSqlite = (path: string, schema: string): SqliteFile => {
  claim(path)
  const database = new DatabaseSync(path)
  database.exec(`PRAGMA busy_timeout = ${busyMillis}`)
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON")
  return fileOver(database, path, schema)
}

/** A file that is none: it ends with the process, or before. */
export const openMemory = (schema: string): SqliteFile => fileOver(new DatabaseSync(":memory:"), ":memory:", schema)

const fileOver = (database: DatabaseSync, path: string, schema: string): SqliteFile => {
  database.exec(schema)
  const prepared = new Map<string, ReturnType<DatabaseSync["prepare"]>>()
  const statement = (sql: string) => {
    const known = prepared.get(sql)
    if (known !== undefined) return known
    const made = database.prepare(sql)
    prepared.set(sql, made)
    return made
  }
  const run: SqliteFile["run"] = (sql, ...values) => Number(statement(sql).run(...values).changes)
  return {
    path,
    run,
    all: (sql, ...values) => statement(sql).all(...values),
    together: (body) => {
      database.exec("BEGIN IMMEDIATE")
      try {
        const result = body()
        database.exec("COMMIT")
        return result
      } catch (cause) {
        database.exec("ROLLBACK")
        throw cause
      }
    },
    exec: (sql) => database.exec(sql),
    close: () => database.close()
  }
}

/** What a failing statement says of itself, without a value. */
export const reasonOf = (cause: unknown): string => {
  const code = typeof cause === "object" && cause !== null && "errstr" in cause ? String(cause.errstr) : null
  return code ?? (cause instanceof Error ? cause.message : "it failed")
}
