/** Turns old messages into a short text. Bound to the raw client: a summary is never recovered by recursion. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Message } from "../domain/chat/Message.ts"
import type { BudgetExceeded } from "../domain/failure/AgentError.ts"
import type { ModelError } from "../domain/failure/ModelError.ts"
import type { Usage } from "../domain/chat/Usage.ts"

export interface SummaryRequest {
  readonly messages: ReadonlyArray<Message>
  /** Tokens a single summary request may hold as input. */
  readonly maxInputTokens: number
  readonly maxOutputTokens: number
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
