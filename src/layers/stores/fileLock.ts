/**
 * One owner at a time, over processes: a lock that the operating system gives back when its holder dies, however it dies.
 * A SQLite file of its own, held by an open exclusive transaction; nothing is ever written into it.
 */
import { DatabaseSync } from "node:sqlite"

export interface HeldLock {
  readonly release: () => void
}

/** Null = another process, or another part of this one, holds it. Never waits. */
export const tryLock = (path: string): HeldLock | null => {
  const database = new DatabaseSync(path)
  try {
    database.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE")
  } catch (cause) {
    database.close()
    const code = typeof cause === "object" && cause !== null && "errcode" in cause ? cause.errcode : null
    if (code === 5 || code === 6) return null
    throw cause
  }
  return {
    release: () => {
      // The file stays: removing it would let one process lock the old file and another one a new file of that name.
      database.close()
    }
  }
}
