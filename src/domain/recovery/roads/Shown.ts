/** What becomes of the text that a stream has shown when its attempt did not end well. */
import type { Seen } from "../Outcome.ts"
import type { RecoveryPolicy } from "../RecoveryPolicy.ts"
import type { Shown } from "../RecoveryAction.ts"

/** Before the request is asked again from its beginning, whatever it is asked. */
export const shownBeforeRestart = (seen: Seen): Shown => (seen.delivered > 0 || seen.unfinishable ? "restart" : "none")

/**
 * After a fault, as the policy wants it. A cut tool call and bare reasoning can only be restarted; a replay that said
 * something else is not tried again: the reply goes on from what was shown.
 */
export const shownAfterFault = (policy: RecoveryPolicy, seen: Seen): Shown => {
  if (seen.unfinishable || seen.delivered === 0) return shownBeforeRestart(seen)
  switch (policy.onCut) {
    case "resume":
      return "resume"
    case "splice":
      return seen.replayDiffers ? "resume" : "splice"
    default:
      return "restart"
  }
}
