/** Turns old messages into a short text. Bound to the raw client: a summary is never recovered by recursion. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Message } from "../domain/chat/Message.ts"
import type { BudgetExceeded } from "../domain/failure/AgentError.ts"
import type { ModelError } from "../domain/failure/ModelError.ts"
import type { ModelReply } from "../domain/chat/ModelReply.ts"
import type { WireRequest } from "../domain/chat/ModelRequest.ts"
import type { Usage } from "../domain/chat/Usage.ts"

/**
 * Sends one HTTP request of a summary for whoever asked for it: admitted by the session's budget, settled after, and
 * entered in the trail.
 */
export type Book = (
  request: WireRequest,
  call: Effect.Effect<ModelReply, ModelError>
) => Effect.Effect<ModelReply, ModelError | BudgetExceeded>

export interface SummaryRequest {
  readonly messages: ReadonlyArray<Message>
  /** Tokens a single summary request may hold as input. */
  readonly maxInputTokens: number
  readonly maxOutputTokens: number
  /** Through this every HTTP request is sent. Absent = nobody counts. */
  readonly book?: Book
}

/** Fails with the provider's error, or with OpenAIResponseError when the text is cut, refused or empty. */
export class Summarizer extends Context.Service<
  Summarizer,
  {
    readonly summarize: (
      request: SummaryRequest
    ) => Effect.Effect<{ readonly text: string; readonly usage: Usage }, ModelError | BudgetExceeded>
  }
>()("holdfast/services/Summarizer") {}
