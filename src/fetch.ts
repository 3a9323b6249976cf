/**
 * A recovered `fetch` for every SDK and for plain use: requests in the provider's own form go in, the provider's own
 * replies come out. Imports no SDK and nothing of Node: it runs wherever fetch does.
 */
export { failureOf } from "./layers/native/failureStore.ts"
export { holdfast, type HoldfastOptions } from "./layers/native/holdfast.ts"
export {
  recoveredFetch,
  type NativePolicyInput,
  type RecoveredFetchOptions,
  type Upstream
} from "./layers/native/recoveredFetch.ts"
export type { NativeReceipt } from "./layers/native/callNative.ts"
export type { TruncationMode } from "./programs/request/nativePolicy.ts"
export { RecoveryPolicy } from "./domain/recovery/RecoveryPolicy.ts"
