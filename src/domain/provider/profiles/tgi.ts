/** Hugging Face text-generation-inference. The type stands beside the text; 424 is a failed generation. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const tgi = makeProfile({
  name: "tgi",
  baseUrls: ["router.huggingface.co", "*.endpoints.huggingface.cloud"],
  codeAt: ["/error_type"],
  // Source: github.com/huggingface/text-generation-inference, router/src/server.rs and validation.rs
  rows: [
    ...rowsOf("overloaded", ["overloaded"]),
    ...rowsOf("server_error", ["generation", "incomplete_generation", "unhealthy", "request_failed"]),
    ...rowsOf("invalid_request", ["validation", "tool_error", "template_error"])
  ],
  statuses: { 424: "server_error" },
  finishReasons,
  finishFaults
})
