/** What the system's code of a failed connection says. Codes only, never a message. */

/** Nothing listens there, there is no way there, or there is no such name. */
const nowhereCodes: ReadonlySet<string> = new Set([
  "ENOTFOUND",
  "EAI_AGAIN",
  "EAI_FAIL",
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "EHOSTDOWN",
  "ENETUNREACH",
  "ENETDOWN"
])

const startsWithOne = (code: string, beginnings: ReadonlyArray<string>): boolean =>
  beginnings.some((beginning) => code.startsWith(beginning))

/** Nobody was reached. */
export const isNowhereCode = (code: string | null): boolean => code !== null && nowhereCodes.has(code)

/** The server's certificate is not one to trust: asking again changes nothing. */
export const isCertificateCode = (code: string | null): boolean =>
  code !== null &&
  (startsWithOne(code, ["CERT_", "UNABLE_TO_", "DEPTH_ZERO_", "SELF_SIGNED_", "ERR_TLS_CERT_"]) ||
    code === "HOSTNAME_MISMATCH" ||
    code === "INVALID_CA")

/** No byte of the request was sent: no connection, or no secure one, came about. */
export const neverLeft = (code: string | null): boolean =>
  code !== null &&
  (isNowhereCode(code) ||
    isCertificateCode(code) ||
    code === "UND_ERR_CONNECT_TIMEOUT" ||
    startsWithOne(code, ["ERR_TLS_", "ERR_SSL_"]))
