/** Who asks: the key of a request against the keys of the configuration, in the same time whether and where it fits. */
import { createHash, timingSafeEqual } from "node:crypto"
import * as Redacted from "effect/Redacted"
import type { GatewayKey } from "./GatewayConfig.ts"

type Headers = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

const digest = (text: string): Buffer => createHash("sha256").update(text).digest()

/** The key as the clients of all three wires send it: `Authorization: Bearer`, `x-api-key` or `api-key`. */
const keyIn = (headers: Headers): string => {
  const bearer = /^Bearer[ ]+(.+)$/i.exec(String(headers["authorization"] ?? ""))?.[1]
  return bearer ?? String(headers["x-api-key"] ?? headers["api-key"] ?? "")
}

/** Digests are made once; all of them are compared, so that time tells nothing. Null = none of the keys. */
export const makeKeyCheck = (keys: ReadonlyArray<GatewayKey>) => {
  const known = keys.map((key) => ({ key, digest: digest(Redacted.value(key.secret)) }))
  return (headers: Headers): GatewayKey | null => {
    if (known.length === 0) return null
    const given = digest(keyIn(headers))
    let found: GatewayKey | null = null
    for (const one of known) if (timingSafeEqual(one.digest, given)) found = one.key
    return found
  }
}
