/** A ledger of its own limits inside another one, whatever that is: both must admit. In the memory of this process. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Budget from "../../../domain/budget/Budget.ts"
import type { BudgetExceeded } from "../../../domain/failure/AgentError.ts"
import type { LedgerShape, Reservation } from "../../../services/BudgetLedger.ts"
import { exceeded } from "../BudgetMemory.ts"

const tightest = (left: number | null, right: number | null): number | null =>
  left === null ? right : right === null ? left : Math.min(left, right)

const free: Budget.Amount = { tokens: 0, costUsd: 0 }

const orFail = (refusal: Budget.Refusal | null): Effect.Effect<void, BudgetExceeded> =>
  refusal === null ? Effect.void : Effect.fail(exceeded(refusal))

export const childOf = (parent: LedgerShape, limits: Budget.BudgetLimits): LedgerShape => {
  // Invariant: a reservation is in `open` exactly while its worst case is reserved here and above.
  const open = new Map<Reservation, Reservation>()
  const booked = new Set<string>()
  let own = Budget.make(limits)

  const giveBack = (worst: Budget.Amount, spent: Budget.Amount): void => {
    own = Budget.settle(own, worst, spent)
  }
  const take = (worst: Budget.Amount): Effect.Effect<void, BudgetExceeded> =>
    Effect.suspend(() => {
      const next = Budget.admit(own, worst)
      if (Result.isFailure(next)) return orFail(next.failure)
      own = next.success
      return Effect.void
    })

  const ledger: LedgerShape = {
    limits: {
      maxTokens: tightest(parent.limits.maxTokens, limits.maxTokens),
      maxCostUsd: tightest(parent.limits.maxCostUsd, limits.maxCostUsd)
    },
    room: (ask) =>
      Effect.map(parent.room(ask), (above) => {
        const room = Math.min(above ?? Infinity, Budget.roomOf(own, ask))
        return room === Infinity || room < 1 ? null : room
      }),
    admit: (worst) =>
      Effect.uninterruptible(
        Effect.flatMap(take(worst), () =>
          parent.admit(worst).pipe(
            Effect.onError(() => Effect.sync(() => giveBack(worst, free))),
            Effect.map((above) => {
              const reservation: Reservation = { worst }
              open.set(reservation, above)
              return reservation
            })
          )
        )
      ),
    settle: (reservation, spent) =>
      Effect.suspend(() => {
        const above = open.get(reservation)
        if (above === undefined) return Effect.void
        open.delete(reservation)
        giveBack(reservation.worst, spent)
        return parent.settle(above, spent)
      }),
    book: (key, spent) =>
      Effect.suspend(() => {
        if (!booked.has(key)) giveBack(free, spent)
        booked.add(key)
        return parent.book?.(key, spent) ?? Effect.void
      }),
    child: (further) => Effect.sync(() => childOf(ledger, further)),
    check: Effect.andThen(
      Effect.suspend(() => orFail(Budget.exhaustionOf(own))),
      parent.check
    ),
    balance: Effect.sync(() => own)
  }
  return ledger
}
