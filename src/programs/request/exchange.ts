/**
 * What `complete` and `stream` share: the window of one logical request, its classification, its compaction and the
 * merge at the end. The caller's messages are never touched; everything here is local to one call.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { AttemptPlan } from "../../domain/recovery/AttemptPlan.ts"
import type { Message } from "../../domain/chat/Message.ts"
import { withoutForeign, withoutThinking } from "../../domain/chat/Message.ts"
import type { ModelError } from "../../domain/failure/ModelError.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { ModelRequest, Role, WireRequest } from "../../domain/chat/ModelRequest.ts"
import type { Outcome, Seen } from "../../domain/recovery/Outcome.ts"
import type { RecoveryPolicy, Route } from "../../domain/recovery/RecoveryPolicy.ts"
import * as RequestWindow from "../../domain/chat/RequestWindow.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { guarded } from "../../domain/chat/TokenEstimate.ts"
import { outcomeOfError, outcomeOfReply } from "../../domain/recovery/outcomeOf.ts"
import type { TokenEstimate } from "../../services/Overrides.ts"
import type { RequestKeeper } from "../../services/RequestKeep.ts"
import type { Summarizer } from "../../services/Summarizer.ts"
import type { Transcript } from "../../services/Transcript.ts"
import type { AttemptDriver, CompactionOutcome } from "./AttemptDriver.ts"
import { shorten } from "./shorten.ts"

export interface ExchangeOptions {
  readonly policy: RecoveryPolicy
  readonly request: ModelRequest
  readonly requestId: string
  readonly role: Role
  readonly estimate: (typeof TokenEstimate)["Service"]
  readonly summarizer: (typeof Summarizer)["Service"]
  readonly transcript: (typeof Transcript)["Service"] | null
  /** A truncated reply is a value: the truncation road is off. */
  readonly passTruncated?: boolean
  /** Keeps the request for another process: repeated, it has the same key. */
  readonly keep?: RequestKeeper | null
}

export interface Exchange {
  readonly window: () => RequestWindow.RequestWindow
  readonly promptTokens: (route: Route) => number
  readonly fault: () => string | null
  /** The request for one attempt. Parts bound to another model are left out. */
  readonly wire: (plan: AttemptPlan) => WireRequest
  readonly classify: (
    result: Result.Result<ModelReply, ModelError>,
    plan: AttemptPlan,
    durationMillis: number,
    seen: Seen
  ) => Outcome
  /** An empty continuation says that there is nothing left to say: what has come before is the reply. null = it is none. */
  readonly nothingMore: (error: ModelError, plan: AttemptPlan) => ModelReply | null
  /** A fragment as the model wrote it: what it repeats of the fragments before it is dropped under `seamRepair`. */
  readonly keep: (fragment: string) => void
  /** A fragment as a consumer has seen it. */
  readonly keepShown: (fragment: string) => void
  readonly compact: AttemptDriver["compact"]
  readonly merge: (last: ModelReply) => ModelReply
  readonly partial: (fragment: string | null) => string | null
  /** The window as JSON: what the caller has sent is not in it. */
  readonly snapshot: () => WindowSnapshot
  readonly restore: (snapshot: WindowSnapshot) => void
}

export interface WindowSnapshot {
  /** The compacted messages; null = the caller's. */
  readonly base: ReadonlyArray<Message> | null
  readonly fragments: ReadonlyArray<string>
  readonly notes: ReadonlyArray<string>
}

