/**
 * SGLang. Errors as vLLM's; a stop by the server is the finish reason `abort`. Source: github.com/sgl-project/sglang,
 * srt/entrypoints/openai.
 */
import { makeProfile } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const sglang = makeProfile({
  name: "sglang",
  finishReasons,
  finishFaults,
  returns: { thoughts: ["reasoning_content"] }
})
