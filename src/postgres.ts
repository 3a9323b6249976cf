/** A store over PostgreSQL, for `holdfast/stores`. Needs `@effect/sql-pg`. */
export * as StorePostgres from "./layers/stores/shared/StorePostgres.ts"
