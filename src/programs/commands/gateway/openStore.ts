/** What several gateways share, as the configuration says: their budgets, and the health of their routes. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import * as HealthShared from "../../../layers/stores/shared/HealthShared.ts"
import type { HealthStoreShape } from "../../../services/HealthStore.ts"
import { SharedStore, type SharedStoreShape } from "../../../services/SharedStore.ts"
import { quietly } from "../journalFile.ts"
import { ownModule } from "../ownModule.ts"
import { makeBudgets, type Budgets } from "./budgets.ts"
import type { ResolvedStore, StorePlace } from "./GatewayConfig.ts"
import { makeSharedBudgets } from "./sharedBudgets.ts"

export interface Kept {
  readonly budgets: Budgets
  /** null = the process's own memory. */
  readonly health: HealthStoreShape | null
}

const now = (): number => Date.now()

/** A package that is not installed is a defect, which is told by name. */
const storeAt = (place: StorePlace): Effect.Effect<SharedStoreShape, ConfigurationError, Scope.Scope> => {
  switch (place.kind) {
    case "sqlite":
      return Effect.flatMap(
        Effect.promise(() => quietly(() => import("../../../layers/stores/shared/StoreSqlite.ts"))),
        ({ make }) => make({ path: place.path })
      )
    case "redis":
      return Effect.flatMap(
        Effect.promise(() => import("../../../layers/stores/shared/StoreRedis.ts")),
        ({ make }) => make({ url: place.url })
      )
    case "postgres":
      return Effect.flatMap(
        Effect.promise(() => ownModule("holdfast/postgres")),
        // The text itself: another copy of effect cannot read what this one has hidden.
        ({ make }) => make({ url: Redacted.value(place.url) })
      )
  }
}

/** Open as long as the scope; null = this process keeps it all itself. */
export const openStore = (store: ResolvedStore | null): Effect.Effect<Kept, ConfigurationError, Scope.Scope> =>
  store === null
    ? Effect.succeed({ budgets: makeBudgets(now), health: null })
    : Effect.gen(function* () {
        const opened = SharedStore.of(yield* storeAt(store.place))
        const { usdWhileAway } = store
        return yield* Effect.all({
          budgets: makeSharedBudgets({ now, usdWhileAway }),
          health: HealthShared.make()
        }).pipe(Effect.provideService(SharedStore, opened))
      })
