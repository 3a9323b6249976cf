/**
 * Which upstream keeps which response of the Responses API, and whose it is: it can only be fetched, cancelled or read on
 * where it was made. The latest are remembered; a reload forgets none.
 */
import { isObject, parsedObject } from "../../../domain/chat/json.ts"
import type { ByteSource } from "../../request/ByteSource.ts"
import { isSource, type Answer } from "./Answer.ts"

export interface Owner {
  /** Name of the upstream. */
  readonly upstream: string
  /** Name of the gateway's key it was asked with; null = the gateway has none. */
  readonly key: string | null
}

export interface ResponseOwners {
  readonly of: (id: string) => Owner | null
  /** The answer itself, its response remembered as this owner's as soon as its id is read. */
  readonly noted: (answer: Answer, owner: Owner) => Answer
}

/** Responses that are remembered: a few hours of a busy gateway. */
const keptResponses = 20_000
/** Longer ids are none. */
const longestId = 256
/** The id stands in the first event: so many bytes are looked at for it. */
const lookedAt = 65_536

/** The id of the response that a body is, or of the one its events are of; null = there is none in it. */
const idIn = (value: unknown): string | null => {
  if (!isObject(value)) return null
  const found = isObject(value["response"])
    ? value["response"]["id"]
    : value["object"] === "response"
      ? value["id"]
      : null
  return typeof found === "string" && found !== "" && found.length <= longestId ? found : null
}

const idInEvents = (text: string): string | null => {
  // The last line may not be whole yet.
  for (const line of text.split(/\r\n|\n|\r/).slice(0, -1)) {
    const id = line.startsWith("data:") ? idIn(parsedObject(line.slice("data:".length))) : null
    if (id !== null) return id
  }
  return null
}

/** The source itself, looked at until its id was found. */
const watched = (source: ByteSource, found: (id: string) => void): ByteSource => {
  const decoder = new TextDecoder()
  let text: string | null = ""
  const look = (bytes: Uint8Array): void => {
    if (text === null) return
    text += decoder.decode(bytes, { stream: true })
    const id = idInEvents(text)
    if (id !== null) found(id)
    if (id !== null || text.length > lookedAt) text = null
  }
  return {
    take: () => {
      const bytes = source.take()
      if (bytes !== null && bytes !== undefined) look(bytes)
      return bytes
    },
    whenReady: source.whenReady.bind(source),
    cancel: source.cancel.bind(source)
  }
}

/** The answer itself; `found` is told the id of the response in it, as soon as it is read. */
export const withResponseId = (answer: Answer, found: (id: string) => void): Answer => {
  const { body, status } = answer
  if (status >= 300) return answer
  if (isSource(body)) return { ...answer, body: watched(body, found) }
  const id = idIn(parsedObject(typeof body === "string" ? body : Buffer.from(body).toString("utf8")))
  if (id !== null) found(id)
  return answer
}

export const makeResponseOwners = (): ResponseOwners => {
  const owners = new Map<string, Owner>()
  const put = (id: string, owner: Owner): void => {
    owners.set(id, owner)
    for (const oldest of owners.keys()) {
      if (owners.size <= keptResponses) break
      owners.delete(oldest)
    }
  }
  return {
    of: (id) => owners.get(id) ?? null,
    noted: (answer, owner) => withResponseId(answer, (id) => put(id, owner))
  }
}
