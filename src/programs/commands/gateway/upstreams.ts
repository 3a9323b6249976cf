/** An upstream as a request needs it: its address below the API's path, its own key, its profile. */
import * as Redacted from "effect/Redacted"
import { profileNamed } from "../../../domain/provider/Profiles.ts"
import type { Upstream } from "../../../layers/native/fetchOptions.ts"
import type { Target } from "./endpoints.ts"
import type { ResolvedUpstream } from "./GatewayConfig.ts"
import type { Wire } from "./GatewayParts.ts"

/** The address of an API below an upstream's. Anthropic's is often written without its version. */
export const addressAt = (upstream: ResolvedUpstream, wire: Wire, { path, query }: Target): string => {
  const below = path.replace(/^\/v1/, "")
  const isVersioned = /\/v\d+[a-z]*(\/|$)/.test(new URL(upstream.baseUrl).pathname)
  return `${upstream.baseUrl}${isVersioned || wire !== "messages" ? "" : "/v1"}${below}${query}`
}

/** The upstream's own key and headers, in the form its API reads. */
export const headersFor = (
  upstream: ResolvedUpstream,
  wire: Wire | null,
  onward: Record<string, string>
): Record<string, string> => {
  const headers = { ...onward, ...upstream.headers }
  if (upstream.apiKey === null) return headers
  const key = Redacted.value(upstream.apiKey)
  if (wire === "messages") return { "anthropic-version": "2023-06-01", ...headers, "x-api-key": key }
  return { ...headers, authorization: `Bearer ${key}` }
}

export const upstreamOf = (upstream: ResolvedUpstream): Upstream => {
  const profile = upstream.profile === null ? null : profileNamed(upstream.profile)
  return {
    baseUrl: upstream.baseUrl,
    headers: upstream.headers,
    ...(upstream.apiKey === null ? {} : { apiKey: upstream.apiKey }),
    ...(profile === null ? {} : { profile })
  }
}
