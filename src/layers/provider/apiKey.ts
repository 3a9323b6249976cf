/** A provider's key: a text, a redacted one, or a function that is asked for it before every request. */
import * as Redacted from "effect/Redacted"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { keyFlaw } from "../../domain/provider/address.ts"

export type Key = string | Redacted.Redacted<string>

/** Short-lived tokens: what it returns is sent with one request and kept nowhere. */
export type KeySource = Key | (() => Key | PromiseLike<Key>)

const bad = (reason: string): ConfigurationError => new ConfigurationError({ field: "apiKey", reason })

/** The text of a key that can be sent. */
const textOf = (given: unknown, empty: string): string => {
  const key = Redacted.isRedacted(given) ? Redacted.value(given) : given
  if (typeof key !== "string" || key.trim() === "") throw bad(empty)
  const flaw = keyFlaw(key)
  if (flaw !== null) throw bad(flaw)
  return key
}

/** What an SDK takes; undefined = nothing was given. A key that cannot be sent is a ConfigurationError. */
export const sdkKey = (given: KeySource | undefined): string | (() => Promise<string>) | undefined => {
  if (given === undefined) return undefined
  if (typeof given !== "function")
    return textOf(given, "is empty or no text: give the key, or a function that gives it")
  return async () => textOf(await given(), "is a function that gave no key")
}
