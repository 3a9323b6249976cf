/**
 * A run whose turn is kept in the journal of its folder: what has ended is not done again, whoever is killed when. Turns of
 * `run` have names of their own among those of other programs.
 */
import { join } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { JournalFailure } from "../../../domain/agent/JournalError.ts"
import { codecs, keys, type Prompt } from "../../../domain/agent/turnFacts.ts"
import { spentBy } from "../../../domain/agent/turnSpent.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { acquire, Held } from "../../../layers/stores/OwnerLock.ts"
import { NotOurs } from "../../../layers/stores/ownFile.ts"
import * as SessionFile from "../../../layers/stores/SessionFile.ts"
import type { JournalStoreShape, TurnSummary } from "../../../services/JournalStore.ts"
import { durableTurn, spentOf } from "../../agent/durableTurn.ts"
import type { loadJournal } from "../journalFile.ts"
import type { Input } from "./input.ts"
import type { Keeping } from "./keeping.ts"

type Module = NonNullable<Awaited<ReturnType<typeof loadJournal>>>

/** Turns of this command, by name; the first one may be a session file of before. */
const sessionTurn = "session"
const isOfRun = ({ turn }: TurnSummary): boolean => turn === sessionTurn || turn.startsWith("run-")

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

/** One run of a journal at a time, whatever its turn: two agents in one folder would undo each other's work. */
const lockRun = (path: string) =>
  Effect.acquireRelease(
    Effect.tryPromise({
      try: () => acquire(path),
      catch: (cause) =>
        bad(path, cause instanceof Held || cause instanceof NotOurs ? cause.message : "cannot be used by this run")
    }),
    (release) => Effect.promise(release)
  )

/** Killed in the middle of it: it is done again. */
const factsTaken = 4
const isHalfTaken = ({ turn, steps }: TurnSummary): boolean => turn === sessionTurn && steps < factsTaken

/** A session file of before enters the journal as a turn, once, and stays where it is. What it says of itself, if it fails. */
const takeOver = (store: JournalStoreShape, dir: string): Effect.Effect<string | null, JournalFailure> =>
  Effect.gen(function* () {
    if ((yield* store.list).some((one) => isOfRun(one) && !isHalfTaken(one))) return null
    const path = join(dir, ".holdfast", "session.json")
    const found = yield* Effect.result(Effect.scoped(SessionFile.read(path)))
    if (Result.isFailure(found)) return `the session file of before is not taken over: ${found.failure.message}`
    const saved = found.success
    if (saved === null) return null
    yield* Effect.scoped(
      Effect.flatMap(store.own(sessionTurn), (journal) =>
        Effect.gen(function* () {
          const put = <A>(
            key: string,
            success: Parameters<typeof journal.step<A, never, never>>[1]["success"],
            value: A
          ) => journal.step(key, { success, repeat: "safe" }, Effect.succeed(value))
          yield* put(keys.spent, codecs.amount, saved.spent)
          yield* put(keys.after, codecs.optionalText, null)
          yield* put(keys.history, codecs.messages, saved.messages)
          yield* put<Prompt>(keys.prompt, codecs.prompt, null)
        })
      )
    )
    if (SessionFile.isFinished(saved.messages)) yield* store.setStatus(sessionTurn, "done")
    return null
  })

interface Chosen {
  readonly id: string
  /** The turn it comes after; null = none. */
  readonly after: string | null
  readonly prompt: string | null
  /** Somebody may go on with this one; null = nothing unfinished stays behind. */
  readonly left: string | null
}

/** 2026-12-01T02-33-48-120: the order of the names is that of time. */
const newName = Effect.map(
  Clock.currentTimeMillis,
  (now) => `run-${new Date(now).toISOString().replaceAll(/[:.]/g, "-").replace("Z", "")}-${process.pid}`
)

const isOver = ({ status }: TurnSummary): boolean => status === "done" || status === "cancelled"

/** The turn a run goes on with; a new one without `--resume`. */
const choose = (
  turns: ReadonlyArray<TurnSummary>,
  input: Pick<Input, "prompt" | "resume" | "turn">,
  fresh: string,
  path: string
): Result.Result<Chosen, ConfigurationError> => {
  const { prompt } = input
  const newest = turns.filter(isOfRun).at(-1)
  if (!input.resume)
    return Result.succeed({
      id: fresh,
      after: null,
      prompt,
      left: newest === undefined || isOver(newest) ? null : newest.turn
    })
  const found = input.turn === null ? newest : turns.find(({ turn }) => turn === input.turn)
  if (found === undefined)
    return Result.fail(
      input.turn === null ? bad(path, "holds no saved session") : bad("--turn", `(${input.turn}) is no turn of ${path}`)
    )
  // With its own prompt a turn is taken up where it stands; another prompt, or an end that is no success, begins the next one.
  const goesOn = prompt === null && found.status !== "failed" && found.status !== "cancelled"
  return Result.succeed(
    goesOn ? { id: found.turn, after: null, prompt, left: null } : { id: fresh, after: found.turn, prompt, left: null }
  )
}

const takenUp = ({ turn, status, steps }: TurnSummary): string =>
  status === "done"
    ? `${turn} is done: what it did is told again, and nobody is asked`
    : `taking up ${turn}: ${steps} facts are kept, and told again before it goes on`

const turnBefore = ({ id, after }: Chosen, store: JournalStoreShape): Effect.Effect<string | null, JournalFailure> =>
  after === null ? Effect.map(store.steps(id), beforeOf) : Effect.succeed(after)

const beforeOf = (rows: ReadonlyArray<{ readonly key: string; readonly value: unknown }>): string | null => {
  const value = rows.find(({ key }) => key === keys.after)?.value
  return typeof value === "string" ? value : null
}

/** What was spent before; a turn that is taken up books its own part itself. */
const spentBefore = (chosen: Chosen, store: JournalStoreShape): Effect.Effect<SessionFile.Spent, JournalFailure> =>
  Effect.gen(function* () {
    const before = yield* turnBefore(chosen, store)
    if (before !== null) return yield* spentOf(store, before)
    const rows = yield* store.steps(chosen.id)
    return spentBy(rows.filter(({ key }) => key === keys.spent))
  })

export const inJournal = Effect.fnUntraced(function* (JournalSqlite: Module, path: string, dir: string, input: Input) {
  yield* lockRun(path)
  const store = yield* JournalSqlite.make({ path })
  const news: Array<string> = []
  const fault = yield* takeOver(store, dir)
  if (fault !== null) news.push(fault)
  const turns = yield* store.list
  const chosen = yield* Effect.fromResult(choose(turns, input, yield* newName, path))
  if (chosen.left !== null) news.push(`an unfinished turn is kept: go on with it by --resume --turn ${chosen.left}`)
  const before = turns.find(({ turn }) => turn === chosen.id)
  if (before !== undefined) news.push(takenUp(before))
  // Nobody takes up a turn of ours that another prompt has come after.
  const replaced = turns.find((one) => one.turn === chosen.after && isOfRun(one))
  if (replaced !== undefined && (replaced.status === "running" || replaced.status === "parked"))
    yield* store.setStatus(replaced.turn, "cancelled")
  const keeping: Keeping = {
    spentBefore: yield* spentBefore(chosen, store),
    news,
    begin: () =>
      Effect.succeed({
        run: (options) =>
          durableTurn({
            ...options,
            id: chosen.id,
            store,
            prompt: chosen.prompt,
            ...(chosen.after === null ? {} : { after: chosen.after })
          }),
        save: Effect.void,
        fault: Effect.succeed(null)
      })
  }
  return keeping
})
