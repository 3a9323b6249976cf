/** Azure OpenAI and Foundry. The code 429 is only the status again; the filter names itself in `innererror`. */
import { makeProfile, resetHeader, rowsOf, wordIds } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const azure = makeProfile({
  name: "azure",
  baseUrls: ["*.openai.azure.com", "*.cognitiveservices.azure.com", "*.services.ai.azure.com"],
  codeAt: ["/error/code", "/error/innererror/code", "/statusCode"],
  // Source: learn.microsoft.com, Azure OpenAI: quotas and limits, content filtering; Azure AI Foundry: error codes
  rows: [
    ...rowsOf("content_filtered", ["content_filter", "ResponsibleAIPolicyViolation", "content_policy_violation"]),
    ...rowsOf("quota_exhausted", ["insufficient_quota", "QuotaExceeded", "OutOfQuota"]),
    ...rowsOf("overloaded", ["NoCapacity", "EngineOverloaded", "ServerBusy", "system_overloaded"]),
    ...rowsOf("not_found", ["DeploymentNotFound", "ModelNotFound", "ModelDeprecated", "unavailable_model"])
  ],
  hints: [
    resetHeader("x-ratelimit-reset-requests", "reset", "x-ratelimit-remaining-requests", "requests"),
    resetHeader("x-ratelimit-reset-tokens", "reset", "x-ratelimit-remaining-tokens", "tokens")
  ],
  finishReasons,
  finishFaults,
  completionTokenModels: ["o1", "o3", "o4", "gpt-5"],
  returns: { message: ["audio"], call: [] },
  callIds: { ...wordIds, maxLength: 40 },
  toolNames: wordIds
})
