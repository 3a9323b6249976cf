/** The agent loop and its parts. No SDK: adapters have their own entry points. */
export {
  ContentFilteredError,
  isAgentError,
  LoopBroken,
  StepLimitReached,
  TruncatedReplyError,
  type AgentError
} from "./domain/failure/AgentError.ts"
export type { AgentEvent } from "./domain/agent/AgentEvent.ts"
export * as Budget from "./domain/budget/Budget.ts"
export { repairHistory } from "./domain/agent/historyRepair.ts"
export * as LoopGuard from "./domain/agent/LoopGuard.ts"
export { chooseModel, type ModelChoice, type Phase } from "./domain/agent/ModelChoice.ts"
export * as PromptCache from "./domain/chat/PromptCache.ts"
export * as ToolArguments from "./domain/agent/ToolArguments.ts"
export { toolContent, type ToolContent } from "./domain/agent/ToolContent.ts"
export type { ToolResult, ToolTraits } from "./domain/agent/ToolResult.ts"
export * as BudgetMemory from "./layers/stores/BudgetMemory.ts"
export * as CacheSession from "./layers/CacheSession.ts"
export * as ConversationMemory from "./programs/agent/ConversationMemory.ts"
export * as ModelSelection from "./layers/ModelSelection.ts"
export * as SessionFile from "./layers/stores/SessionFile.ts"
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
