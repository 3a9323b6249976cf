/** A store for the processes of one host: `node:sqlite`, no server. For `holdfast/stores`. Node only. */
export * as StoreSqlite from "./layers/stores/shared/StoreSqlite.ts"
