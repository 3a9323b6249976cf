/** What the system's code of a failed connection says. Codes only, never a message. */

/** The server's certificate is not one to trust: asking again changes nothing. */
const certificateCodes: ReadonlySet<string> = new Set([
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "CERT_REVOKED",
  "CERT_REJECTED",
  "CERT_UNTRUSTED",
  "CERT_SIGNATURE_FAILURE",
  "CERT_CHAIN_TOO_LONG",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "HOSTNAME_MISMATCH",
  "INVALID_CA"
])

export const isCertificateCode = (code: string | null): boolean => code !== null && certificateCodes.has(code)

/** Nothing listens there, or there is no such name. */
const nowhereCodes: ReadonlySet<string> = new Set([
  "ENOTFOUND",
  "EAI_AGAIN",
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL"
])

export const isNowhereCode = (code: string | null): boolean => code !== null && nowhereCodes.has(code)

/** Host and port of an address, for eyes: no user, no path, no query. null = it is none. */
export const hostAndPort = (address: string): string | null => {
  if (!URL.canParse(address)) return null
  const { protocol, hostname, port } = new URL(address)
  return `${protocol}//${hostname}:${port === "" ? (protocol === "http:" ? 80 : 443) : port}`
}
