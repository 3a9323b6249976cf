/**
 * The reply of a step as a fact of the journal: with its requests, what they have spent, and where the turn stood behind
 * them. Reading it brings budget, deadline, route and trail to where they were.
 */
import * as Effect from "effect/Effect"
import { codecs, keys, type ReplyFact } from "../../domain/agent/turnFacts.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import { BudgetLedger, type LedgerShape, type Worst } from "../../services/BudgetLedger.ts"
import { Turn, usedBy, type TurnCell } from "../../services/Turn.ts"
import type { AgentRun } from "./AgentRun.ts"
import { kept } from "./journaled.ts"

const none: Worst = { tokens: 0, costUsd: 0 }

export const plus = (left: Worst, right: Worst): Worst => ({
  tokens: left.tokens + right.tokens,
  costUsd: left.costUsd === null || right.costUsd === null ? null : left.costUsd + right.costUsd
})

/** A ledger that also sums what passes through it; an unknown cost is booked as the worst case. */
export const counting = (ledger: LedgerShape | null): { readonly ledger: LedgerShape | null; spent: Worst } => {
  const cell: { ledger: LedgerShape | null; spent: Worst } = { ledger: null, spent: none }
  if (ledger === null) return cell
  cell.ledger = {
    ...ledger,
    settle: (reservation, spent) => {
      cell.spent = plus(cell.spent, { ...spent, costUsd: spent.costUsd ?? reservation.worst.costUsd })
      return ledger.settle(reservation, spent)
    }
  }
  return cell
}

/** Books what was spent before this process; the same key again books nothing. */
export const bookBefore = (run: AgentRun, key: string, spent: Worst): Effect.Effect<void> =>
  run.ledger?.book?.(`${run.journal.turn ?? ""}/${key}`, spent) ?? Effect.void

const factOf = (run: AgentRun, cell: TurnCell | null, mark: number, reply: ModelReply, spent: Worst): ReplyFact => ({
  reply,
  trail: run.work.trailFrom(mark),
  spent,
  usedMs: cell === null ? 0 : usedBy(cell, run.now()),
  route: cell?.route ?? null,
  gone: cell?.gone ?? []
})

/** Brings the turn to where it stood behind a reply that was read. */
const standBehind = (run: AgentRun, cell: TurnCell | null, key: string, fact: ReplyFact): Effect.Effect<void> => {
  run.work.addTrail(fact.trail)
  if (cell !== null) {
    cell.usedMillis = Math.max(cell.usedMillis, fact.usedMs)
    cell.route = fact.route
    cell.gone = fact.gone
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
    const cell = yield* Turn
    let isLive = false
    const fact = yield* kept(
      journal,
      key,
      codecs.reply,
      Effect.gen(function* () {
        isLive = true
        const mark = run.work.trailFrom(0).length
        const counted = counting(run.ledger)
        const reply = yield* Effect.provideService(ask, BudgetLedger, counted.ledger)
        return factOf(run, cell, mark, reply, counted.spent)
      })
    )
    if (isLive) yield* bookBefore(run, key, none)
    else {
      yield* standBehind(run, cell, key, fact)
      yield* retell(run, fact.reply)
    }
    return fact.reply
  })
}
