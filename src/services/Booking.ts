/**
 * How a side request of a logical request (a summary) gets into the trail and the session's budget. The interpreter
 * provides it around a compaction; elsewhere it changes nothing.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { BudgetExceeded } from "../domain/failure/AgentError.ts"
import type { ModelError } from "../domain/failure/ModelError.ts"
import type { ModelReply } from "../domain/chat/ModelReply.ts"
import type { WireRequest } from "../domain/chat/ModelRequest.ts"

export type Book = (
  request: WireRequest,
  call: Effect.Effect<ModelReply, ModelError>
) => Effect.Effect<ModelReply, ModelError | BudgetExceeded>

export const Booking = Context.Reference<Book>("holdfast/Booking", { defaultValue: () => (_request, call) => call })
