/** ModelSelector from plain values: user choice over environment over default, and a stronger model for planning. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { chooseModel, type ModelChoice } from "../domain/agent/ModelChoice.ts"
import { ModelSelector } from "../services/ModelSelector.ts"

export const layer = (choice: ModelChoice): Layer.Layer<ModelSelector> =>
  Layer.succeed(ModelSelector, ModelSelector.of({ select: (step) => Effect.sync(() => chooseModel(choice, step)) }))
