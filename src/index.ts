/** The library without any SDK. Adapters have their own entry points: `holdfast/openai`, `holdfast/anthropic`. */
export { BudgetExceeded } from "./domain/AgentError.ts"
export { ConfigurationError } from "./domain/ConfigurationError.ts"
export { costOf, Prices } from "./domain/Cost.ts"
export { describe } from "./domain/describe.ts"
export { exitCodeOf, exitCodes } from "./domain/exitCode.ts"
export type { FaultKind } from "./domain/FaultKind.ts"
export type {
  AssistantMessage,
  ContentPart,
  Message,
  MessageToolCall,
  ReasoningPart,
  SystemMessage,
  ToolMessage,
  ToolSpec,
  UserMessage
} from "./domain/Message.ts"
export {
  AnthropicResponseError,
  isModelError,
  makeModelError,
  type Failure,
  ModelAuthenticationError,
  ModelConnectionError,
  ModelContentFilteredError,
  ModelNotFoundError,
  ModelOverloadedError,
  ModelPayloadTooLargeError,
  ModelPermissionError,
  ModelPromptTooLongError,
  ModelQuotaExhaustedError,
  ModelRateLimitError,
  ModelRequestError,
  ModelServerError,
  ModelStreamInterruptedError,
  ModelTimeoutError,
  OpenAIResponseError,
  type ModelError
} from "./domain/ModelError.ts"
export { toMessage, type FinishReason, type ModelPart, type ModelReply, type ToolCall } from "./domain/ModelReply.ts"
export type { ModelRequest, Priority, Role, WireRequest } from "./domain/ModelRequest.ts"
export { Outcome } from "./domain/Outcome.ts"
export { makeProfile } from "./domain/ownProfile.ts"
export { profileForBaseUrl, profileNamed, profiles } from "./domain/Profiles.ts"
export { withCodes, type ProviderProfile } from "./domain/ProviderProfile.ts"
export { RecoveryAction } from "./domain/RecoveryAction.ts"
export {
  InvalidRetryAfterError,
  isRecoveryError,
  PromptTooLongRetryError,
  RecoveryCancelledError,
  RecoveryDeadlineExceeded,
  RecoveryRetriesExhausted,
  type RecoveryError
} from "./domain/RecoveryError.ts"
export { RecoveryEvent } from "./domain/RecoveryEvent.ts"
export { transition } from "./domain/RecoveryMachine.ts"
export { RecoveryPolicy, type RecoveryPolicyInput, type Route, type RouteInput } from "./domain/RecoveryPolicy.ts"
export { RecoveryState } from "./domain/RecoveryState.ts"
export { renderFailure } from "./domain/renderFailure.ts"
export type { ReplyPart } from "./domain/ReplyPart.ts"
export type { Admission, Asker, RouteHealthConfig, Signal } from "./domain/RouteHealth.ts"
export { Tick } from "./domain/Tick.ts"
export { TrailEntry } from "./domain/Trail.ts"
export { Usage } from "./domain/Usage.ts"
export * as EventsMemory from "./layers/EventsMemory.ts"
export * as FileTranscript from "./layers/FileTranscript.ts"
export * as HealthMemory from "./layers/HealthMemory.ts"
export * as ModelSummarizer from "./layers/ModelSummarizer.ts"
export * as RecoveryLive from "./layers/RecoveryLive.ts"
export { recoverOverflow, recoverTransient, recoverTruncation } from "./programs/roads.ts"
export { HealthStore, type HealthStoreShape, type RouteKey, type Visitor } from "./services/HealthStore.ts"
export { ModelClient } from "./services/ModelClient.ts"
export {
  BackoffSchedule,
  DeadlineOverride,
  PolicyOverride,
  PriorityOverride,
  TokenEstimate
} from "./services/Overrides.ts"
export { Recovery, type ModelRequestExecutor, type RequestFailure } from "./services/Recovery.ts"
export { RecoveryEvents } from "./services/RecoveryEvents.ts"
export { Summarizer, type SummaryRequest } from "./services/Summarizer.ts"
export { Transcript, type Snapshot } from "./services/Transcript.ts"
