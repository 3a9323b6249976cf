/** SiliconFlow. Flat bodies with numbers as codes. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons, inBandRows } from "./words.ts"

export const siliconflow = makeProfile({
  name: "siliconflow",
  baseUrls: ["api.siliconflow.cn", "api.siliconflow.com"],
  codeAt: ["/code"],
  rows: [
    ...rowsOf("quota_exhausted", [30001, 30011]),
    ...rowsOf("not_found", [20012]),
    ...rowsOf("overloaded", [50505, 50508, 50603]),
    ...rowsOf("rate_limited", [50604]),
    ...inBandRows
  ],
  inBandAt: [{ at: "/code", unless: 20000 }],
  finishReasons,
  finishFaults
})
