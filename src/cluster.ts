/** Turns on several machines, over effect's cluster and PostgreSQL. Needs `@effect/sql-pg` and `@effect/platform-node`. */
export * as TurnsPostgres from "./layers/stores/shared/TurnsPostgres.ts"
