/** holdfast for plain TypeScript: promises, async iterators and AbortSignals; no Effect in sight. */
export {
  createRecovery,
  type CreateOptions,
  type PromiseCalls,
  type PromiseRecovery,
  type TurnOptions
} from "./promise/createRecovery.ts"
export type { CallOptions } from "./promise/edge.ts"
export { toolContent } from "./domain/agent/ToolContent.ts"
export { AgentConversation } from "./promise/AgentConversation.ts"
export { defineTool, type AgentTool, type DefineTool, type ToolContext } from "./promise/agentTools.ts"
export { AnswerMismatch } from "./promise/answerForm.ts"
export { CancellationToken } from "./promise/CancellationToken.ts"
export { createAgent, type Agent } from "./promise/createAgent.ts"
export type { AgentAnswer, AgentProgress, CreateAgentOptions, RunAgentOptions } from "./promise/agentRun.ts"
export type { AgentTurns } from "./promise/agentTurns.ts"
export { createExecutor, type PromiseExecutor } from "./promise/createExecutor.ts"
export { mcpTools, type McpClient, type McpOptions } from "./promise/mcpTools.ts"
export {
  recoverTransient,
  type PromiseCall,
  type PromiseCallAttempt,
  type PromiseCallOptions
} from "./promise/recoverTransient.ts"
export type { OutputOf, SchemaInput, StandardSchema } from "./promise/schemas.ts"
