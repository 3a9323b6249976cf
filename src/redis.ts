/** A store over Redis, for `holdfast/stores`. Needs `redis` and `@effect/platform-node`. */
export * as StoreRedis from "./layers/stores/shared/StoreRedis.ts"
