/** How one call ended, as the result line tells it, and the exit code a command would end with. */
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import type { Message } from "../../../domain/chat/Message.ts"
import type { ModelReply } from "../../../domain/chat/ModelReply.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { type ModelError, isModelError } from "../../../domain/failure/ModelError.ts"
import { type RecoveryError, isRecoveryError } from "../../../domain/failure/RecoveryError.ts"
import { exitCodeOf, exitCodes } from "../../../domain/failure/exitCode.ts"
import type { AgentFailure } from "../../agent/runAgent.ts"
import type { Play } from "./Stage.ts"
import type { CallResult } from "./ResultLine.ts"

const modelFailureFields = (failure: ModelError) => ({
  status: failure.status,
  lastStatus: failure.status,
  code: failure.code,
  model: failure.model,
  shed: failure.shed,
  lastCause: failure._tag,
  retryAt: failure.resetAt,
  guidance: failure.guidance
})

const recoveryFailureFields = (failure: RecoveryError) => ({
  lastOutcome: failure.lastOutcome,
  lastCause: failure.lastCause,
  status: failure.lastStatus,
  lastStatus: failure.lastStatus,
  code: failure.code,
  model: failure.model,
  guidance: failure.guidance,
  ...("reason" in failure ? { reason: failure.reason } : {}),
  ...("partial" in failure && failure.partial !== null ? { partial: failure.partial } : {}),
  ...("requestedWaitMs" in failure
    ? { requestedWaitMs: failure.requestedWaitMs, remainingMs: failure.remainingMs, retryAt: failure.retryAt }
    : {})
})

/** A failure as the result line tells it. The partial text is part of what a drill checks. */
const failureLine = (failure: AgentFailure | ConfigurationError): Readonly<Record<string, unknown>> => {
  if (failure instanceof ConfigurationError) return { configError: failure.message }
  const { _tag: error, attempts, elapsedMs } = failure
  const fields = { attempts, elapsedMs }
  if (isModelError(failure)) return { error, fields: { ...fields, ...modelFailureFields(failure) } }
  if (isRecoveryError(failure)) return { error, fields: { ...fields, ...recoveryFailureFields(failure) } }
  return { error, fields: { ...fields, guidance: failure.guidance, partial: failure.partial } }
}

const replyLine = (reply: ModelReply): Readonly<Record<string, unknown>> => ({
  reply: reply.text,
  finishReason: reply.finishReason,
  model: reply.model,
  ...(reply.refusal === null ? {} : { refusal: reply.refusal }),
  ...(reply.warnings.length === 0 ? {} : { warning: reply.warnings.join(" ") }),
  ...(reply.toolCalls.length === 0
    ? {}
    : { toolCalls: reply.toolCalls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args })) })
})

const exitCodeOfCall = (exit: Exit.Exit<ModelReply, AgentFailure | ConfigurationError>): number => {
  if (Exit.isSuccess(exit)) return exitCodes.ok
  if (Cause.hasInterruptsOnly(exit.cause)) return exitCodes.interrupted
  const found = Cause.findErrorOption(exit.cause)
  if (found._tag === "None") return exitCodes.failed
  const failure = found.value
  return exitCodeOf({
    tag: failure._tag,
    lastCause: "lastCause" in failure ? failure.lastCause : null,
    reason: "reason" in failure ? failure.reason : null,
    resetAt: "resetAt" in failure ? failure.resetAt : null
  })
}

export interface Ended {
  readonly result: CallResult
  readonly exitCode: number
  readonly history: ReadonlyArray<Message>
}

/** A call that is over: how, when, and the history it left. */
export interface CallEnd {
  readonly exit: Exit.Exit<ModelReply, AgentFailure | ConfigurationError>
  readonly endedAtMs: number
  readonly history: ReadonlyArray<Message>
}

export const stringify = (messages: ReadonlyArray<Message>): string => JSON.stringify(messages)

const resultOf = (play: Play, exit: CallEnd["exit"]): Readonly<Record<string, unknown>> => {
  if (Exit.isSuccess(exit)) return replyLine(exit.value)
  if (play.stage.provider.hasRunOut()) return { error: "ScriptEnded" }
  if (Cause.hasInterruptsOnly(exit.cause)) return { interrupted: true }
  const found = Cause.findErrorOption(exit.cause)
  return found._tag === "Some"
    ? failureLine(found.value)
    : { error: "Defect", fields: { guidance: Cause.pretty(exit.cause) } }
}

/** `before` is the history the call began with, as `stringify` writes it. */
export const endOf = (play: Play, before: string, { exit, endedAtMs, history }: CallEnd): Ended => ({
  result: { ...resultOf(play, exit), historyUnchanged: stringify(history) === before, endedAtMs },
  exitCode: exitCodeOfCall(exit),
  history
})

/** The end of a scenario whose configuration is refused: nothing was asked. */
export const notConfigured = (error: ConfigurationError): Ended => ({
  result: { configError: error.message, historyUnchanged: true, endedAtMs: 0 },
  exitCode: exitCodes.usage,
  history: []
})
