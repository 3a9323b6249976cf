/** How what came back from an attempt enters the machine: an error or a reply as an outcome. Counts and codes only. */
import { isJson } from "../chat/json.ts"
import type { ModelReply } from "../chat/ModelReply.ts"
import type { ModelError } from "../failure/ModelError.ts"
import { refusedPart } from "../failure/RefusedPart.ts"
import { isBare } from "../provider/bareCode.ts"
import type { AttemptPlan } from "./AttemptPlan.ts"
import type { Outcome, Seen } from "./Outcome.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"

/** Statuses under which arithmetic may suspect an overflow that no code tells of. */
const suspectStatuses = [400, 413, 422]

/** What the outcome of an error depends on beside the error. */
type Asked = Pick<AttemptPlan, "route" | "promptTokens">

const isSuspected = (policy: RecoveryPolicy, { status, code, param }: ModelError, asked: Asked): boolean =>
  policy.suspectOverflow &&
  status !== null &&
  suspectStatuses.includes(status) &&
  isBare(code, status) &&
  refusedPart(param) !== "budget" &&
  asked.route.contextWindow !== null &&
  asked.promptTokens >= asked.route.contextWindow

export const outcomeOfError = (policy: RecoveryPolicy, error: ModelError, asked: Asked, seen: Seen): Outcome => {
  const { kind, status, code, hints, shouldRetry } = error
  const about = {
    ...(error.address === null ? {} : { unanswered: true }),
    ...(kind === "connection" && error.cause !== undefined ? { unnamed: true } : {})
  }
  return kind === "prompt_too_long" || isSuspected(policy, error, asked)
    ? { _tag: "PromptTooLong", status, code, ...seen }
    : { _tag: "Faulted", kind, status, code, hints, shouldRetry, ...about, ...seen, other: null }
}

/** As much of a reply as tells how it ended. */
export type Ended = Pick<ModelReply, "finishReason" | "refusal" | "text" | "toolCalls" | "usage">

/** A length stop, or a budget used to the last token with a tool call that cannot be read. */
const isTruncated = (reply: Ended, plan: AttemptPlan): boolean =>
  reply.finishReason === "length" ||
  (plan.maxOutputTokens !== null &&
    reply.usage.completionTokens === plan.maxOutputTokens &&
    reply.toolCalls.some((call) => !isJson(call.arguments)))

/** `passTruncated`: a truncated reply is a value, the truncation road is off. */
export const outcomeOfReply = (
  reply: Ended,
  plan: AttemptPlan,
  durationMillis: number,
  seen: Seen,
  passTruncated = false
): Outcome => {
  if (reply.refusal !== null) return { _tag: "Refused" }
  if (reply.finishReason === "window_full") return { _tag: "PromptTooLong", status: 200, code: "window_full", ...seen }
  if (passTruncated || !isTruncated(reply, plan)) return { _tag: "Completed" }
  return {
    _tag: "Truncated",
    textLength: reply.text?.length ?? 0,
    toolCalls: reply.toolCalls.length,
    outputTokens: reply.usage.completionTokens,
    durationMillis,
    sentTokens: plan.maxOutputTokens,
    promptTokens: plan.promptTokens,
    ...seen
  }
}
