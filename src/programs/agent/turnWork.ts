/**
 * What one turn of an agent has done so far: its text, its requests and its counts, for the result and for every failure
 * that carries the finished work. One fiber, the turn's, writes; whatever ends the turn reads.
 */
import {
  BudgetExceeded,
  ContentFilteredError,
  LoopBroken,
  StepLimitReached,
  TruncatedReplyError,
  type AgentError
} from "../../domain/failure/AgentError.ts"
import { partialOf } from "../../domain/failure/partial.ts"
import type { Finding } from "../../domain/agent/LoopGuard.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import { readable, readableMillis, type TrailEntry } from "../../domain/failure/Trail.ts"
import type { TakeTrail } from "../../services/RequestWatch.ts"

const guidance = {
  loop: "The model goes in circles. Look at the last results in the history, change the task or the tool, and go on from there; the finished work is kept.",
  steps: "The step cap is reached. The finished work is kept: go on with another turn, or allow more steps.",
  filtered: "A content filter stopped the reply; the history is unchanged. Change the request.",
  truncated: "The reply is longer than its budget and was not kept. Allow more output tokens, or run through Recovery."
}

export interface TurnWork {
  /** Takes the trail of every request of the turn. */
  readonly takeTrail: TakeTrail
  /** The requests of the turn from one on, counted from its beginning. */
  readonly trailFrom: (at: number) => ReadonlyArray<TrailEntry>
  /** A trail that counts from `since`, counted from the beginning of the turn. */
  readonly ofTurn: (trail: ReadonlyArray<TrailEntry>, since: number) => ReadonlyArray<TrailEntry>
  /** Requests of an owner before. */
  readonly addTrail: (entries: ReadonlyArray<TrailEntry>) => void
  /** A reply of a step that may enter the history. */
  readonly noteReply: (reply: ModelReply, step: number) => void
  /** The text of that reply, once it stands in the history. */
  readonly noteText: (reply: ModelReply) => void
  /** Model rounds that brought a reply, and the calls in them. */
  readonly counts: () => { readonly steps: number; readonly toolCalls: number }
  /** Why a reply must not enter the history; null = it may. */
  readonly unfit: (reply: ModelReply) => AgentError | null
  readonly broken: (finding: Finding) => LoopBroken
  readonly stepLimit: (maxSteps: number) => StepLimitReached
  /** A failure with the text and the trail of the whole turn, where it can carry them. */
  readonly withWork: <F>(failure: F) => F | BudgetExceeded
}

/** `now` reads monotonic milliseconds. */
export const makeTurnWork = (now: () => number): TurnWork => {
  const startedAt = now()
  const texts: Array<string> = []
  const trail: Array<TrailEntry> = []
  let steps = 0
  let toolCalls = 0

  const tried = () => ({
    attempts: trail.filter((entry) => entry.attempt !== null).length,
    elapsedMs: readableMillis(now() - startedAt),
    trail: [...trail]
  })
  const partialWith = (more: string | null) => partialOf([...texts, ...(more === null ? [] : [more])].join("\n\n"))
  const ending = (lastOutcome: string, sentence: string, text: string | null = null) => ({
    ...tried(),
    steps,
    lastOutcome,
    guidance: sentence,
    ...partialWith(text)
  })

  const ofTurn: TurnWork["ofTurn"] = (entries, since) =>
    entries.map((entry) => readable({ ...entry, startedMs: entry.startedMs + since - startedAt }))

  return {
    ofTurn,
    takeTrail: (entries, since) => void trail.push(...ofTurn(entries, since)),
    trailFrom: (at) => trail.slice(at),
    addTrail: (entries) => void trail.push(...entries),
    noteReply: (reply, step) => {
      steps = step
      toolCalls += reply.toolCalls.length
    },
    noteText: (reply) => {
      if (reply.text !== null && reply.text !== "") texts.push(reply.text)
    },
    counts: () => ({ steps, toolCalls }),
    unfit: (reply) => {
      if (reply.finishReason === "content_filter")
        return new ContentFilteredError(ending("content_filter", guidance.filtered, reply.text))
      return reply.finishReason === "length" || reply.finishReason === "window_full"
        ? new TruncatedReplyError(ending(reply.finishReason, guidance.truncated, reply.text))
        : null
    },
    broken: (finding) => new LoopBroken({ ...ending("loop", guidance.loop), ...finding }),
    stepLimit: (maxSteps) => new StepLimitReached({ ...ending("steps", guidance.steps), maxSteps }),
    withWork: (failure) =>
      failure instanceof BudgetExceeded
        ? new BudgetExceeded({ ...failure, ...tried(), ...partialWith(failure.partial) })
        : failure
  }
}
