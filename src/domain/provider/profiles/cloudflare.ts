/** Cloudflare Workers AI. Codes are numbers in a list of errors. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const cloudflare = makeProfile({
  name: "cloudflare",
  baseUrls: ["api.cloudflare.com", "gateway.ai.cloudflare.com"],
  codeAt: ["/errors/*/code", "/error/*/code"],
  // Source: developers.cloudflare.com/workers-ai/platform/errors
  rows: [
    ...rowsOf("quota_exhausted", [3036, 4006]),
    ...rowsOf("overloaded", [3040]),
    ...rowsOf("payload_too_large", [3006]),
    ...rowsOf("timeout", [3007, 3008, 3046]),
    ...rowsOf("not_found", [5007, 3042]),
    ...rowsOf("prompt_too_long", [5021]),
    ...rowsOf("permission", [3023, 3041, 5016, 5018]),
    ...rowsOf("auth", [10000, 9109])
  ],
  inBandAt: [{ at: "/errors/0/code", unless: null }],
  finishReasons,
  finishFaults
})
