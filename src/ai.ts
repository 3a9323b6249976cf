/**
 * The LanguageModel of effect/ai over recovered clients, and around any LanguageModel. effect marks its ai modules as
 * unstable: this entry point follows them.
 */
export { failureOf } from "./layers/ai/aiFailure.ts"
export { readAiError } from "./layers/ai/providerFailure.ts"
export type { Route } from "./layers/ai/LanguageModelClient.ts"
export { layer, wrap, type RecoveredOptions, type WrapOptions } from "./layers/ai/RecoveredModel.ts"
