/**
 * What effect/ai asked of the call below: a wrapped LanguageModel is asked it again, word for word. Fiber-local, and null
 * outside of such a call.
 */
import type * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Context from "effect/Context"
import type { Mapped } from "./promptMessages.ts"

export interface AiCall {
  readonly options: LanguageModel.ProviderOptions
  readonly mapped: ReadonlyArray<Mapped>
  /** The last lost connection: its error of ours has no place for the original. */
  lost: AiError.AiError | null
}

export const AiCallNow = Context.Reference<AiCall | null>("holdfast/layers/ai/AiCall", { defaultValue: () => null })
