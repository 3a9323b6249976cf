/**
 * What `complete` and `stream` share: the window of one logical request, its classification, its compaction and the
 * merge at the end. The caller's messages are never touched; everything here is local to one call.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { AttemptPlan } from "../../domain/recovery/AttemptPlan.ts"
import type { Message } from "../../domain/chat/Message.ts"
import { withoutForeign, withoutThinking } from "../../domain/chat/Message.ts"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { ModelRequest, Role, WireRequest } from "../../domain/chat/ModelRequest.ts"
import type { Outcome, Seen } from "../../domain/recovery/Outcome.ts"
import { outcomeOfError, outcomeOfReply } from "../../domain/recovery/outcomeOf.ts"
import type { RecoveryPolicy, Route } from "../../domain/recovery/RecoveryPolicy.ts"
import * as RequestWindow from "../../domain/chat/RequestWindow.ts"
import type { TokenEstimate } from "../../services/Overrides.ts"
import type { Summarizer } from "../../services/Summarizer.ts"
import type { Transcript } from "../../services/Transcript.ts"
import type { AttemptDriver } from "./AttemptDriver.ts"

export interface ConversationOptions {
  readonly policy: RecoveryPolicy
  readonly request: ModelRequest
  readonly requestId: string
  readonly role: Role
  readonly estimate: (typeof TokenEstimate)["Service"]
  readonly summarizer: (typeof Summarizer)["Service"]
  readonly transcript: (typeof Transcript)["Service"] | null
  /** A truncated reply is a value: the truncation road is off. */
  readonly passTruncated?: boolean
}

/** Share of a known window that a summary request may fill, and its input budget where the window is unknown. */
const summaryShare = 0.5
const summaryInputTokens = 24_000
/** Output budget of a summary request. */
const summaryOutputTokens = 4_000

export interface Conversation {
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
  /** A fragment as the model wrote it: what it repeats of the fragments before it is dropped under `seamRepair`. */
  readonly keep: (fragment: string) => void
  /** A fragment as a consumer has seen it. */
  readonly keepShown: (fragment: string) => void
  readonly compact: AttemptDriver["compact"]
  readonly merge: (last: ModelReply) => ModelReply
  readonly partial: (fragment: string | null) => string | null
}

/** What a route may be sent of the messages: no part that is bound to another model, no thinking it does not take. */
const ownOf = (route: Route, messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  withoutForeign(route.thinking ? messages : withoutThinking(messages), route.model)

export const makeConversation = (options: ConversationOptions): Conversation => {
  const { policy, request, role } = options
  let window = RequestWindow.make(request.messages, policy.continuationPrompt)
  const repairs: Array<string> = []

  /** The text behind the kept fragments without what it repeats of their end; what is dropped is told. */
  const mended = (text: string): string => {
    const overlap = RequestWindow.overlapOf(RequestWindow.textOf(window), text, policy.seamRepair)
    if (overlap > 0) repairs.push(`${overlap} repeated characters were dropped where a continuation began.`)
    return text.slice(overlap)
  }

  const estimateOf = (messages: ReadonlyArray<Message>): number =>
    Math.max(0, Math.ceil(options.estimate(messages, request.tools ?? [])))
  let measured: { readonly window: RequestWindow.RequestWindow; readonly tokens: number } | null = null
  const promptTokens = (): number => {
    if (measured === null || measured.window !== window)
      measured = { window, tokens: estimateOf(RequestWindow.messagesOf(window)) }
    return measured.tokens
  }

  return {
    window: () => window,
    promptTokens,
    fault: () => RequestWindow.faultOf(window),
    wire: (plan) => ({
      ...request,
      messages: ownOf(plan.route, RequestWindow.messagesOf(window)),
      model: plan.route.model,
      maxOutputTokens: plan.maxOutputTokens,
      role
    }),
    classify: (result, plan, durationMillis, seen) =>
      Result.isFailure(result)
        ? outcomeOfError(policy, result.failure, plan, seen)
        : outcomeOfReply(result.success, plan, durationMillis, seen, options.passTruncated === true),
    keep: (fragment) => {
      window = RequestWindow.keep(window, mended(fragment))
    },
    keepShown: (fragment) => {
      window = RequestWindow.keep(window, fragment)
    },
    compact: (plan, book) =>
      Effect.gen(function* () {
        const parts = RequestWindow.split(window, policy.compaction.keepRecentMessages)
        if (parts.old.length === 0) return { _tag: "NothingToCompact" as const }
        if (options.transcript !== null)
          yield* options.transcript.record({ requestId: options.requestId, messages: RequestWindow.messagesOf(window) })
        const summary = yield* options.summarizer.summarize({
          messages: parts.old,
          book,
          maxInputTokens:
            plan.route.contextWindow === null
              ? summaryInputTokens
              : Math.max(1, Math.floor(plan.route.contextWindow * summaryShare)),
          maxOutputTokens: Math.min(summaryOutputTokens, plan.route.outputLimit ?? summaryOutputTokens)
        })
        if (summary.text.trim() === "")
          return yield* Effect.fail(
            makeModelError({ kind: "malformed_response", status: 200, code: "summary_empty", model: plan.route.model })
          )
        const before = promptTokens()
        const messagesBefore = RequestWindow.messagesOf(window).length
        window = RequestWindow.withSummary(window, parts, summary.text)
        return {
          _tag: "Compacted" as const,
          before,
          after: promptTokens(),
          messagesBefore,
          messagesAfter: RequestWindow.messagesOf(window).length
        }
      }),
    merge: (last) => {
      if (window.fragments.length === 0 || last.refusal !== null) return last
      const text = RequestWindow.textOf(window) + mended(last.text ?? "")
      return { ...last, text, warnings: [...last.warnings, ...repairs] }
    },
    partial: (fragment) => {
      const text = RequestWindow.textOf(window) + (fragment ?? "")
      return text === "" ? null : text
    }
  }
}
