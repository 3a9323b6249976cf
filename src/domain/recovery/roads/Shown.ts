/** What becomes of the text that a stream has shown when its attempt did not end well. */
import type { Seen } from "../Outcome.ts"
import type { RecoveryPolicy } from "../RecoveryPolicy.ts"
import type { Shown } from "../RecoveryAction.ts"
import type { RecoveryState } from "../RecoveryState.ts"

/** Before the request is asked again from its beginning, whatever it is asked. */
export const shownBeforeRestart = (seen: Seen): Shown => (seen.delivered > 0 || seen.unfinishable ? "restart" : "none")

/**
 * After a fault, as the policy wants it. A cut tool call and bare reasoning can only be restarted; a replay that said
 * something else is not tried again: the reply goes on from what was shown, unless it has a fixed form.
 */
export const shownAfterFault = (policy: RecoveryPolicy, state: RecoveryState, seen: Seen): Shown => {
  if (seen.unfinishable || seen.delivered === 0) return shownBeforeRestart(seen)
  switch (policy.onCut) {
    case "resume":
      return state.structured ? "restart" : "resume"
    case "splice":
      if (!seen.replayDiffers) return "splice"
      return state.structured ? "restart" : "resume"
    default:
      return "restart"
  }
}
