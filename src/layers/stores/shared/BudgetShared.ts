/**
 * A BudgetLedger that several processes spend from. A request reserves its worst case in the store before it is sent, for a
 * lease that is renewed while it runs, and settles what it spent after; a process that dies gives its reservations back
 * with their lease. While the store is away nothing is admitted, unless this process has a share of its own for that time;
 * what could not be told is told when the store is back, once.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Account from "../../../domain/budget/Account.ts"
import * as Budget from "../../../domain/budget/Budget.ts"
import { BudgetExceeded } from "../../../domain/failure/AgentError.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { notBegun } from "../../../domain/failure/RecoveryError.ts"
import { budgetStoreAdvice } from "../../../domain/failure/words.ts"
import { BudgetLedger, type LedgerShape, type Reservation } from "../../../services/BudgetLedger.ts"
import {
  SharedStore,
  type Reserve,
  type Settle,
  type SharedStoreShape,
  type StoreAway
} from "../../../services/SharedStore.ts"
import { exceeded } from "../BudgetMemory.ts"
import { childOf } from "./childLedger.ts"
import { safeText } from "./safeText.ts"

export interface BudgetSharedOptions {
  /** The account: every process that gives this name spends from it. */
  readonly name: string
  readonly limits: Budget.BudgetLimits
  /** How long a reservation outlives the process that made it. Default 60 seconds. */
  readonly lease?: Duration.Input
  /**
   * While the store is away: `closed` admits nothing. Limits = what this process may spend in one such time, but no more
   * than was left of the account when the store was last seen; it is booked when the store is back. Default `closed`.
   */
  readonly whileAway?: "closed" | Budget.BudgetLimits
}

const defaultLease = "60 seconds"
/** Milliseconds. */
const shortestLease = 1_000
/** How often it looks whether something has to be told or renewed. */
const tendMillis = 250

const storeAway = (): BudgetExceeded =>
  new BudgetExceeded({
    ...notBegun,
    limit: "store",
    allowed: 0,
    spent: 0,
    reserved: 0,
    lastOutcome: "BudgetRefused",
    guidance: budgetStoreAdvice
  })

/** Two names of one request are told apart so long. */
const rememberMillis = 86_400_000
/** The same for what was spent before this process: a turn may be parked for a month and more. */
const bookedMillis = 90 * rememberMillis

/** What is left of an account, for a share of it. */
const leftOf = (limit: number | null, used: number, share: number | null): number | null =>
  limit === null ? share : Math.min(share ?? Infinity, Math.max(0, limit - used))

const leaseOf = ({ lease = defaultLease }: BudgetSharedOptions): number | null => {
  const span = Option.getOrNull(Duration.fromInput(lease))
  const millis = span === null ? 0 : Duration.toMillis(span)
  return millis >= shortestLease && Number.isFinite(millis) ? millis : null
}

const faultOf = (options: BudgetSharedOptions): ConfigurationError | null => {
  const { name, limits, whileAway = "closed" } = options
  if (name === "") return new ConfigurationError({ field: "name", reason: "is empty: it names the account" })
  const given = whileAway === "closed" ? { limits } : { limits, whileAway }
  for (const [field, values] of Object.entries(given))
    for (const [limit, value] of Object.entries(values))
      if (value !== null && !(Number.isFinite(value) && value >= 0))
        return new ConfigurationError({ field: `${field}.${limit}`, reason: "must be a number from 0, or null" })
  return leaseOf(options) === null
    ? new ConfigurationError({ field: "lease", reason: "must be a time of one second or more" })
    : null
}

/** The account as a budget: for what it still has room for, and whether it is used up. */
const budgetOf = (limits: Budget.BudgetLimits, { spent, reserved }: Account.Standing): Budget.Budget => ({
  ...Budget.make(limits),
  spent: { tokens: spent.tokens, nanoUsd: spent.nanoUsd },
  reserved: { tokens: reserved.tokens, nanoUsd: reserved.nanoUsd }
})

const standingOf = ({ spent, reserved }: Budget.Budget): Account.Standing => ({
  spent: { requests: 0, ...spent },
  reserved: { requests: 0, ...reserved }
})

