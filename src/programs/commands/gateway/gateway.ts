/** A configuration put to work. What outlives a reload (`Shared`) comes in; everything else is made anew. */
import type { GatewayConfig } from "./GatewayConfig.ts"
import type { GatewayCall, GatewayParts } from "./GatewayParts.ts"
import { makeKeyCheck } from "./keys.ts"
import { pageOf } from "./pages.ts"
import { makePassing } from "./passing.ts"
import { makeRouteCalls } from "./routeCalls.ts"
import type { Shared } from "./Shared.ts"
import { makeWithoutKeys } from "./withoutKeys.ts"
import { worstOf } from "./worst.ts"

export { makeShared, type Shared } from "./Shared.ts"

export const makeParts = (config: GatewayConfig, shared: Shared): GatewayParts => {
  const { proxy, asItIs } = makePassing(config, shared)
  const native = makeRouteCalls(shared, asItIs)
  const withoutKeys = makeWithoutKeys(config)
  return {
    config,
    keyOf: makeKeyCheck(config.keys),
    native: (call) => {
      const onFailed: GatewayCall["onFailed"] = (failure, answer) => call.onFailed(failure, withoutKeys(answer))
      return native({ ...call, onFailed }).then(withoutKeys)
    },
    proxy: (call) => proxy(call).then(withoutKeys),
    page: (endpoint) => pageOf(config, shared, endpoint),
    worstOf
  }
}
