/** llama.cpp's server. It counts: the prompt's tokens and the window stand in the error. 503 = the model is loading. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const llamacpp = makeProfile({
  name: "llamacpp",
  // Source: github.com/ggml-org/llama.cpp, tools/server (format_error_response)
  rows: [
    ...rowsOf("prompt_too_long", ["exceed_context_size_error"]),
    ...rowsOf("server_error", ["unavailable_error"], { status: 200 })
  ],
  overflowEvidence: { prompt: "/error/n_prompt_tokens", window: "/error/n_ctx" },
  finishReasons,
  finishFaults,
  returns: { thoughts: ["reasoning_content"] }
})
