/**
 * Proactive compaction: when the history nears the window, old units are replaced by a summary in what is sent. The
 * canonical history is untouched, and a summary is kept until the window fills again, so that the prefix stays the same.
 */
import * as Effect from "effect/Effect"
import type { Prices } from "../../domain/budget/Cost.ts"
import type { Message } from "../../domain/chat/Message.ts"
import { splitForCompaction } from "../../domain/chat/MessageGroups.ts"
import { summaryMessage, withoutUsage } from "../../domain/chat/RequestWindow.ts"
import { guarded } from "../../domain/chat/TokenEstimate.ts"
import { TokenEstimate } from "../../services/Overrides.ts"
import type { Summarizer } from "../../services/Summarizer.ts"
import { sideRequest } from "./sideRequest.ts"

export interface PrepareOptions {
  readonly summarizer: (typeof Summarizer)["Service"]
  /** Tokens of prompt and output together. */
  readonly contextWindow: number
  /** Share of the window from which old messages are summarised. Default: 0.8. */
  readonly share?: number
  /** Messages that stay whole. Default: 8. */
  readonly keepRecentMessages?: number
  /** Of the model that writes the summaries; null (default) = unknown: then a limit in USD admits no summary. */
  readonly prices?: Prices | null
}

const summaryOutputTokens = 4_000

interface Kept {
  /** Messages of the canonical history, the system prompt not counted, that the summary stands for. */
  readonly covered: number
  readonly summary: Message
}

/** For `HistoryPreparation`; one per conversation. A summary that fails leaves everything as it is. */
export const makePreparation = (options: PrepareOptions) =>
  Effect.sync(() => {
    let kept: Kept | null = null
    const limit = options.contextWindow * (options.share ?? 0.8)
    const apply = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
      if (kept === null) return messages
      const { system, old, recent } = splitForCompaction(messages, 0)
      const rest = [...old, ...recent].slice(kept.covered)
      return [...system, kept.summary, ...rest.map(withoutUsage)]
    }
    return Effect.fnUntraced(function* (messages: ReadonlyArray<Message>) {
      const estimate = guarded(yield* TokenEstimate)
      const current = apply(messages)
      if (estimate(current, []) < limit) return current
      const parts = splitForCompaction(current, options.keepRecentMessages ?? 8)
      if (parts.old.length === 0) return current
      const summary = yield* options.summarizer
        .summarize({
          messages: parts.old,
          maxInputTokens: Math.max(1, Math.floor(options.contextWindow / 2)),
          maxOutputTokens: summaryOutputTokens,
          book: sideRequest(options.prices ?? null)
        })
        .pipe(
          Effect.map((one) => one.text.trim()),
          Effect.catch(() => Effect.succeed(""))
        )
      if (summary === "") return current
      // The summary before stands for `covered` messages and is itself one of the old ones.
      const before: Kept | null = kept
      kept = {
        covered: before === null ? parts.old.length : before.covered + parts.old.length - 1,
        summary: summaryMessage(summary)
      }
      const next = apply(messages)
      if (estimate(next, []) < estimate(current, [])) return next
      kept = before
      return current
    })
  })
