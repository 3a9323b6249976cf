/** The agent loop and its parts. No SDK: adapters have their own entry points. */
export {
  ContentFilteredError,
  isAgentError,
  LoopBroken,
  StepLimitReached,
  TruncatedReplyError,
  type AgentError
} from "./domain/AgentError.ts"
export type { AgentEvent } from "./domain/AgentEvent.ts"
export * as Budget from "./domain/Budget.ts"
export { repairHistory } from "./domain/historyRepair.ts"
export * as LoopGuard from "./domain/LoopGuard.ts"
export { chooseModel, type ModelChoice, type Phase } from "./domain/ModelChoice.ts"
export * as PromptCache from "./domain/PromptCache.ts"
export * as ToolArguments from "./domain/ToolArguments.ts"
export type { ToolResult, ToolTraits } from "./domain/ToolResult.ts"
export * as BudgetMemory from "./layers/BudgetMemory.ts"
export * as CacheSession from "./layers/CacheSession.ts"
export * as ConversationMemory from "./layers/ConversationMemory.ts"
export * as ModelSelection from "./layers/ModelSelection.ts"
export * as SessionFile from "./layers/SessionFile.ts"
export * as ToolboxLive from "./layers/ToolboxLive.ts"
export { makePreparation, type PrepareOptions } from "./programs/agent/prepareHistory.ts"
export { rawExecutor, type RawOptions } from "./programs/agent/rawExecutor.ts"
export { runAgent, type AgentFailure, type AgentOptions, type AgentResult } from "./programs/agent/runAgent.ts"
export { subAgent, type SubAgentOptions } from "./programs/agent/subAgent.ts"
export {
  AgentHooks,
  AgentMemory,
  HistoryPreparation,
  SystemPrompt,
  type Hooks,
  type Memory
} from "./services/AgentHooks.ts"
export { BudgetLedger, type LedgerShape, type Reservation } from "./services/BudgetLedger.ts"
export type { Conversation } from "./services/Conversation.ts"
export { ModelSelector } from "./services/ModelSelector.ts"
export { PromptCacheTtl } from "./services/PromptCacheTtl.ts"
export { Toolbox, type ToolboxShape } from "./services/Toolbox.ts"
