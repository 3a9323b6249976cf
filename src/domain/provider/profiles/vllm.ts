/**
 * vLLM. The code is the status again, also inside a stream; a full window is a 400 whose `param` counts the prompt
 * (`input_tokens`), or in older servers a plain one. Source: github.com/vllm-project/vllm, vllm/entrypoints/openai and
 * vllm/v1/engine/input_processor.py.
 */
import { makeProfile } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const vllm = makeProfile({
  name: "vllm",
  finishReasons,
  finishFaults,
  returns: { thoughts: ["reasoning_content", "reasoning"] }
})
