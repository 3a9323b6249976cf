/**
 * The reply of a step as a fact of the journal: with its requests, what they have spent, and where the turn stood behind
 * them. Reading it brings budget, deadline, route and trail to where they were.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { JournalMismatch } from "../../domain/agent/JournalError.ts"
import { codecs, keys, type OpenReply, type ReplyFact } from "../../domain/agent/turnFacts.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import { BudgetLedger, type LedgerShape, type Worst } from "../../services/BudgetLedger.ts"
import type { Trail } from "../../domain/failure/Trail.ts"
import { RequestKeep, type RequestKeeper } from "../../services/RequestKeep.ts"
import { CurrentTurn, usedBy, type TurnState } from "../../services/Turn.ts"
import type { AgentRun } from "./AgentRun.ts"
import { kept, orEnd } from "./journaled.ts"

const none: Worst = { tokens: 0, costUsd: 0 }

const plus = (left: Worst, right: Worst): Worst => ({
  tokens: left.tokens + right.tokens,
  costUsd: left.costUsd === null || right.costUsd === null ? null : left.costUsd + right.costUsd
})

/** A ledger that also sums what passes through it; an unknown cost is booked as the worst case. */
const counting = (ledger: LedgerShape | null): Counted => {
  const counted: { ledger: LedgerShape | null; spent: Worst } = { ledger: null, spent: none }
  if (ledger === null) return counted
  counted.ledger = {
    ...ledger,
    settle: (reservation, spent) => {
      counted.spent = plus(counted.spent, { ...spent, costUsd: spent.costUsd ?? reservation.worst.costUsd })
      return ledger.settle(reservation, spent)
    }
  }
  return counted
}

/** Books what was spent before this process; the same key again books nothing. */
const bookBefore = (run: AgentRun, key: string, spent: Worst): Effect.Effect<void> =>
  run.ledger?.book?.(`${run.journal.turn ?? ""}/${key}`, spent) ?? Effect.void

const factOf = (run: AgentRun, turn: TurnState | null, mark: number, reply: ModelReply, spent: Worst): ReplyFact => ({
  reply,
  trail: run.work.trailFrom(mark),
  spent,
  usedMs: turn === null ? 0 : usedBy(turn, run.now()),
  route: turn?.route ?? null,
  gone: turn?.gone ?? []
})

/** Brings the turn to where it stood behind a reply that was read. */
const standBehind = (run: AgentRun, turn: TurnState | null, key: string, fact: ReplyFact): Effect.Effect<void> => {
  run.work.addTrail(fact.trail)
  if (turn !== null) {
    turn.usedMillis = Math.max(turn.usedMillis, fact.usedMs)
    turn.route = fact.route
    turn.gone = fact.gone
  }
  return bookBefore(run, key, fact.spent)
}

/** The text of a reply that was read, for a reader of parts. */
const retell = (run: AgentRun, reply: ModelReply): Effect.Effect<void> =>
  run.options.stream !== true
    ? Effect.void
    : Effect.andThen(
        reply.text === null || reply.text === ""
          ? Effect.void
          : run.emit({ _tag: "PartSeen", part: { _tag: "TextDelta", text: reply.text } }),
        run.emit({ _tag: "PartSeen", part: { _tag: "Finish", reply } })
      )

const nothingOpen: OpenReply = { facts: 0, trail: [], spent: none, usedMs: 0, atEpochMs: 0, request: null }

const mismatch = (run: AgentRun, step: number, field: string): JournalMismatch =>
  new JournalMismatch({
    turn: run.journal.turn ?? "",
    key: keys.reply(step),
    field: `${keys.reply(step)}${field}`,
    reason: "is kept in a form that this version does not read",
    guidance: "Take it up with the version that began it, or fork it before this step."
  })

/** What the owner before has left of a reply that is not there. */
const openOf = (run: AgentRun, step: number): Effect.Effect<OpenReply> => {
  const value = run.journal.opened(keys.reply(step))
  if (value === null) return Effect.succeed(nothingOpen)
  const found = Schema.decodeUnknownResult(codecs.open)(value)
  return Result.isSuccess(found) ? Effect.succeed(found.success) : Effect.die(mismatch(run, step, "[open]"))
}

interface Counted {
  readonly ledger: LedgerShape | null
  spent: Worst
}

