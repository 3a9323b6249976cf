/** What the name of a refused field stands for: the prompt, the output budget, or neither. Names only, no words. */

/** What a name stands for; null = neither. */
export type RefusedPart = "prompt" | "budget"

/** The prompt's own text, or all of it: `messages`, `messages[3].content`, `messages.3.content.0.text`, `input[0]`. */
const promptName =
  /^(messages|input|prompt|contents)([.[]\d+\]?|\.(content|text|parts|output|input_text|inline_data))*$/

const budgetNames: ReadonlySet<string> = new Set([
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "max_new_tokens",
  "maxOutputTokens",
  "max_tokens_to_sample",
  "generationConfig.maxOutputTokens",
  "generation_config.max_output_tokens",
  "inferenceConfig.maxTokens",
  "parameters.max_tokens",
  "num_predict",
  "n_predict"
])

/** Counts that a server makes of the prompt: naming one is saying that there is too much of it. */
export const countNames: ReadonlySet<string> = new Set([
  // vLLM's validation error: docs.vllm.ai, vllm/renderers and vllm/v1/engine/input_processor.py
  "input_tokens",
  "prompt_tokens",
  "input_text",
  "n_prompt_tokens",
  "prompt_token_ids"
])

export const refusedPart = (name: string | null): RefusedPart | null => {
  if (name === null) return null
  if (budgetNames.has(name)) return "budget"
  return countNames.has(name) || promptName.test(name) ? "prompt" : null
}
