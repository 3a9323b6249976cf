/** One request after the other, in turns that begin when they are told to: for a loop that somebody else has written. */
import type { RequestInput } from "../domain/chat/ModelRequest.ts"
import type { ModelReply } from "../domain/chat/ModelReply.ts"
import type { ReplyPart } from "../domain/chat/ReplyPart.ts"
import { makeTurn, type TurnState } from "../services/Turn.ts"
import { callsIn, createRecovery, type CreateOptions, type PromiseCalls } from "./createRecovery.ts"
import type { CallOptions } from "./edge.ts"

export interface PromiseExecutor extends PromiseCalls {
  /**
   * The calls from here on are one turn: one deadline, one choice of model. Gives back the calls of this very turn, for
   * turns that run side by side. Before the first one, each call is a turn of its own.
   */
  readonly beginTurn: () => PromiseCalls
  readonly close: () => Promise<void>
}

export const createExecutor = (options: CreateOptions): PromiseExecutor => {
  const recovery = createRecovery(options)
  let turn: TurnState | null = null
  return {
    beginTurn: () => {
      turn = makeTurn()
      return callsIn(recovery, turn)
    },
    complete: (request: RequestInput, call?: CallOptions): Promise<ModelReply> =>
      callsIn(recovery, turn).complete(request, call),
    stream: (request: RequestInput, call?: CallOptions): AsyncIterable<ReplyPart> =>
      callsIn(recovery, turn).stream(request, call),
    close: recovery.close
  }
}
