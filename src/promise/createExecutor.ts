/** One request after the other, in turns that begin when they are told to: for a loop that somebody else has written. */
import type { RequestInput } from "../domain/chat/ModelRequest.ts"
import type { ModelReply } from "../domain/chat/ModelReply.ts"
import type { ReplyPart } from "../domain/chat/ReplyPart.ts"
import { makeTurn, type TurnState } from "../services/Turn.ts"
import { callsIn, createRecovery, type CreateOptions, type PromiseCalls, type TurnOptions } from "./createRecovery.ts"
import type { CallOptions } from "./edge.ts"

export interface PromiseExecutor extends PromiseCalls {
  /**
   * The calls from here on are one turn: one choice of model, and one deadline as for `turn` of a recovery. Gives back the
   * calls of this very turn, for turns that run side by side. Before the first one, each call is a turn of its own.
   */
  readonly beginTurn: (options?: TurnOptions) => PromiseCalls
  readonly close: () => Promise<void>
}

export const createExecutor = (options: CreateOptions): PromiseExecutor => {
  const recovery = createRecovery(options)
  let turn: TurnState | null = null
  let of: TurnOptions = {}
  return {
    beginTurn: (options = {}) => {
      turn = makeTurn()
      of = options
      return callsIn(recovery, turn, of)
    },
    complete: (request: RequestInput, call?: CallOptions): Promise<ModelReply> =>
      callsIn(recovery, turn, of).complete(request, call),
    stream: (request: RequestInput, call?: CallOptions): AsyncIterable<ReplyPart> =>
      callsIn(recovery, turn, of).stream(request, call),
    close: recovery.close
  }
}
