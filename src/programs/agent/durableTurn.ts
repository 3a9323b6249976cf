/**
 * A turn that outlives its process: what it does is kept in a journal, and whoever takes it up under its id goes on from
 * there. A turn that has ended well gives its result again, and asks nobody.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { isJournalFailure, TurnCancelled, TurnParked, type JournalFailure } from "../../domain/agent/JournalError.ts"
import { codecs, keys, type Prompt } from "../../domain/agent/turnFacts.ts"
import { addedBy, comesAfter, startOf, type ReadFact } from "../../domain/agent/turnHistory.ts"
import { nestedDone, spentAt, spentBy } from "../../domain/agent/turnSpent.ts"
import { repairHistory } from "../../domain/agent/historyRepair.ts"
import type { Amount } from "../../domain/budget/Budget.ts"
import type { Message } from "../../domain/chat/Message.ts"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import type { LedgerShape } from "../../services/BudgetLedger.ts"
import { BudgetLedger } from "../../services/BudgetLedger.ts"
import type { Conversation } from "../../services/Conversation.ts"
import { Journal, type JournalShape } from "../../services/Journal.ts"
import type { JournalStoreShape, StepRow, TurnStatus } from "../../services/JournalStore.ts"
import type { Toolbox } from "../../services/Toolbox.ts"
import * as ConversationMemory from "./ConversationMemory.ts"
import { kept } from "./journaled.ts"
import { runAgent, type AgentFailure, type AgentOptions, type AgentResult } from "./runAgent.ts"

export interface DurableOptions extends Omit<AgentOptions, "conversation" | "nested"> {
  /** Names the turn: its idempotency key. Taken up under the same id, it goes on. */
  readonly id: string
  /** Where it is kept: `JournalSqlite.make({ path })`. */
  readonly store: JournalStoreShape
  /** What the user says. A turn that is taken up again has its own: what is given then is not read. */
  readonly prompt: Prompt
  /** The turn this one comes after: its history is the beginning of this one, and is stored nowhere else. */
  readonly after?: string
  /** The history it begins with. Default: empty. Not together with `after`. */
  readonly history?: ReadonlyArray<Message>
  /** The ledger of this turn: what its owners before have spent is booked in it once. Default: the one around it. */
  readonly ledger?: LedgerShape
  /** Told the history after every change; it must not fail. */
  readonly onHistory?: (messages: ReadonlyArray<Message>) => Effect.Effect<void>
}

export type DurableFailure = AgentFailure | JournalFailure

const factsOf = (rows: ReadonlyArray<StepRow>): ReadFact => {
  const values = new Map(rows.flatMap((row) => (row.state === "done" ? [[row.key, row.value] as const] : [])))
  return (key) => values.get(key)
}

/** What is kept of a turn, then of those it comes after. Turns that come after each other are read once. */
const keptOf = (
  store: JournalStoreShape,
  turn: string
): Effect.Effect<ReadonlyArray<ReadonlyArray<StepRow>>, JournalFailure> =>
  Effect.gen(function* () {
    const chain = new Map<string, ReadonlyArray<StepRow>>()
    let at: string | null = turn
    while (at !== null && !chain.has(at)) {
      const rows: ReadonlyArray<StepRow> = yield* store.steps(at)
      chain.set(at, rows)
      at = comesAfter(factsOf(rows))
    }
    return [...chain.values()]
  })

/** The history behind a turn: those it comes after, then what it has added itself. Every call in it has its result. */
export const historyOf = (
  store: JournalStoreShape,
  turn: string
): Effect.Effect<ReadonlyArray<Message>, JournalFailure> =>
  Effect.map(keptOf(store, turn), (chain) => {
    // One that comes after another keeps no history to begin with.
    const parts = chain.map(factsOf).map((facts) => [...startOf(facts), ...addedBy(facts)])
    return repairHistory(parts.toReversed().flat()).messages
  })

/** What a turn and those it comes after were booked as; `costUsd` null = a model without a price was asked. */
export const spentOf = (store: JournalStoreShape, turn: string): Effect.Effect<Amount, JournalFailure> =>
  Effect.map(keptOf(store, turn), (chain) => spentBy(chain.flat()))

/** What nested agents have spent whose calls are only read now. */
const bookNested = Effect.fnUntraced(function* (
  { store, id }: DurableOptions,
  ledger: LedgerShape | null
): Effect.fn.Return<void, JournalFailure> {
  const book = ledger?.book
  if (book === undefined) return
  for (const row of nestedDone(yield* store.steps(id))) {
    const spent = spentAt(row)
    if (spent !== null) yield* book(`${id}/${row.key}`, spent)
  }
})

