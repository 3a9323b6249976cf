/** Doubles for tests of programs that use holdfast. */
export * as ScriptedModel from "./layers/ScriptedModel.ts"
