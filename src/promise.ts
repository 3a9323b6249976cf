/** holdfast for plain TypeScript: promises, async iterators and AbortSignals; no Effect in sight. */
export {
  createRecovery,
  type CreateOptions,
  type PromiseCalls,
  type PromiseRecovery
} from "./promise/createRecovery.ts"
export type { CallOptions } from "./promise/edge.ts"
