/** Alibaba DashScope, native and compatible. `insufficient_quota` is a full minute bucket here, not an unpaid bill. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const dashscope = makeProfile({
  name: "dashscope",
  baseUrls: ["dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com"],
  // Sources: help.aliyun.com/en/model-studio/error-code and /error-code-start
  rows: [
    ...rowsOf("quota_exhausted", ["Arrearage", "AllocationQuota.FreeTierOnly", "PrepaidBillOverdue"]),
    ...rowsOf("quota_exhausted", ["PostpaidBillOverdue", "CommodityNotPurchased"]),
    ...rowsOf("rate_limited", ["Throttling"], { match: "prefix" }),
    ...rowsOf("rate_limited", ["insufficient_quota", "limit_requests", "limit_burst_rate", "LimitRequests"]),
    ...rowsOf("content_filtered", ["DataInspectionFailed", "data_inspection_failed"]),
    ...rowsOf("auth", ["InvalidApiKey", "invalid_api_key", "NotAuthorized"]),
    ...rowsOf("permission", ["AccessDenied", "Model.AccessDenied", "Workspace.AccessDenied"]),
    ...rowsOf("permission", ["AccessDenied.Unpurchased", "access_denied"]),
    ...rowsOf("not_found", ["ModelNotFound", "model_not_found", "WorkSpaceNotFound", "model_not_supported"]),
    // With a 503 the page says: throttled for want of capacity.
    ...rowsOf("overloaded", ["ModelServingError"], { status: 503 }),
    ...rowsOf("overloaded", ["ServiceUnavailable", "ModelServiceFailed", "SystemBusy"], { status: 200 }),
    ...rowsOf("server_error", ["InternalError", "SystemError", "ModelServingError", "ModelUnavailable"], {
      status: 200
    }),
    ...rowsOf("timeout", ["RequestTimeOut", "ResponseTimeout", "InternalError.Timeout"]),
    ...rowsOf("server_error", ["InternalError."], { status: 200, match: "prefix" }),
    ...rowsOf("invalid_request", ["InvalidParameter", "invalid_parameter_error", "BadRequest"], { status: 200 })
  ],
  inBandAt: [{ at: "/code", unless: null }],
  finishReasons,
  finishFaults
})
