/**
 * What several processes know together: accounts they spend from, and small values with a version. Each operation is one
 * step that no other comes between, over all the accounts or keys it names. It fails as StoreAway at once while the store is
 * known to be away, and after `patience` when it does not answer: nobody waits for a frozen store.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Account, Counts, Standing } from "../domain/budget/Account.ts"

/** The store did not answer, or is known not to. `isSent` = what was asked may have been done all the same. */
export class StoreAway extends Schema.TaggedError<StoreAway>()("StoreAway", {
  store: Schema.String,
  reason: Schema.String,
  isSent: Schema.Boolean
}) {
  override get message(): string {
    return `the ${this.store} store ${this.reason}`
  }
}

export interface Reserve {
  /** Names the reservation in all processes; the same one is made once. */
  readonly id: string
  readonly accounts: ReadonlyArray<Account>
  readonly worst: Counts
  /** It is given back so long after its last renewal. */
  readonly leaseMillis: number
}

export interface Settle {
  readonly id: string
  readonly accounts: ReadonlyArray<Account>
  readonly spent: Counts
  /** How long a second time is told from the first. */
  readonly rememberMillis: number
}

export interface Reserved {
  /** All accounts let it in, or none of them has it. */
  readonly isAdmitted: boolean
  /** In the order of the accounts, with the reservation in them when it was admitted. */
  readonly standings: ReadonlyArray<Standing>
}

/** A value as it stands; version 0 = nobody has written it. */
export interface Versioned {
  readonly key: string
  readonly version: number
  readonly value: string | null
}

export interface Swap {
  /** What the caller knows of each key. */
  readonly known: ReadonlyArray<{ readonly key: string; readonly version: number }>
  /** Written when all of `known` is still so. */
  readonly writes: ReadonlyArray<{ readonly key: string; readonly value: string }>
  /** How long a value is kept after it was written last. */
  readonly keepMillis: number
}

export interface Swapped {
  /** False: somebody else has written; `current` is how it stands, of the keys that differ. */
  readonly isDone: boolean
  readonly current: ReadonlyArray<Versioned>
  /** The store's clock, epoch milliseconds. */
  readonly atMillis: number
}

export interface SharedStoreShape {
  /** What it is, for a log line: no address and no secret. */
  readonly name: string
  readonly reserve: (reserve: Reserve) => Effect.Effect<Reserved, StoreAway>
  /** Gives the reservation back and books what was spent, once per id, also when its lease has ended. */
  readonly settle: (settle: Settle) => Effect.Effect<ReadonlyArray<Standing>, StoreAway>
  /** Holds reservations for another lease; one that was given back meanwhile is made again, whatever the limits say. */
  readonly renew: (reserves: ReadonlyArray<Reserve>) => Effect.Effect<void, StoreAway>
  readonly standings: (accounts: ReadonlyArray<Account>) => Effect.Effect<ReadonlyArray<Standing>, StoreAway>
  readonly swap: (swap: Swap, patienceMillis: number) => Effect.Effect<Swapped, StoreAway>
  /** Answers nothing to be done now: whoever waits for the store to come back asks it. */
  readonly isAway: () => boolean
}

export class SharedStore extends Context.Service<SharedStore, SharedStoreShape>()("holdfast/services/SharedStore") {}