/** Which limit does not let this in. */
const refusalOf = (budget: Budget.Budget, worst: Budget.Amount): Budget.Refusal | null => {
  const limits = { requests: null, tokens: budget.maxTokens, nanoUsd: budget.maxNanoUsd }
  const standing = standingOf(budget)
  if (worst.costUsd === null && budget.maxNanoUsd !== null) return Account.refusalBy("nanoUsd", limits, standing)
  const unit = Account.misfit(limits, standing, Account.countsOf(worst))
  return unit === null || unit === "requests" ? null : Account.refusalBy(unit, limits, standing)
}

/** The account as one process sees it: what it holds there, and what the store has not heard of. */
const makeHoldings = (store: SharedStoreShape, options: BudgetSharedOptions) => {
  const accounts = [{ name: safeText(options.name), limits: Account.limitsOf(options.limits), untilMillis: null }]
  // Invariant: a reservation is in `open` from its admission until it is settled, in the store or in `untold`.
  const open = new Map<Reservation, Reserve>()
  const untold = new Map<string, Settle>()
  const order = Semaphore.makeUnsafe(1)
  let seen: Account.Standing = Account.untouched
  let isStale = false

  const see = (standings: ReadonlyArray<Account.Standing>): Account.Standing => {
    seen = standings[0] ?? seen
    return seen
  }
  const stale = Effect.sync(() => {
    isStale = true
  })
  /** Tells what the store has not heard of, before anything new is asked of it. */
  const tell: Effect.Effect<void, StoreAway> = Effect.suspend(() =>
    !isStale && untold.size === 0
      ? Effect.void
      : order.withPermit(
          Effect.gen(function* () {
            // What is under way is held again before anybody is given what came back meanwhile.
            if (isStale) yield* store.renew([...open.values()])
            isStale = false
            for (const [id, one] of untold) {
              see(yield* store.settle(one))
              untold.delete(id)
            }
          })
        )
  ).pipe(Effect.tapError(() => stale))

  return {
    accounts,
    open,
    tell,
    see,
    seen: () => seen,
    renew: Effect.suspend(() => store.renew([...open.values()])),
    ask: (reserve: Reserve) => Effect.tapError(Effect.andThen(tell, store.reserve(reserve)), () => stale),
    settle: (id: string, spent: Account.Counts, remember = rememberMillis): Effect.Effect<void> =>
      Effect.suspend(() => {
        const one: Settle = { id, accounts, spent, rememberMillis: remember }
        return Effect.matchEffect(Effect.andThen(tell, store.settle(one)), {
          onSuccess: (standings) => Effect.sync(() => void see(standings)),
          onFailure: () =>
            Effect.andThen(
              Effect.sync(() => void untold.set(id, one)),
              stale
            )
        })
      }),
    /** What was seen last when the store does not say. */
    standing: Effect.matchEffect(Effect.andThen(tell, store.standings(accounts)), {
      onSuccess: (standings) => Effect.sync(() => see(standings)),
      onFailure: () => Effect.as(stale, null)
    }).pipe(Effect.map((standing) => standing ?? seen))
  }
}

type Holdings = ReturnType<typeof makeHoldings>

/** What this process spends while the store is away. */
const makeShare = ({ limits, whileAway = "closed" }: BudgetSharedOptions, holdings: Holdings) => {
  // Null = the store was there when it was asked last, or nothing is spent without it.
  let budget: Budget.Budget | null = null
  const taken = new WeakSet<Reservation>()
  return {
    budget: () => budget,
    end: (): void => void (budget = null),
    take: (reservation: Reservation): BudgetExceeded | null => {
      if (whileAway === "closed") return storeAway()
      const { spent, reserved } = holdings.seen()
      const used = Account.plus(spent, reserved)
      budget ??= Budget.make({
        maxTokens: leftOf(limits.maxTokens, used.tokens, whileAway.maxTokens),
        maxCostUsd: leftOf(limits.maxCostUsd, Budget.toUsd(used.nanoUsd), whileAway.maxCostUsd)
      })
      const refusal = refusalOf(budget, reservation.worst)
      if (refusal !== null) return exceeded(refusal)
      budget = Result.getOrElse(Budget.admit(budget, reservation.worst), () => budget)
      taken.add(reservation)
      return null
    },
    settle: (reservation: Reservation, spent: Budget.Amount): void => {
      if (budget !== null && taken.delete(reservation)) budget = Budget.settle(budget, reservation.worst, spent)
    }
  }
}

