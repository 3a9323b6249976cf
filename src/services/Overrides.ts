/**
 * What a caller may change for one call or one stretch of a program, fiber-locally. Read at call time, never when a
 * layer is built.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Schedule from "effect/Schedule"
import type { Message, ToolSpec } from "../domain/chat/Message.ts"
import type { Priority } from "../domain/chat/ModelRequest.ts"
import type { Outcome } from "../domain/recovery/Outcome.ts"
import type { RecoveryPolicyInput } from "../domain/recovery/RecoveryPolicy.ts"
import { local } from "../domain/chat/TokenEstimate.ts"

/** Fields of the policy to replace; null = the policy as it is. A bad value is a defect naming the field. */
export const PolicyOverride = Context.Reference<Partial<RecoveryPolicyInput> | null>("holdfast/PolicyOverride", {
  defaultValue: () => null
})

/**
 * Deadline of each call below it, instead of the policy's; around `Recovery.turn` or a run of an agent, one for all requests
 * of the turn. null = the policy's.
 */
export const DeadlineOverride = Context.Reference<Duration.Input | null>("holdfast/DeadlineOverride", {
  defaultValue: () => null
})

/** Priority of requests that do not state their own. */
export const PriorityOverride = Context.Reference<Priority | null>("holdfast/PriorityOverride", {
  defaultValue: () => null
})

/** Estimated prompt tokens of messages and tool schemas. */
export const TokenEstimate = Context.Reference<
  (messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>) => number
>("holdfast/TokenEstimate", { defaultValue: () => local })

/**
 * The backoff, stepped once per failure with the outcome as its input; its delay is the wait. null = the schedule of
 * the policy's `backoff`. When it ends, retries are exhausted.
 */
export const BackoffSchedule = Context.Reference<Schedule.Schedule<unknown, Outcome> | null>(
  "holdfast/BackoffSchedule",
  { defaultValue: () => null }
)
