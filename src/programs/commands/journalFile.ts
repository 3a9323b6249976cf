/** The journal's module for a command, loaded when it is needed: Node says of its SQLite that it is experimental. */

/** Loads what loads SQLite: its news is none to a user, each time. */
export const quietly = async <A>(load: () => Promise<A>): Promise<A> => {
  const { emitWarning } = process
  process.emitWarning = () => undefined
  try {
    return await load()
  } finally {
    process.emitWarning = emitWarning
  }
}

type JournalModule = typeof import("../../layers/stores/JournalSqlite.ts")

const codeOf = (cause: unknown): unknown =>
  typeof cause === "object" && cause !== null && "code" in cause ? cause.code : null

/** null = this Node was built, or started, without `node:sqlite`. */
export const loadJournal = (): Promise<JournalModule | null> =>
  quietly(() => import("../../layers/stores/JournalSqlite.ts")).catch((cause: unknown) => {
    if (codeOf(cause) === "ERR_UNKNOWN_BUILTIN_MODULE") return null
    throw cause
  })

/** Where a folder's turns are kept. */
export const journalName = "turns.db"

/** What is said where there is none. */
export const withoutSqlite = "this Node has no node:sqlite"
