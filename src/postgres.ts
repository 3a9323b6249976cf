/** PostgreSQL: a store for `holdfast/stores`, and the journals of `holdfast/durable`. Needs `@effect/sql-pg`. */
export * as JournalPostgres from "./layers/stores/shared/JournalPostgres.ts"
export * as StorePostgres from "./layers/stores/shared/StorePostgres.ts"
