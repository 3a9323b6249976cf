/** Volcengine Ark (Doubao). Codes are words with a dotted detail; both spellings occur. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const volcengine = makeProfile({
  name: "volcengine",
  baseUrls: ["ark.*.volces.com", "ark.*.bytepluses.com"],
  codeAt: ["/error/code"],
  // Sources: volcengine.com/docs/82379/1299023 and /1099476
  rows: [
    ...rowsOf("prompt_too_long", ["OutofContextError", "OutOfContextError"]),
    ...rowsOf("quota_exhausted", ["AccountOverdueError", "QuotaExceeded", "SetLimitExceeded", "ServiceOverdue"]),
    ...rowsOf("quota_exhausted", ["OperationDenied.ServiceOverdue", "AccountOverdue", "AccountQuotaExceeded"]),
    ...rowsOf("quota_exhausted", ["InvalidSubscription"]),
    ...rowsOf("overloaded", ["ServerOverloaded", "ServiceOverloaded", "ModelLoading", "ModelLoadingError"]),
    ...rowsOf("rate_limited", ["RateLimitExceeded"], { match: "part" }),
    ...rowsOf("rate_limited", ["AccountRateLimitExceeded", "InflightBatchsizeExceeded", "RequestBurstTooFast"]),
    ...rowsOf("content_filtered", ["SensitiveContentDetected", "RiskDetection"], { match: "part" }),
    ...rowsOf("content_filtered", ["ContentSecurityDetectionError"]),
    ...rowsOf("auth", ["AuthenticationError", "InvalidAuthentication", "SignatureDoesNotMatch"]),
    ...rowsOf("not_found", ["InvalidEndpoint", "ModelNotOpen", "UnsupportedModel"], { match: "prefix" }),
    ...rowsOf("not_found", ["NotFound"], { match: "part" }),
    ...rowsOf("permission", ["AccessDenied", "OperationDenied"], { match: "prefix" }),
    ...rowsOf("server_error", ["InternalServiceError"], { status: 200 })
  ],
  finishReasons,
  finishFaults
})
