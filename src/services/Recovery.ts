/** The recovered conversation: one logical request in, one whole reply or one typed failure out. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { BudgetExceeded } from "../domain/failure/AgentError.ts"
import type { ModelError } from "../domain/failure/ModelError.ts"
import type { ModelReply } from "../domain/chat/ModelReply.ts"
import type { ModelRequest, RequestInput } from "../domain/chat/ModelRequest.ts"
import type { RecoveryError } from "../domain/failure/RecoveryError.ts"
import type { ReplyPart } from "../domain/chat/ReplyPart.ts"

/** What ends a request. BudgetExceeded comes only with a ledger that has limits. */
export type RequestFailure = ModelError | RecoveryError | BudgetExceeded

interface Shape {
  readonly complete: (request: RequestInput) => Effect.Effect<ModelReply, RequestFailure>
  readonly stream: (request: RequestInput) => Stream.Stream<ReplyPart, RequestFailure>
  /**
   * Gives its body one model state, and one deadline: the `DeadlineOverride` around it, or the policy's where `deadlinePer`
   * is `turn`. A call outside a turn is its own turn.
   */
  readonly turn: <A, E, R>(body: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

export class Recovery extends Context.Service<Recovery, Shape>()("holdfast/services/Recovery") {}

/** The narrow dependency of an agent loop: Recovery is one, a raw client another. */
export interface ModelRequestExecutor extends Pick<Shape, "turn"> {
  readonly complete: (request: ModelRequest) => Effect.Effect<ModelReply, RequestFailure>
  readonly stream: (request: ModelRequest) => Stream.Stream<ReplyPart, RequestFailure>
}