/** What a route may be sent of the messages: no part that is bound to another model, no thinking it does not take. */
const ownOf = (route: Route, messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  withoutForeign(route.thinking ? messages : withoutThinking(messages), route.model)

const emptyReply = ({ usage, providerRequestId }: ModelError, model: string): ModelReply => ({
  text: null,
  refusal: null,
  reasoning: null,
  reasoningParts: [],
  toolCalls: [],
  finishReason: "stop",
  usage: usage ?? Usage.unknown,
  model,
  servedModel: null,
  providerRequestId,
  warnings: []
})

/** What tells a repetition, and where its answer may be already. */
const repeatable = (keep: RequestKeeper, attempt: number): Pick<WireRequest, "idempotencyKey" | "takeUp"> => ({
  idempotencyKey: `${keep.key}/${attempt}`,
  ...(keep.stored?.attempt === attempt ? { takeUp: keep.stored.name } : {})
})

/** What one logical request says so far. `window` is replaced, never changed. */
interface Standing {
  window: RequestWindow.RequestWindow
  /** Sentences about what was mended on the way, for the reply. */
  readonly notes: Array<string>
}

/** The text behind the kept fragments without what it repeats of their end; what is dropped is told. */
const mended = ({ window, notes }: Standing, text: string, { seamRepair }: RecoveryPolicy): string => {
  const overlap = RequestWindow.overlapOf(RequestWindow.textOf(window), text, seamRepair)
  if (overlap > 0) notes.push(`${overlap} repeated characters were dropped where a continuation began.`)
  return text.slice(overlap)
}

/** Tokens of the window as it is; each is measured once. */
const measureOf = (standing: Standing, { estimate, request }: ExchangeOptions): (() => number) => {
  const { notes } = standing
  const safe = guarded(estimate, (fault) => {
    const note = `The estimate of prompt tokens failed (${fault}); the built-in one was used.`
    if (!notes.includes(note)) notes.push(note)
  })
  let measured: { readonly window: RequestWindow.RequestWindow; readonly tokens: number } | null = null
  return () => {
    const { window } = standing
    if (measured === null || measured.window !== window)
      measured = { window, tokens: safe(RequestWindow.messagesOf(window), request.tools ?? []) }
    return measured.tokens
  }
}

const compactOf =
  (standing: Standing, options: ExchangeOptions, promptTokens: () => number): Exchange["compact"] =>
  ({ route }, book) =>
    Effect.suspend(() => {
      const { requestId, summarizer, transcript } = options
      const { keepRecentMessages } = options.policy.compaction
      const { window } = standing
      const before = { tokens: promptTokens(), messages: RequestWindow.messagesOf(window).length }
      const shortened = shorten({ requestId, window, keepRecentMessages, route, summarizer, transcript, book })
      return Effect.map(shortened, (next): CompactionOutcome => {
        if (next === null) return { _tag: "NothingToCompact" }
        standing.window = next
        return {
          _tag: "Compacted",
          before: before.tokens,
          after: promptTokens(),
          messagesBefore: before.messages,
          messagesAfter: RequestWindow.messagesOf(next).length
        }
      })
    })

const wireOf = (
  { request, role, policy, keep = null }: ExchangeOptions,
  window: RequestWindow.RequestWindow,
  { route, maxOutputTokens, attempt }: AttemptPlan
): WireRequest => ({
  ...request,
  messages: ownOf(route, RequestWindow.messagesOf(window)),
  model: route.model,
  maxOutputTokens,
  role,
  limits: policy.answerLimits,
  ...(keep === null ? {} : repeatable(keep, attempt))
})

/** Fragments and last reply as one, with what was mended. */
const merged = (standing: Standing, last: ModelReply, policy: RecoveryPolicy): ModelReply => {
  const { window, notes } = standing
  const isJoined = window.fragments.length > 0 && last.refusal === null
  const whole = isJoined
    ? { ...last, text: RequestWindow.textOf(window) + mended(standing, last.text ?? "", policy) }
    : last
  return notes.length === 0 ? whole : { ...whole, warnings: [...whole.warnings, ...notes] }
}

export const makeExchange = (options: ExchangeOptions): Exchange => {
  const { policy, request } = options
  const standing: Standing = { window: RequestWindow.make(request.messages, policy.continuationPrompt), notes: [] }
  const promptTokens = measureOf(standing, options)
  const keepShown = (fragment: string): void => {
    standing.window = RequestWindow.keep(standing.window, fragment)
  }
  return {
    window: () => standing.window,
    promptTokens,
    fault: () => RequestWindow.faultOf(standing.window),
    wire: (plan) => wireOf(options, standing.window, plan),
    classify: (result, plan, durationMillis, seen) =>
      Result.isFailure(result)
        ? outcomeOfError(policy, result.failure, plan, seen)
        : outcomeOfReply(result.success, plan, durationMillis, seen, options.passTruncated === true),
    nothingMore: (error, plan) =>
      standing.window.fragments.length > 0 && error.kind === "empty_reply" && error.code === "empty_reply"
        ? emptyReply(error, plan.route.model)
        : null,
    keep: (fragment) => keepShown(mended(standing, fragment, policy)),
    keepShown,
    compact: compactOf(standing, options, promptTokens),
    merge: (last) => merged(standing, last, policy),
    snapshot: () => ({
      base: standing.window.base === request.messages ? null : standing.window.base,
      fragments: standing.window.fragments,
      notes: [...standing.notes]
    }),
    restore: ({ base, fragments, notes }) => {
      standing.window = { ...standing.window, base: base ?? standing.window.base, fragments }
      standing.notes.push(...notes)
    },
    partial: (fragment) => {
      const text = RequestWindow.textOf(standing.window) + (fragment ?? "")
      return text === "" ? null : text
    }
  }
}
