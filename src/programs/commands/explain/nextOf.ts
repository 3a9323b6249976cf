/**
 * What the machine does next with an answer, under each preset. The outcome is the one the loop builds; the decision is
 * `transition`'s. Time stands still, chance is 0, and a fallback is at hand.
 */
import { reasonWords } from "../../../domain/failure/words.ts"
import { spanText } from "../../../domain/failure/wording.ts"
import type { ModelError } from "../../../domain/failure/ModelError.ts"
import { planOf } from "../../../domain/recovery/AttemptPlan.ts"
import type { Outcome, Seen } from "../../../domain/recovery/Outcome.ts"
import { outcomeOfError, outcomeOfReply, type Ended } from "../../../domain/recovery/outcomeOf.ts"
import { presetNames, type PresetName } from "../../../domain/recovery/PolicyField.ts"
import type { RecoveryAction } from "../../../domain/recovery/RecoveryAction.ts"
import { transition } from "../../../domain/recovery/RecoveryMachine.ts"
import { presets, RecoveryPolicy } from "../../../domain/recovery/RecoveryPolicy.ts"
import * as RecoveryState from "../../../domain/recovery/RecoveryState.ts"

/** How an attempt ended, and where. */
export interface Ending {
  readonly result: ModelError | Ended
  readonly seen: Seen
  readonly streaming: boolean
  readonly wallMillis: number
}

export type Next = Readonly<Record<PresetName, RecoveryAction>>

const routes = [{ model: "this model" }, { model: "the fallback" }]

const nextUnder = (name: PresetName, ending: Ending): RecoveryAction => {
  const policy = new RecoveryPolicy({ ...presets[name], routes })
  const start = { now: 0, deadline: policy.deadline, route: 0, callerCap: null, streaming: ending.streaming }
  const state = RecoveryState.initial(policy, { ...start, background: name === "background" })
  const plan = planOf(policy, state, 0)
  const outcome: Outcome =
    "finishReason" in ending.result
      ? outcomeOfReply(ending.result, plan, 0, ending.seen)
      : outcomeOfError(policy, ending.result, plan, ending.seen)
  const tick = {
    now: 0,
    wall: ending.wallMillis,
    backoffMillis: policy.backoff.base,
    spread: 0,
    progressMillis: 0
  }
  return transition(policy, state, outcome, tick).action
}

export const nextOf = (ending: Ending): Next => {
  const [strict, broad, unattended, background] = presetNames.map((name) => nextUnder(name, ending))
  return { strict, broad, unattended, background } as Next
}

/** Whether this answer alone leads to another request for the same thing; time and attempts may still forbid it. */
export const isRetried = (action: RecoveryAction): boolean =>
  action._tag === "Retry" ||
  (action._tag === "Fail" && ["InvalidRetryAfter", "Deadline", "Attempts"].includes(action.reason))

const failText = (action: Extract<RecoveryAction, { readonly _tag: "Fail" }>): string => {
  if (action.reason === "Passthrough") return "not retried, handed on as it is"
  const wait = action.waitMillis === null ? "" : ` (a wait of ${spanText(action.waitMillis)})`
  return `ends: ${reasonWords[action.reason].said}${wait}`
}

const actionText = (action: RecoveryAction): string => {
  switch (action._tag) {
    case "Retry":
      return `retried ${action.origin === "hint" ? "after the wait the provider asks for," : "in"} ${spanText(action.delayMillis)}`
    case "Fallback":
      return `goes on with the fallback in ${spanText(action.delayMillis)}`
    case "Escalate":
      return `asked again with a budget of ${action.maxOutputTokens} tokens`
    case "Continue":
      return `continued from where the text stopped, with a budget of ${action.maxOutputTokens} tokens`
    case "Compact":
      return "the input is shortened, once, and asked again"
    case "Done":
      return "a result, handed over as it is"
    case "Fail":
      return failText(action)
  }
}

/** One line per different decision, with the presets that make it. */
export const nextLines = (next: Next): ReadonlyArray<string> => {
  const byText = new Map<string, Array<PresetName>>()
  for (const name of presetNames) {
    const text = actionText(next[name])
    byText.set(text, [...(byText.get(text) ?? []), name])
  }
  return [...byText].map(([text, names]) =>
    names.length === presetNames.length ? `every preset: ${text}` : `${names.join(", ")}: ${text}`
  )
}
