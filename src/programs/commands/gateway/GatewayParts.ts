/** What the server asks others to do. Everything in it is of one configuration: a reload brings a new one. */
import type { Json } from "../../../domain/chat/json.ts"
import type { NativeReceipt } from "../../../layers/native/callNative.ts"
import type { RequestFailure } from "../../../services/Recovery.ts"
import type { Answer } from "./Answer.ts"
import type { AnswerWire } from "./answers.ts"
import type { Endpoint, Target } from "./endpoints.ts"
import type { GatewayConfig, ResolvedRoute } from "./GatewayConfig.ts"
import type { makeKeyCheck } from "./keys.ts"

export type Wire = NonNullable<AnswerWire>

/** One call of the three APIs, ready to be answered. */
export interface GatewayCall {
  readonly wire: Wire
  readonly route: ResolvedRoute
  /** Model that takes over for this request only; null = the route's own fallbacks alone. */
  readonly fallback: string | null
  /** Name of the caller's key; null = the gateway has none. */
  readonly key: string | null
  readonly target: Target
  readonly headers: Record<string, string>
  readonly text: string
  /** What the text holds. */
  readonly body: Json
  readonly signal: AbortSignal
  readonly onEnd: (receipt: NativeReceipt) => void
  /** Told of a failure, and of the answer that tells it, or would have, had a stream not begun. */
  readonly onFailed: (failure: RequestFailure, answer: Answer) => void
}

/** Any other call of the API. */
export interface ProxiedCall {
  readonly method: string
  /** Name of the caller's key; null = the gateway has none. */
  readonly key: string | null
  readonly target: Target
  readonly headers: Record<string, string>
  readonly body: Buffer | null
  readonly signal: AbortSignal
}

export interface GatewayParts {
  readonly config: GatewayConfig
  readonly keyOf: ReturnType<typeof makeKeyCheck>
  readonly native: (call: GatewayCall) => Promise<Answer>
  readonly proxy: (call: ProxiedCall) => Promise<Answer>
  /** The pages of the gateway itself; null = there is none of that kind. */
  readonly page: (endpoint: Endpoint) => Promise<Answer | null>
  /** The most a request can use. */
  readonly worstOf: (
    route: ResolvedRoute,
    text: string,
    body: Json
  ) => { readonly tokens: number; readonly usd: number | null }
}