const startHistory = (
  { store, after, history = [] }: DurableOptions,
  journal: JournalShape
): Effect.Effect<ReadonlyArray<Message>, JournalFailure> =>
  Effect.gen(function* () {
    // The first owner says where the turn begins; every later one reads it.
    const before = yield* kept(journal, keys.after, codecs.optionalText, Effect.succeed(after ?? null))
    if (before !== null) return yield* historyOf(store, before)
    return yield* kept(journal, keys.history, codecs.messages, Effect.succeed(history))
  })

/** A cancel from any process is seen within this time. */
const pollMillis = 500

const cancelled = (turn: string): TurnCancelled =>
  new TurnCancelled({ turn, key: "", guidance: "Begin a new turn, or fork this one." })

/** Fails when somebody has cancelled the turn, wherever it is: in a wait, a tool or a stream. */
const untilCancelled = ({ store, id }: DurableOptions): Effect.Effect<never, JournalFailure> =>
  Effect.gen(function* () {
    while (!(yield* store.isCancelled(id))) yield* Effect.sleep(pollMillis)
    return yield* cancelled(id)
  })

const statusOf = <A>(exit: Exit.Exit<A, DurableFailure>): TurnStatus => {
  if (Exit.isSuccess(exit)) return "done"
  const failure = Option.getOrNull(Cause.findErrorOption(exit.cause))
  if (failure instanceof TurnParked) return "parked"
  if (failure instanceof TurnCancelled) return "cancelled"
  // Whoever was interrupted, or could not write, leaves a turn that can be taken up.
  return Cause.hasInterruptsOnly(exit.cause) || isJournalFailure(failure) ? "running" : "failed"
}

const failureIn = (cause: Cause.Cause<DurableFailure>): JournalFailure | null => {
  const defect = cause.reasons.find((reason) => reason._tag === "Die")?.defect
  return isJournalFailure(defect) ? defect : null
}

const agentOptionsOf = (options: DurableOptions, conversation: Conversation): AgentOptions => {
  const { id: _id, store: _store, prompt: _prompt, after: _after, ...more } = options
  const { history: _history, ledger: _ledger, onHistory: _onHistory, ...agent } = more
  return { ...agent, conversation }
}

const owned = (options: DurableOptions, journal: JournalShape): Effect.Effect<AgentResult, DurableFailure, Toolbox> =>
  Effect.gen(function* () {
    const conversation = yield* ConversationMemory.make(yield* startHistory(options, journal), options.onHistory)
    const ledger = options.ledger ?? (yield* BudgetLedger)
    yield* bookNested(options, ledger)
    return yield* runAgent(agentOptionsOf(options, conversation), options.prompt).pipe(
      Effect.provideService(Journal, journal),
      Effect.provideService(BudgetLedger, ledger)
    )
  }).pipe(
    // The journal's first fact is kept like the others: what it fails with is the failure of the turn.
    Effect.catchCause((cause): Effect.Effect<never, DurableFailure> => {
      const failure = failureIn(cause)
      return failure === null ? Effect.failCause(cause) : Effect.fail(failure)
    })
  )

/**
 * Runs a turn, or takes it up where it is. Fails as TurnParked while a person has to answer, as TurnOwned while another
 * process has it.
 */
export const durableTurn = (options: DurableOptions): Effect.Effect<AgentResult, DurableFailure, Toolbox> => {
  const { id, store, after, history } = options
  if (id === "") throw new ConfigurationError({ field: "id", reason: "is empty: it names the turn" })
  if (after !== undefined && history !== undefined)
    throw new ConfigurationError({ field: "history", reason: "is given by the turn named in after" })
  if (after === id) throw new ConfigurationError({ field: "after", reason: "names the turn itself" })
  return Effect.scoped(
    Effect.flatMap(store.own(id), (journal) =>
      // The wish to cancel is asked for before anything is done.
      Effect.flatMap(store.isCancelled(id), (isCancelled) =>
        isCancelled ? Effect.fail(cancelled(id)) : Effect.raceFirst(owned(options, journal), untilCancelled(options))
      ).pipe(
        Effect.onExit((exit) => {
          const status = statusOf(exit)
          return status === "running" ? Effect.void : Effect.ignore(store.setStatus(id, status))
        })
      )
    )
  )
}