const ledgerOf = (options: BudgetSharedOptions, leaseMillis: number, holdings: Holdings): LedgerShape => {
  const { limits, name } = options
  const { accounts, open, seen } = holdings
  const process = crypto.randomUUID()
  const share = makeShare(options, holdings)
  let count = 0
  const refused = (worst: Budget.Amount): BudgetExceeded =>
    // Others had it reserved a moment ago.
    exceeded(
      refusalOf(budgetOf(limits, seen()), worst) ?? Account.refusalBy("nanoUsd", Account.limitsOf(limits), seen())
    )

  const admit = (worst: Budget.Amount): Effect.Effect<Reservation, BudgetExceeded> =>
    Effect.suspend(() => {
      if (worst.costUsd === null && limits.maxCostUsd !== null) return Effect.fail(refused(worst))
      count += 1
      const reservation: Reservation = { worst }
      const asked: Reserve = { id: `${process}/${count}`, accounts, worst: Account.countsOf(worst), leaseMillis }
      const hold = (): Reservation => {
        open.set(reservation, asked)
        return reservation
      }
      return Effect.matchEffect(holdings.ask(asked), {
        onSuccess: ({ isAdmitted, standings }) => {
          holdings.see(standings)
          share.end()
          return isAdmitted ? Effect.sync(hold) : Effect.fail(refused(worst))
        },
        onFailure: ({ isSent }) => {
          const failure = share.take(reservation)
          if (failure === null) return Effect.sync(hold)
          // It may have been made: it is given back as soon as the store can be told.
          const given = isSent ? holdings.settle(asked.id, Account.nothing) : Effect.void
          return Effect.andThen(given, Effect.fail(failure))
        }
      })
    }).pipe(Effect.uninterruptible)

  const budget = Effect.map(holdings.standing, (standing) => share.budget() ?? budgetOf(limits, standing))
  const ledger: LedgerShape = {
    limits,
    room: (ask) =>
      Effect.map(budget, (now) => {
        const room = Budget.roomOf(now, ask)
        return room === Infinity || room < 1 ? null : room
      }),
    admit,
    settle: (reservation, spent) =>
      Effect.suspend(() => {
        const held = open.get(reservation)
        if (held === undefined) return Effect.void
        open.delete(reservation)
        share.settle(reservation, spent)
        const costUsd = spent.costUsd ?? reservation.worst.costUsd
        return holdings.settle(held.id, Account.countsOf({ tokens: spent.tokens, costUsd }))
      }),
    book: (key, spent) =>
      holdings.settle(`${safeText(name)}/booked/${safeText(key)}`, Account.countsOf(spent), bookedMillis),
    child: (further) => Effect.sync(() => childOf(ledger, further)),
    check: Effect.flatMap(budget, (now) => {
      const refusal = Budget.exhaustionOf(now)
      return refusal === null ? Effect.void : Effect.fail(exceeded(refusal))
    }),
    balance: Effect.map(holdings.standing, (standing) => budgetOf(limits, standing))
  }
  return ledger
}

/** Renews what is under way, and tells what could not be told, as long as the scope is open. */
const tend = (store: SharedStoreShape, holdings: Holdings, leaseMillis: number): Effect.Effect<never> =>
  Effect.gen(function* () {
    let renewedAt = yield* Clock.currentTimeMillis
    while (true) {
      yield* Effect.sleep(tendMillis)
      if (store.isAway()) continue
      const now = yield* Clock.currentTimeMillis
      const isDue = now - renewedAt >= leaseMillis / 3 && holdings.open.size > 0
      if (isDue) renewedAt = now
      yield* Effect.ignore(isDue ? Effect.andThen(holdings.tell, holdings.renew) : holdings.tell)
    }
  })

export const make = (
  options: BudgetSharedOptions
): Effect.Effect<LedgerShape, ConfigurationError, SharedStore | Scope.Scope> =>
  Effect.gen(function* () {
    const fault = faultOf(options)
    if (fault !== null) return yield* fault
    const store = yield* SharedStore
    const leaseMillis = leaseOf(options) ?? 0
    const holdings = makeHoldings(store, options)
    yield* Effect.addFinalizer(() => Effect.ignore(holdings.tell))
    yield* Effect.forkScoped(tend(store, holdings, leaseMillis))
    return ledgerOf(options, leaseMillis, holdings)
  })

/** The budget of everything below it. */
export const layer = (options: BudgetSharedOptions): Layer.Layer<never, ConfigurationError, SharedStore> =>
  Layer.effect(BudgetLedger, make(options))
