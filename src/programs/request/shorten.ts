/** Has the old part of a window summarised. Transcript and summarizer are guests: what breaks in them has a name here. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type { Message } from "../../domain/chat/Message.ts"
import * as RequestWindow from "../../domain/chat/RequestWindow.ts"
import type { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { Route } from "../../domain/recovery/RecoveryPolicy.ts"
import type { Book, Summarizer, SummaryRequest } from "../../services/Summarizer.ts"
import type { Transcript } from "../../services/Transcript.ts"

/** Share of a known window that a summary request may fill, and its input budget where the window is unknown. */
const summaryShare = 0.5
const summaryInputTokens = 24_000
/** Output budget of a summary request. */
const summaryOutputTokens = 4_000

/** How long a transcript may take before the request goes on without it. */
const transcriptGrace = "30 seconds"

export interface Summarising {
  readonly requestId: string
  /** What the transcript keeps. */
  readonly all: ReadonlyArray<Message>
  /** What the summary replaces. */
  readonly old: ReadonlyArray<Message>
  readonly route: Route
  readonly summarizer: (typeof Summarizer)["Service"]
  readonly transcript: (typeof Transcript)["Service"] | null
  readonly book: Book
}

const inputBudgetOf = (route: Route): number =>
  route.contextWindow === null ? summaryInputTokens : Math.max(1, Math.floor(route.contextWindow * summaryShare))

/** The messages as they were before. Never fails the request: what goes wrong is told in the log. */
const keepTranscript = ({ transcript, requestId, all }: Summarising): Effect.Effect<void> => {
  if (transcript === null) return Effect.void
  const record = Effect.suspend(() => transcript.record({ requestId, messages: all }))
  return record.pipe(
    Effect.timeoutOrElse({
      duration: transcriptGrace,
      orElse: () =>
        Effect.logWarning(`the transcript took more than ${transcriptGrace}: the request goes on without it`)
    }),
    Effect.catchCause((cause) => Effect.logWarning("the transcript could not be written", cause))
  )
}

/** A summarizer that throws or interrupts itself has failed like one whose provider did. */
const broken = (cause: Cause.Cause<unknown>, model: string): ModelError =>
  makeModelError({
    kind: "malformed_response",
    status: 200,
    code: "summarizer_broke",
    model,
    providerMessage: Cause.hasInterruptsOnly(cause) ? "the summarizer interrupted itself" : String(Cause.squash(cause))
  })

const summarise = (
  { summarizer, route }: Summarising,
  request: SummaryRequest
): Effect.Effect<string, ModelError | BudgetExceeded> =>
  Effect.suspend(() => summarizer.summarize(request)).pipe(
    Effect.map((summary) => summary.text),
    Effect.catchCause((cause) => {
      const found = Cause.findErrorOption(cause)
      if (found._tag === "Some") return Effect.fail(found.value)
      return Effect.andThen(Effect.logWarning("the summarizer broke", cause), Effect.fail(broken(cause, route.model)))
    })
  )

/** A summary of the old messages; never an empty one. */
export const summaryOf = Effect.fnUntraced(function* (
  options: Summarising
): Effect.fn.Return<string, ModelError | BudgetExceeded> {
  const { old, route, book } = options
  yield* keepTranscript(options)
  const text = yield* summarise(options, {
    messages: old,
    book,
    maxInputTokens: inputBudgetOf(route),
    maxOutputTokens: Math.min(summaryOutputTokens, route.outputLimit ?? summaryOutputTokens)
  })
  if (text.trim() === "")
    return yield* Effect.fail(
      makeModelError({ kind: "malformed_response", status: 200, code: "summary_empty", model: route.model })
    )
  return text
})

export interface Shortening extends Omit<Summarising, "all" | "old"> {
  readonly window: RequestWindow.RequestWindow
  readonly keepRecentMessages: number
}

/** The shorter window; null = there is nothing that a summary could replace. */
export const shorten = Effect.fnUntraced(function* (
  options: Shortening
): Effect.fn.Return<RequestWindow.RequestWindow | null, ModelError | BudgetExceeded> {
  const { window } = options
  const parts = RequestWindow.split(window, options.keepRecentMessages)
  if (parts.old.length === 0) return null
  const text = yield* summaryOf({ ...options, all: RequestWindow.messagesOf(window), old: parts.old })
  return RequestWindow.withSummary(window, parts, text)
})