/** Keeps the request of a step that is in trouble. `before` was left by the owner before. */
const keeperOf = (
  run: AgentRun,
  step: number,
  turn: TurnState | null,
  before: OpenReply,
  begunEpochMs: number,
  counted: Counted
) => {
  const { journal, work } = run
  const key = keys.reply(step)
  let now = before
  const put = (next: OpenReply): Effect.Effect<void> => {
    now = next
    return orEnd(journal.open(key, next))
  }
  /** `trail` holds every request of the step. */
  const write = (request: OpenReply["request"], trail: Trail): Effect.Effect<void> =>
    Effect.flatMap(Clock.currentTimeMillis, (atEpochMs) => {
      return put({
        facts: now.facts + 1,
        trail,
        spent: counted.spent,
        usedMs: turn === null ? 0 : usedBy(turn, run.now()),
        atEpochMs,
        begunEpochMs,
        request
      })
    })
  const withBefore = (trail: Trail, startedAt: number): Trail => [...before.trail, ...work.ofTurn(trail, startedAt)]
  const keeper: RequestKeeper & { readonly saveEnd: (trail: Trail) => Effect.Effect<void> } = {
    before: before.request,
    begunAt: before.begunEpochMs ?? null,
    key: `${journal.turn ?? ""}/${key}`,
    stored: before.stored ?? null,
    // No new fact: who takes the answer up again and again gets no further.
    noteStored: (stored) =>
      now.stored?.attempt === stored.attempt && now.stored.name === stored.name ? Effect.void : put({ ...now, stored }),
    takeDoubt: () => {
      const { inFlight } = run.doubt
      run.doubt.inFlight = false
      // An answer that is kept is taken up: its end will be known.
      return inFlight && (before.stored ?? null) === null
    },
    bookLost: (worst, trail, startedAt) => {
      counted.spent = plus(counted.spent, worst)
      return Effect.andThen(
        bookBefore(run, `${key}/lost/${now.facts}`, worst),
        write(now.request, withBefore(trail, startedAt))
      )
    },
    save: (request, trail, startedAt) => write(request, withBefore(trail, startedAt)),
    saveEnd: (trail) => write(now.request, trail),
    unreadable: (field) => Effect.die(mismatch(run, step, field))
  }
  return keeper
}

/** Asks for the reply, from where the owner before has left it. */
const askOn = <E, R>(
  run: AgentRun,
  step: number,
  turn: TurnState | null,
  ask: Effect.Effect<ModelReply, E, R>
): Effect.Effect<ReplyFact, E, R> =>
  Effect.gen(function* () {
    const key = keys.reply(step)
    const mark = run.work.trailFrom(0).length
    const before = yield* openOf(run, step)
    run.work.addTrail(before.trail)
    yield* bookBefore(run, `${key}/open/${before.facts}`, before.spent)
    // A request that waits for its provider uses its time also while no process has it.
    if (turn !== null && before.facts > 0)
      turn.usedMillis = Math.max(
        turn.usedMillis,
        before.usedMs + Math.max(0, (yield* Clock.currentTimeMillis) - before.atEpochMs)
      )
    const counted = counting(run.ledger)
    counted.spent = before.spent
    const begunEpochMs = before.begunEpochMs ?? (yield* Clock.currentTimeMillis)
    const keeper = keeperOf(run, step, turn, before, begunEpochMs, counted)
    const reply = yield* ask.pipe(
      Effect.provideService(BudgetLedger, counted.ledger),
      Effect.provideService(RequestKeep, keeper),
      // What a request has spent that brought no reply is spent all the same.
      Effect.onExit((exit) =>
        Exit.isSuccess(exit) || counted.spent === before.spent
          ? Effect.void
          : Effect.ignoreCause(keeper.saveEnd(run.work.trailFrom(mark)))
      )
    )
    return factOf(run, turn, mark, reply, counted.spent)
  })

/** The reply of a step: asked for once, or read. */
export const keptReply = <E, R>(
  run: AgentRun,
  step: number,
  ask: Effect.Effect<ModelReply, E, R>
): Effect.Effect<ModelReply, E, R> => {
  const { journal } = run
  if (journal.turn === null) return ask
  const key = keys.reply(step)
  return Effect.gen(function* () {
    const turn = yield* CurrentTurn
    let isLive = false
    const fact = yield* kept(
      journal,
      key,
      codecs.reply,
      Effect.suspend(() => {
        isLive = true
        return askOn(run, step, turn, ask)
      })
    )
    if (isLive) yield* bookBefore(run, key, none)
    else {
      yield* standBehind(run, turn, key, fact)
      yield* retell(run, fact.reply)
    }
    return fact.reply
  })
}
