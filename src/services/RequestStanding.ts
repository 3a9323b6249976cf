/**
 * Where a request stands, for a caller that takes it back: the loop puts its reader in the cell, an edge that turns
 * interruption into an error reads it. Inside Effect nobody needs it.
 */
import * as Context from "effect/Context"
import type { Standing } from "../domain/failure/RecoveryError.ts"

export interface StandingCell {
  /** null = the request has not begun. */
  read: (() => Standing) | null
}

export const makeStanding = (): StandingCell => ({ read: null })

/** null = nobody asks. */
export const RequestStanding = Context.Reference<StandingCell | null>("holdfast/RequestStanding", {
  defaultValue: () => null
})
