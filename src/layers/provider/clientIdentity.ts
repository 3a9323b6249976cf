/**
 * Which provider and key a client speaks for: what route health tells clients apart by. A name never holds a key, only
 * a digest of it.
 */
import { shownAddress } from "../../domain/provider/address.ts"
import type { ModelClient } from "../../services/ModelClient.ts"
import { remembered } from "./remembered.ts"

/** Numbers of objects that have no name of their own. An object keeps its number as long as it lives. */
const numbers = new WeakMap<object, number>()
let last = 0

const numberOf = (object: object): number => {
  const known = numbers.get(object)
  if (known !== undefined) return known
  last += 1
  numbers.set(object, last)
  return last
}

/** FNV-1a over UTF-16 units, 32 bits. */
const digest = (text: string, seed: number): string => {
  let hash = seed
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return (hash >>> 0).toString(16).padStart(8, "0")
}

export interface Credentials {
  readonly baseUrl: string
  /** The key and what else decides whose limits count; null = not known here (a token that is fetched). */
  readonly account: string | null
  /** What answers in place of the network (a fetch of the caller's own), or holds an account that is not known. */
  readonly own: object | null
}

const hasSecrets = (address: string): boolean => {
  if (!URL.canParse(address)) return false
  const { username, password, search } = new URL(address)
  return username !== "" || password !== "" || search !== ""
}

/** An address may hold a key: its digest tells it apart. */
const shownFor = remembered((baseUrl) =>
  hasSecrets(baseUrl) ? `${shownAddress(baseUrl)} ${digest(baseUrl, 0x811c9dc5)}` : baseUrl
)

const nameOf = remembered((account) => ` ${digest(account, 0x811c9dc5)}${digest(account, 0x2f0b4c47)}`)

/** The same for two clients of one provider and key, also in another process, unless they have parts of their own. */
export const identityFor = ({ baseUrl, account, own }: Credentials): string => {
  const who = account === null ? "" : nameOf(account)
  return `${shownFor(baseUrl)}${who}${own === null ? "" : ` #${numberOf(own)}`}`
}

/** A client without an identity of its own shares with no other client object. */
export const identityOf = (client: (typeof ModelClient)["Service"]): string =>
  client.identity ?? `client #${numberOf(client)}`
