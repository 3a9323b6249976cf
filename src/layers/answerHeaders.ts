/** Which headers of an answer may be looked at. Everything else, cookies and echoes of keys included, stays outside. */

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

/** The allowed headers, names in lower case. */
export const allowedHeaders = (headers: Headers): Record<string, string> => {
  const kept: Record<string, string> = {}
  headers.forEach((value, name) => {
    const lower = name.toLowerCase()
    if (allowed.has(lower) || allowedPrefixes.some((prefix) => lower.startsWith(prefix))) kept[lower] = value
  })
  return kept
}

/** Shorter words are too common to be secrets. */
const shortestSecret = 8

/** A provider's words without the keys we know of. */
export const replaceSecrets = (text: string, secrets: ReadonlyArray<string>): string =>
  secrets
    .filter((secret) => secret.length >= shortestSecret)
    .reduce((clean, secret) => clean.replaceAll(secret, "<redacted>"), text)
    .replaceAll(/\b(Bearer\s+)\S+/gi, "$1<redacted>")
