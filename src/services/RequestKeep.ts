/**
 * Keeps where a request in trouble stands, for whoever takes it up after its process has died. Nothing is kept on the
 * healthy path. null = nobody keeps it.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Trail } from "../domain/failure/Trail.ts"
import type { Worst } from "./BudgetLedger.ts"

/** JSON; `shown` is what a reader of the stream has since the last Reset. */
export interface KeptRequest {
  readonly shown: string
  readonly [field: string]: unknown
}

/** Where the answer to one attempt is kept outside. */
export interface StoredAnswer {
  readonly attempt: number
  readonly name: string
}

export interface RequestKeeper {
  /** Where the owner before left it; null = it is new. */
  readonly before: KeptRequest | null
  /** When a process before began it, epoch milliseconds: its deadline counts from there. null = it is new. */
  readonly begunAt: number | null
  /** The same for the same request of the same turn, also after a restart. */
  readonly key: string
  /** The answer to the request in flight that was left where it is made; null = none. */
  readonly stored: StoredAnswer | null
  readonly noteStored: (stored: StoredAnswer) => Effect.Effect<void>
  /** Whether a request may have been in flight when the owner before died. True once. */
  readonly takeDoubt: () => boolean
  /** Books a request whose end nobody knows. Its entry is the last of the trail, which counts from `startedAt`. */
  readonly bookLost: (worst: Worst, trail: Trail, startedAt: number) => Effect.Effect<void>
  readonly save: (kept: KeptRequest, trail: Trail, startedAt: number) => Effect.Effect<void>
  /** What is kept has a form that this version does not read. */
  readonly unreadable: (field: string) => Effect.Effect<never>
}

export const RequestKeep = Context.Reference<RequestKeeper | null>("holdfast/RequestKeep", {
  defaultValue: () => null
})
