/** Names the model a step asks for. Optional; without the service the policy's routes stand. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Phase } from "../domain/agent/ModelChoice.ts"

export class ModelSelector extends Context.Service<
  ModelSelector,
  { readonly select: (step: { readonly phase: Phase; readonly contextTokens: number }) => Effect.Effect<string> }
>()("holdfast/services/ModelSelector") {}
