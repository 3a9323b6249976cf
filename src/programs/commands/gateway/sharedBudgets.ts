/**
 * The budgets of the gateway's keys, kept with other gateways in a shared store: each window of a key is an account there. While the
 * store is away requests and tokens are counted by this process alone, and USD are spent only of a share of its own.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Account from "../../../domain/budget/Account.ts"
import { makeHoldings } from "../../../layers/stores/shared/holdings.ts"
import type { Reserve, SharedStore } from "../../../services/SharedStore.ts"
import { makeBudgets, type Admitted, type Budgets, type OwnBudgets } from "./budgets.ts"
import type { GatewayKey } from "./GatewayConfig.ts"
import { dayMillis, minuteMillis, nanoOf, type KeyLimits, type Use } from "./KeyBudget.ts"

export interface SharedBudgetsOptions {
  /** Reads the wall clock. */
  readonly now: () => number
  /** USD that this process may spend of each key's budget in one time without the store; null = nothing. */
  readonly usdWhileAway: number | null
}

/** A gateway that was killed gives back what its requests had reserved. */
const leaseMillis = 60_000

interface Window {
  readonly account: Account.Account
  readonly until: number
}

/** Windows of a key that are limited; an account is forgotten a window after its own. */
const windowsOf = (key: string, limits: KeyLimits, now: number): ReadonlyArray<Window> => {
  const { usdPerDay, tokensPerMinute = null, requestsPerMinute = null } = limits
  const windowOf = (name: string, millis: number, of: Account.CountLimits): Window => {
    const begin = Math.floor(now / millis) * millis
    const account = { name: `gateway/${key}/${name}/${begin}`, limits: of, untilMillis: begin + 2 * millis }
    return { account, until: begin + millis }
  }
  return [
    ...(usdPerDay === undefined
      ? []
      : [windowOf("day", dayMillis, { requests: null, tokens: null, nanoUsd: nanoOf(usdPerDay) })]),
    ...(tokensPerMinute === null && requestsPerMinute === null
      ? []
      : [windowOf("minute", minuteMillis, { requests: requestsPerMinute, tokens: tokensPerMinute, nanoUsd: null })])
  ]
}

const limitNames = { requests: "requestsPerMinute", tokens: "tokensPerMinute", nanoUsd: "usdPerDay" } as const

/** The limit that did not let a request in; others may have given something back since: then it is the first one. */
const refusalOf = (
  windows: ReadonlyArray<Window>,
  standings: ReadonlyArray<Account.Standing>,
  worst: Account.Counts,
  now: number
): Admitted => {
  const units = windows.map(({ account }, at) =>
    Account.misfit(account.limits, standings[at] ?? Account.untouched, worst)
  )
  const at = Math.max(
    0,
    units.findIndex((unit) => unit !== null)
  )
  const until = windows[at]?.until ?? now
  return {
    _tag: "Refused",
    limit: limitNames[units[at] ?? "requests"],
    seconds: Math.max(1, Math.ceil((until - now) / 1_000))
  }
}

/** What this process admits by itself, anew in each time without the store. */
const makeAlone = ({ now, usdWhileAway }: SharedBudgetsOptions) => {
  let alone: OwnBudgets | null = null
  return {
    end: (): void => void (alone = null),
    admit: (key: GatewayKey, limits: KeyLimits, worst: Use): Admitted => {
      if (limits.usdPerDay !== undefined && usdWhileAway === null) return { _tag: "Away" }
      alone ??= makeBudgets(now)
      const { usdPerDay: _, ...rates } = limits
      return alone.admit(
        { ...key, budget: usdWhileAway === null ? rates : { ...rates, usdPerDay: usdWhileAway } },
        worst
      )
    }
  }
}

const countsOf = ({ tokens, usd }: Use, least: Use | null): Account.Counts => ({
  requests: 1,
  tokens: Math.max(0, Math.ceil(tokens)),
  nanoUsd: nanoOf(usd ?? least?.usd ?? 0)
})

type Run = <A>(effect: Effect.Effect<A>) => Promise<A>

/** What was used stands in the place of what was reserved: once, in the store and in what this process counts alone. */
const settledOnce = (settle: (spent: Use) => void): ((spent: Use) => void) => {
  let isSettled = false
  return (spent) => {
    if (isSettled) return
    isSettled = true
    settle(spent)
  }
}

export const makeSharedBudgets = (
  options: SharedBudgetsOptions
): Effect.Effect<Budgets, never, SharedStore | Scope.Scope> =>
  Effect.gen(function* () {
    const { now } = options
    const day = new Map<string, { readonly begin: string; readonly nanoUsd: number }>()
    const see = (accounts: ReadonlyArray<Account.Account>, standings: ReadonlyArray<Account.Standing>): void => {
      for (const [at, { name }] of accounts.entries()) {
        const [, key = "", kind, begin = ""] = name.split("/")
        const standing = standings[at]
        if (kind !== "day" || standing === undefined) continue
        day.set(key, { begin, nanoUsd: standing.spent.nanoUsd + standing.reserved.nanoUsd })
      }
    }
    const holdings = yield* makeHoldings(leaseMillis, see)
    const run: Run = Effect.runPromiseWith(yield* Effect.context<never>())
    const alone = makeAlone(options)
    const process = crypto.randomUUID()
    let count = 0

    const admit = (key: GatewayKey, limits: KeyLimits, worst: Use): Effect.Effect<Admitted> =>
      Effect.suspend(() => {
        const at = now()
        const windows = windowsOf(key.name, limits, at)
        count += 1
        // A request larger than the whole window would never fit: it goes when it has the window for itself.
        const tokens = Math.min(worst.tokens, limits.tokensPerMinute ?? Infinity)
        const asked: Reserve = {
          id: `${process}/${count}`,
          accounts: windows.map(({ account }) => account),
          worst: countsOf({ ...worst, tokens }, null),
          leaseMillis
        }
        const admitted = (own: ((spent: Use) => void) | null): Admitted => {
          holdings.hold(asked)
          const { id, accounts } = asked
          const settle = settledOnce((spent) => {
            own?.(spent)
            holdings.release(asked)
            void run(holdings.settle({ id, accounts, spent: countsOf(spent, worst), rememberMillis: dayMillis }))
          })
          return { _tag: "Admitted", settle }
        }
        return Effect.matchEffect(holdings.ask(asked), {
          onSuccess: ({ isAdmitted, standings }) =>
            Effect.sync(() => {
              alone.end()
              return isAdmitted ? admitted(null) : refusalOf(windows, standings, asked.worst, at)
            }),
          onFailure: ({ isSent }) => {
            const answer = alone.admit(key, limits, worst)
            if (answer._tag === "Admitted") return Effect.sync(() => admitted(answer.settle))
            // It may have been made: it is given back as soon as the store can be told.
            const given = { id: asked.id, accounts: asked.accounts, spent: Account.nothing, rememberMillis: dayMillis }
            return Effect.as(isSent ? holdings.settle(given) : Effect.void, answer)
          }
        })
      })

    return {
      admit: (key, worst) =>
        key === null || key.budget === null || windowsOf(key.name, key.budget, 0).length === 0
          ? { _tag: "Admitted", settle: () => undefined }
          : run(Effect.uninterruptible(admit(key, key.budget, worst))),
      spending: () => {
        const begin = String(Math.floor(now() / dayMillis) * dayMillis)
        return new Map([...day].map(([key, seen]) => [key, seen.begin === begin ? seen.nanoUsd / 1e9 : 0]))
      }
    }
  })
