/**
 * What one process holds of the accounts of a shared store: its reservations are renewed while they are here, and what could
 * not be told of them is told when the store is back, once.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { Account, Standing } from "../../../domain/budget/Account.ts"
import {
  SharedStore,
  type Reserve,
  type Reserved,
  type Settle,
  type SharedStoreShape,
  type StoreAway
} from "../../../services/SharedStore.ts"

export interface Holdings {
  /** Asks for a reservation, once what is untold has been told. Whoever gets it holds it. */
  readonly ask: (reserve: Reserve) => Effect.Effect<Reserved, StoreAway>
  /** It is renewed from here on, until it is released. */
  readonly hold: (reserve: Reserve) => void
  readonly release: (reserve: Reserve) => void
  /** Told now, or when the store is back. */
  readonly settle: (settle: Settle) => Effect.Effect<void>
  /** Sees how accounts stand, if the store says so. */
  readonly look: (accounts: ReadonlyArray<Account>) => Effect.Effect<void>
}

/** How often it looks whether something has to be told or renewed. */
const tendMillis = 250

interface Books {
  readonly open: Set<Reserve>
  readonly tell: Effect.Effect<void, StoreAway>
}

/** Renews what is under way, and tells what could not be told, as long as the scope is open. */
const tend = (store: SharedStoreShape, { open, tell }: Books, leaseMillis: number): Effect.Effect<never> =>
  Effect.gen(function* () {
    const renew = Effect.suspend(() => store.renew([...open]))
    let renewedAt = yield* Clock.currentTimeMillis
    while (true) {
      yield* Effect.sleep(tendMillis)
      if (store.isAway()) continue
      const now = yield* Clock.currentTimeMillis
      const isDue = now - renewedAt >= leaseMillis / 3 && open.size > 0
      if (isDue) renewedAt = now
      yield* Effect.ignore(isDue ? Effect.andThen(tell, renew) : tell)
    }
  })

/** `onSeen` is told how accounts stand whenever the store says it. */
export const makeHoldings = (
  leaseMillis: number,
  onSeen: (accounts: ReadonlyArray<Account>, standings: ReadonlyArray<Standing>) => void
): Effect.Effect<Holdings, never, SharedStore | Scope.Scope> =>
  Effect.gen(function* () {
    const store = yield* SharedStore
    // Invariant: a reservation is in `open` from its admission until it is settled, in the store or in `untold`.
    const open = new Set<Reserve>()
    const untold = new Map<string, Settle>()
    const order = Semaphore.makeUnsafe(1)
    let isStale = false
    const stale = Effect.sync(() => {
      isStale = true
    })
    const settled = (one: Settle) =>
      Effect.map(store.settle(one), (standings) => {
        onSeen(one.accounts, standings)
      })
    /** Tells what the store has not heard of, before anything new is asked of it. */
    const tell: Effect.Effect<void, StoreAway> = Effect.suspend(() =>
      !isStale && untold.size === 0
        ? Effect.void
        : order.withPermit(
            Effect.gen(function* () {
              // What is under way is held again before anybody is given what came back meanwhile.
              if (isStale) yield* store.renew([...open])
              isStale = false
              for (const [id, one] of untold) {
                yield* settled(one)
                untold.delete(id)
              }
            })
          )
    ).pipe(Effect.tapError(() => stale))
    yield* Effect.addFinalizer(() => Effect.ignore(tell))
    yield* Effect.forkScoped(tend(store, { open, tell }, leaseMillis))
    return {
      ask: (reserve) =>
        Effect.andThen(tell, store.reserve(reserve)).pipe(
          Effect.tap(({ standings }) => Effect.sync(() => onSeen(reserve.accounts, standings))),
          Effect.tapError(() => stale)
        ),
      hold: (reserve) => void open.add(reserve),
      release: (reserve) => void open.delete(reserve),
      settle: (one) =>
        Effect.matchEffect(Effect.andThen(tell, settled(one)), {
          onSuccess: () => Effect.void,
          onFailure: () =>
            Effect.andThen(
              Effect.sync(() => void untold.set(one.id, one)),
              stale
            )
        }),
      look: (accounts) =>
        Effect.matchEffect(Effect.andThen(tell, store.standings(accounts)), {
          onSuccess: (standings) => Effect.sync(() => onSeen(accounts, standings)),
          onFailure: () => stale
        })
    }
  })
