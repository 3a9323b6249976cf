/** What the reader of a stream may want to see of an event while nothing else moves. */
import type { ReplyPart } from "../chat/ReplyPart.ts"
import { requestsText, spanText } from "../failure/wording.ts"
import type { RecoveryEvent } from "./RecoveryEvent.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"

type Notice = Extract<ReplyPart, { readonly _tag: "Notice" }>

/** null = nothing. Heartbeats are told in every preset, the rest where the policy wants notices. */
export const noticeOf = (policy: RecoveryPolicy, event: RecoveryEvent): Notice | null => {
  // During a wait the Waiting event beside a heartbeat says more.
  if (event._tag === "Heartbeat")
    return event.remainingMs === undefined
      ? { _tag: "Notice", about: "heartbeat", text: "still waiting for the model", attempt: event.attempt }
      : null
  if (!policy.notices) return null
  switch (event._tag) {
    case "Waiting": {
      const { attempt, remainingMs } = event
      const text = `next try in ${spanText(remainingMs)}, after ${requestsText(attempt)}`
      return { _tag: "Notice", about: "waiting", text, attempt, remainingMs }
    }
    case "ModelSwitched":
      return { _tag: "Notice", about: "switched", text: `switched from ${event.from} to ${event.to}`, attempt: 0 }
    case "Transitioned": {
      if (event.action._tag !== "Compact") return null
      const { attempts } = event.state
      return { _tag: "Notice", about: "compacting", text: "the input is too long: shortening it", attempt: attempts }
    }
    default:
      return null
  }
}
