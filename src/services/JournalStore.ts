/** Where the journals of many turns are kept, and what others than their owner may do with them. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { JournalFailure } from "../domain/agent/JournalError.ts"
import type { JournalShape } from "./Journal.ts"

/** `running` and `parked` turns can be taken up; the others have ended. */
export type TurnStatus = "running" | "parked" | "done" | "failed" | "cancelled"

export interface TurnSummary {
  readonly turn: string
  readonly status: TurnStatus
  /** Epoch milliseconds. */
  readonly createdAt: number
  readonly changedAt: number
  /** Steps that have an end. */
  readonly steps: number
  /** The key of the answer a parked turn waits for; null = none. */
  readonly waitsFor: string | null
  /** Who runs it, as far as is known; null = nobody. */
  readonly holder: string | null
}

export interface StepRow {
  readonly key: string
  readonly state: "begun" | "done"
  /** JSON; null for a step that has only begun. */
  readonly value: unknown
  /** Epoch milliseconds. */
  readonly at: number
}

/** A piece of a running stream's text; `text` null = what came before is dropped. */
export interface StreamRow {
  readonly key: string
  readonly text: string | null
}

export interface JournalStoreShape {
  /** Takes the turn up, as its one owner until the scope ends. Refused at once when another process has it. */
  readonly own: (turn: string) => Effect.Effect<JournalShape, JournalFailure, Scope.Scope>
  /** How the owner's turn has ended, or that it is parked. */
  readonly setStatus: (turn: string, status: TurnStatus) => Effect.Effect<void, JournalFailure>
  readonly list: Effect.Effect<ReadonlyArray<TurnSummary>, JournalFailure>
  /** In the order in which the steps were begun. */
  readonly steps: (turn: string) => Effect.Effect<ReadonlyArray<StepRow>, JournalFailure>
  readonly stream: (turn: string) => Effect.Effect<ReadonlyArray<StreamRow>, JournalFailure>
  /** Answers what the turn waits for. False: it was answered before, and nothing changes. */
  readonly answer: (turn: string, key: string, value: string) => Effect.Effect<boolean, JournalFailure>
  /** The owner, wherever it runs, ends within a second. */
  readonly cancel: (turn: string) => Effect.Effect<void, JournalFailure>
  readonly isCancelled: (turn: string) => Effect.Effect<boolean, JournalFailure>
  /** A new turn that begins with the steps of another one, up to and without `from`; null = all of them. */
  readonly fork: (turn: string, into: string, from: string | null) => Effect.Effect<void, JournalFailure>
  /** Leaves no byte of the turn's values behind. */
  readonly forget: (turn: string) => Effect.Effect<void, JournalFailure>
}

export class JournalStore extends Context.Service<JournalStore, JournalStoreShape>()(
  "holdfast/services/JournalStore"
) {}
