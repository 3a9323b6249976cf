/**
 * A BudgetLedger that several processes spend from. A request reserves its worst case in the store before it is sent, for a
 * lease that is renewed while it runs, and settles what it spent after; a process that dies gives its reservations back
 * with their lease. While the store is away nothing is admitted, unless this process has a share of its own for that time;
 * what could not be told is told when the store is back, once.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Account from "../../../domain/budget/Account.ts"
import * as Budget from "../../../domain/budget/Budget.ts"
import { BudgetExceeded } from "../../../domain/failure/AgentError.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { notBegun } from "../../../domain/failure/RecoveryError.ts"
import { budgetStoreAdvice } from "../../../domain/failure/words.ts"
import { BudgetLedger, type LedgerShape, type Reservation } from "../../../services/BudgetLedger.ts"
import type { Reserve, SharedStore } from "../../../services/SharedStore.ts"
import { exceeded } from "../BudgetMemory.ts"
import { childOf } from "./childLedger.ts"
import { makeHoldings, type Holdings } from "./holdings.ts"
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

/** The account as this process saw it last. */
const makeAccount = (options: BudgetSharedOptions) => {
  const accounts = [{ name: safeText(options.name), limits: Account.limitsOf(options.limits), untilMillis: null }]
  let seen: Account.Standing = Account.untouched
  return {
    accounts,
    seen: () => seen,
    see: (standings: ReadonlyArray<Account.Standing>): void => {
      seen = standings[0] ?? seen
    }
  }
}

type OwnAccount = ReturnType<typeof makeAccount>

/** What this process spends while the store is away. */
const makeShare = ({ limits, whileAway = "closed" }: BudgetSharedOptions, { seen }: OwnAccount) => {
  // Null = the store was there when it was asked last, or nothing is spent without it.
  let budget: Budget.Budget | null = null
  const taken = new WeakSet<Reservation>()
  return {
    budget: () => budget,
    end: (): void => void (budget = null),
    take: (reservation: Reservation): BudgetExceeded | null => {
      if (whileAway === "closed") return storeAway()
      const { spent, reserved } = seen()
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

const ledgerOf = (
  options: BudgetSharedOptions,
  leaseMillis: number,
  own: OwnAccount,
  holdings: Holdings
): LedgerShape => {
  const { limits, name } = options
  const { accounts, seen } = own
  const process = crypto.randomUUID()
  const share = makeShare(options, own)
  const held = new WeakMap<Reservation, Reserve>()
  let count = 0
  const refused = (worst: Budget.Amount): BudgetExceeded =>
    // Others had it reserved a moment ago.
    exceeded(
      refusalOf(budgetOf(limits, seen()), worst) ?? Account.refusalBy("nanoUsd", Account.limitsOf(limits), seen())
    )
  const settle = (id: string, spent: Account.Counts, remember = rememberMillis): Effect.Effect<void> =>
    holdings.settle({ id, accounts, spent, rememberMillis: remember })

  const admit = (worst: Budget.Amount): Effect.Effect<Reservation, BudgetExceeded> =>
    Effect.suspend(() => {
      if (worst.costUsd === null && limits.maxCostUsd !== null) return Effect.fail(refused(worst))
      count += 1
      const reservation: Reservation = { worst }
      const asked: Reserve = { id: `${process}/${count}`, accounts, worst: Account.countsOf(worst), leaseMillis }
      const hold = (): Reservation => {
        held.set(reservation, asked)
        holdings.hold(asked)
        return reservation
      }
      return Effect.matchEffect(holdings.ask(asked), {
        onSuccess: ({ isAdmitted }) => {
          share.end()
          return isAdmitted ? Effect.sync(hold) : Effect.fail(refused(worst))
        },
        onFailure: ({ isSent }) => {
          const failure = share.take(reservation)
          if (failure === null) return Effect.sync(hold)
          // It may have been made: it is given back as soon as the store can be told.
          const given = isSent ? settle(asked.id, Account.nothing) : Effect.void
          return Effect.andThen(given, Effect.fail(failure))
        }
      })
    }).pipe(Effect.uninterruptible)

  const standing = Effect.map(holdings.look(accounts), seen)
  const budget = Effect.map(standing, (now) => share.budget() ?? budgetOf(limits, now))
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
        const asked = held.get(reservation)
        if (asked === undefined) return Effect.void
        held.delete(reservation)
        holdings.release(asked)
        share.settle(reservation, spent)
        const costUsd = spent.costUsd ?? reservation.worst.costUsd
        return settle(asked.id, Account.countsOf({ tokens: spent.tokens, costUsd }))
      }),
    book: (key, spent) => settle(`${safeText(name)}/booked/${safeText(key)}`, Account.countsOf(spent), bookedMillis),
    child: (further) => Effect.sync(() => childOf(ledger, further)),
    check: Effect.flatMap(budget, (now) => {
      const refusal = Budget.exhaustionOf(now)
      return refusal === null ? Effect.void : Effect.fail(exceeded(refusal))
    }),
    balance: Effect.map(standing, (now) => budgetOf(limits, now))
  }
  return ledger
}

export const make = (
  options: BudgetSharedOptions
): Effect.Effect<LedgerShape, ConfigurationError, SharedStore | Scope.Scope> =>
  Effect.gen(function* () {
    const fault = faultOf(options)
    if (fault !== null) return yield* fault
    const leaseMillis = leaseOf(options) ?? 0
    const own = makeAccount(options)
    const holdings = yield* makeHoldings(leaseMillis, (_accounts, standings) => own.see(standings))
    return ledgerOf(options, leaseMillis, own, holdings)
  })

/** The budget of everything below it. */
export const layer = (options: BudgetSharedOptions): Layer.Layer<never, ConfigurationError, SharedStore> =>
  Layer.effect(BudgetLedger, make(options))
