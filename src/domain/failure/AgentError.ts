/**
 * Failures of the agent loop and of a session's budget. Each carries what was finished and one sentence the user can act
 * on; texts of the conversation are redacted and stay out of logs and JSON.
 */
import * as Schema from "effect/Schema"
import { printAsText } from "./failureText.ts"
import { Detector } from "./Detector.ts"
import { failureWithPartial } from "./partial.ts"
import { standingFields } from "./RecoveryError.ts"
import { TrailEntry } from "./Trail.ts"
import { Count } from "../chat/Usage.ts"

const fields = {
  /** Requests of the main conversation in `trail`; 0 when none was sent. */
  attempts: Schema.Int,
  elapsedMs: Schema.Finite,
  /** From an agent: of its whole turn; from Recovery: of the logical request. */
  trail: Schema.Array(TrailEntry),
  guidance: Schema.String
}

/**
 * The session's budget admits no further request. What was finished is kept; `partial` is the text so far. In the middle
 * of a request it tells of its failures like what recovery gives up with.
 */
export class BudgetExceeded extends failureWithPartial<BudgetExceeded>()("BudgetExceeded", {
  ...standingFields,
  ...fields,
  /** Which limit: "tokens" or "usd"; "store" = the store of a shared budget does not answer, and nothing is spent without it. */
  limit: Schema.Literals(["tokens", "usd", "store"]),
  allowed: Schema.Finite,
  spent: Schema.Finite,
  reserved: Schema.Finite
}) {
  override get message(): string {
    if (this.limit === "store") return "the store of the shared budget does not answer"
    return `the session's budget of ${this.allowed} ${this.limit} is used up (${this.spent} spent, ${this.reserved} reserved)`
  }
}

const agentFields = {
  ...fields,
  /** Model rounds of this turn that brought a reply. */
  steps: Count,
  /** What ended the turn, in one word. */
  lastOutcome: Schema.String
}

/** The model goes in circles: the guard warned, then broke. The finished work is in the conversation. */
export class LoopBroken extends failureWithPartial<LoopBroken>()("LoopBroken", {
  ...agentFields,
  detector: Detector,
  /** Number of the tool call that broke, from 1, over the turn. */
  atCall: Count,
  /** Equal calls in the window, or calls in the tail of a cycle. */
  count: Count,
  /** Different calls of the cycle. */
  cycle: Count,
  tool: Schema.String
}) {
  override get message(): string {
    return this.detector === "ping_pong"
      ? `the model repeats the same ${this.cycle} tool calls with the same results (${this.count} calls, the last one ${this.tool})`
      : `the model calls ${this.tool} again and again (${this.detector}, ${this.count} times)`
  }
}

/** The step cap is reached; the tools of the last step have run. */
export class StepLimitReached extends failureWithPartial<StepLimitReached>()("StepLimitReached", {
  ...agentFields,
  maxSteps: Count
}) {
  override get message(): string {
    return `the model is not done after ${this.maxSteps} steps`
  }
}

/** A content filter stopped the reply. Nothing of it is in the history; `partial` is the text before the stop. */
export class ContentFilteredError extends failureWithPartial<ContentFilteredError>()(
  "ContentFilteredError",
  agentFields
) {
  override get message(): string {
    return "a content filter stopped the reply"
  }
}

/** The reply is cut and nothing recovers it (the raw client is the executor). It is not in the history. */
export class TruncatedReplyError extends failureWithPartial<TruncatedReplyError>()("TruncatedReplyError", agentFields) {
  override get message(): string {
    return "the reply ran into its output budget"
  }
}

/** What ends a turn beside the failures of a request. */
export type AgentError = BudgetExceeded | LoopBroken | StepLimitReached | ContentFilteredError | TruncatedReplyError

printAsText([BudgetExceeded, LoopBroken, StepLimitReached, ContentFilteredError, TruncatedReplyError])

const tags: ReadonlySet<string> = new Set([
  "BudgetExceeded",
  "LoopBroken",
  "StepLimitReached",
  "ContentFilteredError",
  "TruncatedReplyError"
])

export const isAgentError = (value: unknown): value is AgentError =>
  value instanceof Error && "_tag" in value && typeof value._tag === "string" && tags.has(value._tag)
