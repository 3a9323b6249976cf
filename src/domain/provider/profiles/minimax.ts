/** MiniMax. Failures come inside a 200 as `base_resp.status_code`; 0 is success. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const minimax = makeProfile({
  name: "minimax",
  baseUrls: ["api.minimax.io", "api.minimaxi.com", "api.minimax.chat"],
  codeAt: ["/base_resp/status_code"],
  // Source: platform.minimax.io/docs/api-reference/errorcode
  rows: [
    ...rowsOf("rate_limited", [1002, 1039, 1041, 2045]),
    ...rowsOf("quota_exhausted", [1008, 1028, 1030, 2056]),
    ...rowsOf("quota_exhausted", ["insufficient_balance_error", "insufficient_balance"]),
    ...rowsOf("auth", [1004, 2049]),
    ...rowsOf("permission", [2061]),
    ...rowsOf("content_filtered", [1026, 1027]),
    ...rowsOf("timeout", [1001]),
    ...rowsOf("server_error", [1000, 1013, 1024, 1033]),
    ...rowsOf("invalid_request", [1042, 2013])
  ],
  inBandAt: [{ at: "/base_resp/status_code", unless: 0 }],
  finishReasons,
  finishFaults,
  returns: { thoughts: ["reasoning_content"], message: ["reasoning_details"] }
})
