/** Which headers of an answer may be looked at. Everything else, cookies and echoes of keys included, stays outside. */
import * as Result from "effect/Result"
import { remembered } from "./remembered.ts"

const allowed = new Set([
  "content-type",
  "date",
  "retry-after",
  "retry-after-ms",
  "x-ms-retry-after-ms",
  "x-should-retry",
  "x-request-id",
  "request-id",
  "apim-request-id",
  "x-amzn-errortype",
  "x-amzn-requestid"
])

/** Families of rate-limit headers: OpenAI's, Anthropic's, Azure's and the draft standard's. */
const allowedPrefixes = ["x-ratelimit-", "anthropic-ratelimit-", "ratelimit-", "ratelimitbysize-", "x-tokenlimit-"]

/** The name in lower case, when its header may be looked at. */
const allowedName = remembered((name) => {
  const lower = name.toLowerCase()
  return allowed.has(lower) || allowedPrefixes.some((prefix) => lower.startsWith(prefix)) ? lower : null
})

/** The allowed headers, names in lower case; one that echoes a secret is not allowed. */
export const allowedHeaders = (
  lines: Iterable<readonly [string, string]>,
  secrets: Secrets
): Record<string, string> => {
  const kept: Record<string, string> = {}
  for (const [name, value] of lines) {
    const lower = allowedName(name)
    if (lower !== null && !secrets.keys.some((key) => value.includes(key))) kept[lower] = value
  }
  return kept
}

/** What a request carried and nobody else may see. */
export interface Secrets {
  /** Credentials: nothing that holds one of them is kept. */
  readonly keys: ReadonlyArray<string>
  /** Credentials and the values of all headers of the caller's own: replaced in a provider's words. */
  readonly values: ReadonlyArray<string>
}

/** A request as it was handed to fetch. */
export interface Sent {
  readonly url: string
  readonly headers: RequestInit["headers"] | Readonly<Record<string, string>>
}

/** Shorter words are too common to be secrets. */
const shortestSecret = 8

/** Headers of the SDKs and of HTTP: the same in every program. */
const isCommon = (name: string): boolean =>
  /^(accept|anthropic-(version|beta|dangerous.*)|connection|content-.*|host|user-agent|x-stainless-.*)$/.test(name)

const isCredential = (name: string): boolean => /auth|key|token|secret|cookie|credential|password|signature/.test(name)

const kindOf = remembered((name) => (isCommon(name) ? "common" : isCredential(name) ? "credential" : "own"))

/** As it is, and as it stands in an address. */
const spellings = remembered((value): ReadonlyArray<string> => [value, encodeURIComponent(value)])

const decoded = (part: string): string =>
  Result.getOrElse(
    Result.try(() => decodeURIComponent(part)),
    () => part
  )

/** Of the UTF-8 bytes. */
const base64 = (text: string): string => btoa(String.fromCharCode(...new TextEncoder().encode(text)))

const addressSecrets = (address: string): ReadonlyArray<string> => {
  // Most addresses have neither a user nor a query.
  if (!address.includes("@") && !address.includes("?")) return []
  if (!URL.canParse(address)) return []
  const url = new URL(address)
  const user = decoded(url.username)
  const password = decoded(url.password)
  return [user, password, ...(password === "" ? [] : [base64(`${user}:${password}`)]), ...url.searchParams.values()]
}

const sorted = (found: ReadonlyArray<string>): ReadonlyArray<string> =>
  found
    .filter((value) => value.length >= shortestSecret)
    .flatMap(spellings)
    .sort((left, right) => right.length - left.length)

/** Names in lower case. */
const linesOf = (headers: Sent["headers"]): Iterable<readonly [string, string]> =>
  headers instanceof Headers
    ? headers
    : Array.isArray(headers) || headers === undefined
      ? new Headers(headers ?? {})
      : Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)] as const)

/** What an answer is searched for. The values are needed only after a failure. */
export const secretsOf = (sent: Sent | undefined): Secrets => {
  if (sent === undefined) return { keys: [], values: [] }
  const keys = [...addressSecrets(sent.url)]
  const values: Array<string> = []
  for (const [name, value] of linesOf(sent.headers)) {
    const kind = kindOf(name)
    if (kind === "common") continue
    // `Bearer`, `Basic` and the like are no part of the secret.
    const word = value.replace(/^\w+ +/, "")
    if (kind === "credential") keys.push(word)
    else values.push(value)
  }
  let all: ReadonlyArray<string> | null = null
  return {
    keys: sorted(keys),
    get values() {
      return (all ??= sorted([...keys, ...values]))
    }
  }
}

/** A provider's words without the secrets of the request. */
export const replaceSecrets = (text: string, secrets: Secrets): string =>
  secrets.values
    .reduce((clean, secret) => clean.replaceAll(secret, "<redacted>"), text)
    .replaceAll(/\b(Bearer\s+)\S+/gi, "$1<redacted>")

/** A code that holds a secret is none. */
export const withoutSecrets = (code: string | null, secrets: Secrets): string | null =>
  code !== null && secrets.values.some((secret) => code.includes(secret)) ? null : code
