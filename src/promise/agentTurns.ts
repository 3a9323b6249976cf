/** The kept turns of an agent, seen from outside: which there are, answers for those that wait, and an end for any. */
import * as Effect from "effect/Effect"
import type { JournalFailure } from "../domain/agent/JournalError.ts"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import type { JournalStoreShape, TurnSummary } from "../services/JournalStore.ts"
import { settle, type Edge } from "./edge.ts"

export interface AgentTurns {
  readonly list: () => Promise<ReadonlyArray<TurnSummary>>
  /** Answers what the turn waits for; run it again under its id. False: it was answered before, and nothing changes. */
  readonly approve: (id: string) => Promise<boolean>
  readonly deny: (id: string, why?: string) => Promise<boolean>
  /** Ends the turn within a second, whichever process runs it. */
  readonly cancel: (id: string) => Promise<void>
}

export const turnsOf = (edge: Edge, store: Effect.Effect<JournalStoreShape, JournalFailure> | null): AgentTurns => {
  const ask = <A>(body: (opened: JournalStoreShape) => Effect.Effect<A, JournalFailure | ConfigurationError>) => {
    if (store === null)
      return Promise.reject(
        new ConfigurationError({ field: "durable", reason: "is missing: nothing is kept of the runs" })
      )
    return settle(edge, null, {}, () => Effect.flatMap(store, body))
  }
  const answer = (id: string, text: string) =>
    ask((opened) =>
      Effect.gen(function* () {
        const turn = (yield* opened.list).find((one) => one.turn === id)
        if (turn === undefined) return yield* new ConfigurationError({ field: "id", reason: `names no turn: ${id}` })
        return turn.waitsFor === null ? false : yield* opened.answer(id, turn.waitsFor, text)
      })
    )
  return {
    list: () => ask((opened) => opened.list),
    approve: (id) => answer(id, "approved"),
    deny: (id, why) => answer(id, why === undefined ? "denied" : `denied: ${why}`),
    cancel: (id) => ask((opened) => opened.cancel(id))
  }
}
