/** What a played scenario leaves behind: one result line, as the scenario format fixes it. */
import type { Message } from "../../../domain/chat/Message.ts"
import type { ReplyPart } from "../../../domain/chat/ReplyPart.ts"
import type { RecoveryEvent } from "../../../domain/recovery/RecoveryEvent.ts"
import type { SentRequest } from "./ScriptBook.ts"

/** A result line as the scenario format fixes it; `unsupported` says why a scenario was not played. */
export type ResultLine = { readonly id: string; readonly status: "unsupported"; readonly why: string } | PlayedLine

export interface PlayedLine {
  readonly id: string
  readonly status: "ran"
  readonly requests: ReadonlyArray<SentRequest>
  readonly sleepsMs: ReadonlyArray<number>
  readonly elapsedMs: number
  readonly results: ReadonlyArray<CallResult>
  readonly history: ReadonlyArray<Message> | null
  readonly historyUnchanged: boolean
  readonly events: ReadonlyArray<Timed>
  readonly parts: ReadonlyArray<Timed>
  readonly usageTotal: {
    readonly promptTokens: number | null
    readonly completionTokens: number | null
    readonly cachedTokens: number | null
    readonly known: boolean
  }
  readonly costUsd: number | null
  readonly toolExecutions: ReadonlyArray<unknown>
  readonly toolResults: ReadonlyArray<unknown>
  readonly loop: {
    readonly warnedAtCalls: ReadonlyArray<number>
    readonly brokenAtCall: number | null
    readonly detector: string | null
  }
  readonly heartbeatsAtMs: ReadonlyArray<number>
  readonly connectionsOpen: number
  readonly exitCode: number
}

export type Timed = Readonly<Record<string, unknown>> & { readonly _tag: string; readonly atMs: number }

export type CallResult = Readonly<Record<string, unknown>> & {
  readonly historyUnchanged: boolean
  readonly endedAtMs: number
}

export const timed = (value: RecoveryEvent | ReplyPart, atMs: number): Timed => ({ ...value, atMs })
