/** SiliconFlow. Flat bodies with numbers as codes. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const siliconflow = makeProfile({
  name: "siliconflow",
  baseUrls: ["api.siliconflow.cn", "api.siliconflow.com"],
  codeAt: ["/code"],
  // Source: docs.siliconflow.cn/en/faqs/error-code
  rows: [
    ...rowsOf("quota_exhausted", [30001, 30011]),
    ...rowsOf("not_found", [20012, 30003]),
    ...rowsOf("overloaded", [50505, 50508, 50603]),
    ...rowsOf("rate_limited", [50604])
  ],
  inBandAt: [{ at: "/code", unless: 20000 }],
  // The page: 503 is a service under high load.
  statuses: { 503: "overloaded" },
  finishReasons,
  finishFaults,
  returns: { thoughts: ["reasoning_content"] }
})
