/** The tools of an agent. Never fails: what goes wrong is a result the model can read. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { ToolSpec } from "../domain/chat/Message.ts"
import type { KeyedCall, ToolResult, ToolTraits } from "../domain/agent/ToolResult.ts"

export interface ToolboxShape {
  /** What the model is told of; read once per step. */
  readonly specs: Effect.Effect<ReadonlyArray<ToolSpec>>
  /** How a tool may be run; a name that is not known is harmless. */
  readonly traits: (name: string) => ToolTraits
  /** Checks the arguments, runs the tool under its time-out, and turns every ending into a result. */
  readonly run: (call: KeyedCall) => Effect.Effect<ToolResult>
  /**
   * What became of a call that was begun and has no end, as its tool tells; null = it has not happened. Default: unknown.
   */
  readonly settle?: (call: KeyedCall) => Effect.Effect<ToolResult | null>
  /** Stops one running call, which then reads "interrupted"; false when it is not running. */
  readonly interrupt: (callId: string) => Effect.Effect<boolean>
}

export class Toolbox extends Context.Service<Toolbox, ToolboxShape>()("holdfast/services/Toolbox") {}
