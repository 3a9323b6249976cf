/** A stream of the Responses API that a client lost is taken up by the API's own id, where a run of the gateway has it. */
import type { Answer } from "./Answer.ts"
import type { Visit } from "./Visit.ts"

/** A run's name, and a response's: the id of another key is another one. */
export const ownName = ({ key }: Visit, id: string): string => `${key?.name ?? ""}\u0000${id}`

/** null = the request is none of these, or no run has what it asks for: its provider is asked. */
export const rejoin = async (visit: Visit): Promise<Answer | null> => {
  const { request, target, runs } = visit
  const id = /^\/v1\/responses\/([^/]+)$/.exec(target.path)?.[1]
  if (id === undefined || request.method !== "GET") return null
  const asked = new URLSearchParams(target.query)
  if (asked.get("stream") !== "true") return null
  const after = asked.get("starting_after")
  if (after !== null && !/^\d{1,15}$/.test(after)) return null
  return runs.rejoin(ownName(visit, id), after === null ? -1 : Number(after))
}
