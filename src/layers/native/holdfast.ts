/** An SDK's client, recovered: the same type, every method. Knows the client only by what it is asked for. */
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"
import { withExchange } from "../provider/exchange.ts"
import { platformExchange } from "../provider/platformExchange.ts"
import type { Fetch } from "../provider/undiciFetch.ts"
import { recoveredFetch, type NativePolicyInput, type RecoveredFetchOptions } from "./recoveredFetch.ts"

export type HoldfastOptions = Omit<RecoveredFetchOptions, "baseUrl">

/** What the clients of `openai` and `@anthropic-ai/sdk` have in common. */
interface Client {
  readonly baseURL: string
  readonly withOptions: (options: { readonly [name: string]: unknown }) => unknown
}

const isClient = (value: unknown): value is Client =>
  typeof value === "object" &&
  value !== null &&
  typeof Reflect.get(value, "withOptions") === "function" &&
  typeof Reflect.get(value, "baseURL") === "string"

/** The fetch a client sends with; the platform's when it does not show one. */
const fetchOf = (client: object): Fetch => {
  const own: unknown = Reflect.get(client, "fetch")
  if (typeof own !== "function") return fetch
  const send: Fetch = (input, init) => Reflect.apply(own, undefined, [input, init])
  return withExchange(
    send,
    platformExchange(() => own as Fetch)
  )
}

/** The longest a timer can be: recovery's times rule, unless the client was given a time of its own. */
const liftedMillis = 2 ** 31 - 1

/** A time-out that the caller gave the client; undefined = it has the SDK's default. */
const ownTimeout = (client: object): unknown => {
  const options: unknown = Reflect.get(client, "_options")
  return typeof options === "object" && options !== null ? Reflect.get(options, "timeout") : undefined
}

/**
 * A client of the same type whose calls are recovered. Its own retries are off; a `timeout` or `signal` of a call, and a
 * time-out that the client was made with, are obeyed as before. The given client is not changed.
 */
export const holdfast = <C extends object>(
  client: C,
  policy: NativePolicyInput = RecoveryPolicy.broad,
  options: HoldfastOptions = {}
): C => {
  if (!isClient(client))
    throw new ConfigurationError({ field: "client", reason: "is not a client of openai or @anthropic-ai/sdk" })
  const inner = options.fetch ?? fetchOf(client)
  const timeout = ownTimeout(client)
  const recovered: unknown = client.withOptions({
    fetch: recoveredFetch(policy, { ...options, fetch: inner, baseUrl: client.baseURL }),
    maxRetries: 0,
    ...(timeout === undefined ? { timeout: liftedMillis } : {})
  })
  // `withOptions` gives the class of the client it is asked of.
  return recovered as C
}
