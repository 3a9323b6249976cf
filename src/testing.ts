/** Doubles for tests of programs that use holdfast, or any client over `fetch`. */
export * as ScriptedModel from "./layers/ScriptedModel.ts"
export { chaosFetch, type ChaosFetch, type ChaosOptions } from "./testing/chaosFetch.ts"
export type { ChaosRecord, ChaosRequest, ChaosScript } from "./testing/ChaosScript.ts"
export { chaosServer, type ChaosServer } from "./testing/chaosServer.ts"
export { faultScript, type FaultScriptOptions } from "./testing/faultScript.ts"
export type { ChaosStep, ModelAnswer, ModelStep } from "./testing/ModelStep.ts"
export { virtualTime, type VirtualTime } from "./testing/virtualTime.ts"
