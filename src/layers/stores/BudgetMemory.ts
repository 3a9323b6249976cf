/** A BudgetLedger in memory, shared by the fibers of a session. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import * as Budget from "../../domain/budget/Budget.ts"
import { guidanceForReason } from "../../domain/failure/Guidance.ts"
import { notBegun } from "../../domain/failure/RecoveryError.ts"
import { BudgetLedger, type LedgerShape, type Reservation } from "../../services/BudgetLedger.ts"

interface Node {
  budget: Budget.Budget
  readonly parent: Node | null
}

const chainOf = (node: Node): ReadonlyArray<Node> => (node.parent === null ? [node] : [node, ...chainOf(node.parent)])

export const exceeded = (refusal: Budget.Refusal): BudgetExceeded =>
  new BudgetExceeded({ ...notBegun, ...refusal, lastOutcome: "BudgetRefused", guidance: guidanceForReason("Budget") })

const firstOf = (chain: ReadonlyArray<Node>, ask: (budget: Budget.Budget) => Budget.Refusal | null) =>
  chain.map((node) => ask(node.budget)).find((refusal) => refusal !== null) ?? null

const nothing: Budget.Amount = { tokens: 0, costUsd: 0 }

const tightest = (left: number | null, right: number | null): number | null =>
  left === null ? right : right === null ? left : Math.min(left, right)

const limitsOf = (chain: ReadonlyArray<Node>): Budget.BudgetLimits =>
  chain.reduce<Budget.BudgetLimits>(
    (limits, { budget }) => ({
      maxTokens: tightest(limits.maxTokens, budget.maxTokens),
      maxCostUsd: tightest(limits.maxCostUsd, budget.maxNanoUsd === null ? null : Budget.toUsd(budget.maxNanoUsd))
    }),
    { maxTokens: null, maxCostUsd: null }
  )

// Invariant: a reservation is in `open` exactly while its worst case is in `reserved` of every node of its chain. Each
// operation is one synchronous step, so concurrent fibers never see it half done.
const ledgerOf = (node: Node, open: Map<Reservation, Node>, booked: Set<string>): LedgerShape => {
  const chain = chainOf(node)
  return {
    limits: limitsOf(chain),
    room: (ask) =>
      Effect.sync(() => {
        const room = Math.min(...chain.map(({ budget }) => Budget.roomOf(budget, ask)))
        return room === Infinity || room < 1 ? null : room
      }),
    admit: (worst) =>
      Effect.suspend(() => {
        const refusal = firstOf(chain, (budget) => Budget.refusalOf(budget, worst))
        if (refusal !== null) return Effect.fail(exceeded(refusal))
        for (const one of chain) one.budget = Result.getOrElse(Budget.admit(one.budget, worst), () => one.budget)
        const reservation: Reservation = { worst }
        open.set(reservation, node)
        return Effect.succeed(reservation)
      }),
    settle: (reservation, spent) =>
      Effect.sync(() => {
        const owner = open.get(reservation)
        if (owner === undefined) return
        open.delete(reservation)
        for (const one of chainOf(owner)) one.budget = Budget.settle(one.budget, reservation.worst, spent)
      }),
    book: (key, spent) =>
      Effect.sync(() => {
        if (booked.has(key)) return
        booked.add(key)
        for (const one of chain) one.budget = Budget.settle(one.budget, nothing, spent)
      }),
    child: (limits) => Effect.sync(() => ledgerOf({ budget: Budget.make(limits), parent: node }, open, booked)),
    check: Effect.suspend(() => {
      const refusal = firstOf(chain, Budget.exhaustionOf)
      return refusal === null ? Effect.void : Effect.fail(exceeded(refusal))
    }),
    balance: Effect.sync(() => node.budget)
  }
}

/** `spent` is what the session has booked before. */
export const make = (limits: Budget.BudgetLimits, spent?: Budget.Amount): Effect.Effect<LedgerShape> =>
  Effect.sync(() => ledgerOf({ budget: Budget.make(limits, spent), parent: null }, new Map(), new Set()))

export const layer = (limits: Budget.BudgetLimits, spent?: Budget.Amount): Layer.Layer<never> =>
  Layer.effect(BudgetLedger, make(limits, spent))
