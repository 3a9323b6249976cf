/** One step of the machine: next state and action together. */
import type { FailReason } from "../failure/FailReason.ts"
import type { RecoveryAction } from "./RecoveryAction.ts"
import type { RecoveryState } from "./RecoveryState.ts"

export interface Transition {
  readonly state: RecoveryState
  readonly action: RecoveryAction
}

export const to = (state: RecoveryState, action: RecoveryAction): Transition => ({ state, action })

export const fail = (state: RecoveryState, reason: FailReason, waitMillis: number | null = null): Transition => ({
  state,
  action: { _tag: "Fail", reason, waitMillis }
})
