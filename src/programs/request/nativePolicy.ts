/**
 * The policy of one native request: the caller's, with the roads that are right for what the request asks, and a budget
 * that is the caller's own. Pure.
 */
import type { RequestView } from "../../domain/wires/native/NativeWire.ts"
import { forTools, RecoveryPolicy, type Route } from "../../domain/recovery/RecoveryPolicy.ts"

/**
 * What becomes of an answer that ran into its output limit. `uncapped`: only a stop that the caller did not ask for is
 * continued. `always`: the caller's cap is a habit of the client: raised once, then continued. `never`: passed on.
 */
export type TruncationMode = "uncapped" | "always" | "never"

export interface NativePolicy {
  readonly policy: RecoveryPolicy
  /** A length stop is a value. */
  readonly passTruncated: boolean
  /** What cannot be done for this request, and why; null = nothing. */
  readonly off: string | null
}

/** Why the request may go to no other account or model, and be changed in nothing; null = it may. */
const bindingOf = (view: RequestView): string | null =>
  view.only !== null
    ? `${view.only}: the request is only repeated`
    : view.pins.length > 0
      ? `${view.pins.join(", ")}: the request stays with its server and is only repeated`
      : null

/** What makes the server work on without us stays there; that it is sent once is the driver's business. */
const stays = { fallbackAfter: {}, trustShouldRetry: false } as const

/** The largest budget a raise may ask for; null = a raise is not for this request. */
const raisedTo = (policy: RecoveryPolicy, cap: number, route: Route): number =>
  Math.max(cap, Math.min(policy.escalatedMaxTokens, route.outputLimit ?? Infinity))

/** `routes`: the primary for this request, then those that may take over. */
export const nativePolicy = (
  base: RecoveryPolicy,
  routes: readonly [Route, ...Array<Route>],
  view: RequestView,
  truncation: TruncationMode
): NativePolicy => {
  const binding = bindingOf(view)
  const { cap } = view
  const isRaisable = truncation === "always" && cap !== null
  const passTruncated =
    binding !== null ||
    truncation === "never" ||
    (cap !== null && truncation !== "always") ||
    (view.isStructured && !isRaisable)
  const [home] = routes
  const onCut = view.only !== null ? "fail" : base.onCut === "restart" ? "splice" : base.onCut
  const policy = new RecoveryPolicy({
    ...base,
    // Limits of the primary are the provider's to tell: the caller's own cap is sent as it is.
    routes:
      binding === null ? routes.map((route, index) => (index === 0 ? { ...route, outputLimit: null } : route)) : [home],
    // No budget is added to a request that has none.
    initialMaxTokens: cap,
    escalatedMaxTokens: isRaisable ? raisedTo(base, cap, home) : Math.max(cap ?? 1, base.escalatedMaxTokens),
    raise: isRaisable ? base.raise : "never",
    onCut: view.streams ? onCut : base.onCut,
    ...(binding === null ? {} : { compaction: { mode: "off" as const } }),
    ...(view.isBackground ? stays : {})
  })
  return { policy: view.hasTools ? forTools(policy) : policy, passTruncated, off: binding }
}
