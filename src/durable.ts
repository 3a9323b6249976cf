/** Turns that outlive their process, over one file or a store of your own. Node only: `node:sqlite` is in it. */
export {
  isJournalFailure,
  JournalMismatch,
  JournalUnavailable,
  StepInDoubt,
  TurnCancelled,
  TurnOwned,
  TurnParked,
  TurnStuck,
  type JournalFailure
} from "./domain/agent/JournalError.ts"
export * as JournalSqlite from "./layers/stores/JournalSqlite.ts"
export { durableTurn, historyOf, type DurableFailure, type DurableOptions } from "./programs/agent/durableTurn.ts"
export { Journal, noJournal, type JournalShape, type Repeat, type StepOptions } from "./services/Journal.ts"
export {
  JournalStore,
  type JournalStoreShape,
  type StepRow,
  type StreamRow,
  type TurnStatus,
  type TurnSummary
} from "./services/JournalStore.ts"
