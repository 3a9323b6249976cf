/** What several processes share: a budget, the health of routes. The store itself is `holdfast/sqlite`, `/redis` or `/postgres`. */
export * as BudgetShared from "./layers/stores/shared/BudgetShared.ts"
export * as HealthShared from "./layers/stores/shared/HealthShared.ts"
export * as RateShared from "./layers/stores/shared/RateShared.ts"
export { SharedStore, StoreAway, type SharedStoreShape } from "./services/SharedStore.ts"
