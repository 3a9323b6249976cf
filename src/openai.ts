/** The OpenAI adapter: a ModelClient over the `openai` package, for OpenAI and every server that speaks its chat API. */
export { openai } from "./domain/profiles/openai.ts"
export { generic } from "./domain/profiles/generic.ts"
export { layer, make, type OpenAiOptions } from "./layers/OpenAiModelClient.ts"
export { make as makeUndiciFetch } from "./layers/undiciFetch.ts"
