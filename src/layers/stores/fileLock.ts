/**
 * One owner at a time, over processes: a lock that the operating system gives back when its holder dies, however it dies.
 * A SQLite file of its own, held by an open exclusive transaction; nothing is ever written into it, and it goes with its
 * holder.
 */
import { closeSync, lstatSync, openSync, unlinkSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"

export interface HeldLock {
  readonly release: () => void
}

/** Tells this file from a later one of its name, also when the file system gives its number again; null = it is gone. */
const markOf = (path: string): string | null => {
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  if (found === undefined) return null
  if (!found.isFile()) throw new Error("its lock is no regular file")
  return `${found.ino} ${found.birthtimeNs}`
}

/** Makes it where there is none. A file that is there is not opened: closing it would give back what SQLite holds of it. */
const put = (path: string): void => {
  try {
    closeSync(openSync(path, "wx", 0o600))
  } catch (cause) {
    if (!(cause instanceof Error) || Reflect.get(cause, "code") !== "EEXIST") throw cause
  }
}

/** null = somebody has it. */
const locked = (path: string): DatabaseSync | null => {
  const database = new DatabaseSync(path)
  try {
    database.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE")
    return database
  } catch (cause) {
    database.close()
    const code = typeof cause === "object" && cause !== null && "errcode" in cause ? cause.errcode : null
    if (code === 5 || code === 6) return null
    throw cause
  }
}

/**
 * Locks that are held here. A fiber that waits for something nobody else knows of is collected with all it has, and a database
 * that is collected is closed: its lock would be given to another process while its holder lives.
 */
const held = new Set<DatabaseSync>()

/** Holders that go away while somebody comes: each turn one of them is faster. */
const maxTurns = 20

/** Null = another process, or another part of this one, holds it. Never waits. */
export const tryLock = (path: string): HeldLock | null => {
  for (let turn = 0; turn < maxTurns; turn += 1) {
    put(path)
    const mark = markOf(path)
    if (mark === null) continue
    const database = locked(path)
    if (database === null) return null
    // The file of before may have gone in the meantime: who holds that one holds nothing.
    if (markOf(path) !== mark) {
      database.close()
      continue
    }
    held.add(database)
    return {
      release: () => {
        // Its name goes first: whoever makes a new one finds nobody at work.
        unlinkSync(path)
        held.delete(database)
        database.close()
      }
    }
  }
  return null
}
