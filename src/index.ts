/** The library without any SDK. Adapters have their own entry points: `holdfast/openai`, `holdfast/anthropic`. */
export { BudgetExceeded } from "./domain/failure/AgentError.ts"
export { ConfigurationError } from "./domain/failure/ConfigurationError.ts"
export { costOf, Prices } from "./domain/budget/Cost.ts"
export { describe } from "./domain/recovery/describe.ts"
export { exitCodeOf, exitCodes } from "./domain/failure/exitCode.ts"
export type { FaultKind } from "./domain/failure/FaultKind.ts"
export type {
  AssistantMessage,
  ContentPart,
  Message,
  MessageInput,
  MessageToolCall,
  ReasoningPart,
  SystemMessage,
  ToolInput,
  ToolMessage,
  ToolSpec,
  UserMessage
} from "./domain/chat/Message.ts"
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
} from "./domain/failure/ModelError.ts"
export {
  toMessage,
  type FinishReason,
  type ModelPart,
  type ModelReply,
  type ToolCall
} from "./domain/chat/ModelReply.ts"
export type { ModelRequest, Priority, RequestInput, Role, WireRequest } from "./domain/chat/ModelRequest.ts"
export { Outcome } from "./domain/recovery/Outcome.ts"
export { makeProfile } from "./domain/provider/ownProfile.ts"
export { profileForBaseUrl, profileNamed, profiles } from "./domain/provider/Profiles.ts"
export { withCodes, type ProviderProfile } from "./domain/provider/ProviderProfile.ts"
export { RecoveryAction } from "./domain/recovery/RecoveryAction.ts"
export {
  InvalidRetryAfterError,
  isRecoveryError,
  PromptTooLongRetryError,
  RecoveryCancelledError,
  RecoveryDeadlineExceeded,
  RecoveryRetriesExhausted,
  type RecoveryError
} from "./domain/failure/RecoveryError.ts"
export { RecoveryEvent } from "./domain/recovery/RecoveryEvent.ts"
export { transition } from "./domain/recovery/RecoveryMachine.ts"
export {
  RecoveryPolicy,
  type RecoveryPolicyInput,
  type Route,
  type RouteInput
} from "./domain/recovery/RecoveryPolicy.ts"
export { RecoveryState } from "./domain/recovery/RecoveryState.ts"
export { renderFailure } from "./domain/failure/renderFailure.ts"
export type { ReplyPart } from "./domain/chat/ReplyPart.ts"
export type { RouteHealthConfig } from "./domain/recovery/RouteHealthConfig.ts"
export type { Admission, Asker } from "./domain/route/Admission.ts"
export type { Signal } from "./domain/route/RouteHealth.ts"
export { Tick } from "./domain/recovery/Tick.ts"
export { TrailEntry } from "./domain/failure/Trail.ts"
export { Usage } from "./domain/chat/Usage.ts"
export * as EventsMemory from "./layers/stores/EventsMemory.ts"
export * as FileTranscript from "./layers/stores/FileTranscript.ts"
export * as HealthMemory from "./layers/stores/HealthMemory.ts"
export * as ModelSummarizer from "./layers/ModelSummarizer.ts"
export * as RecoveryLive from "./layers/RecoveryLive.ts"
export type { Call, CallAttempt, RecoverCallOptions } from "./programs/request/recoverCall.ts"
export { recoverOverflow, recoverTransient, recoverTruncation } from "./programs/request/singleRoad.ts"
export {
  HealthStore,
  type AdmissionQuestion,
  type HealthStoreShape,
  type RouteKey,
  type RouteReport
} from "./services/HealthStore.ts"
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
