/** The OpenAI adapter: a ModelClient over the `openai` package, for OpenAI and every server that speaks one of its APIs. */
export { openai } from "./domain/provider/profiles/openai.ts"
export { generic } from "./domain/provider/profiles/generic.ts"
export { layer, make, type OpenAiApi, type OpenAiOptions } from "./layers/provider/OpenAiModelClient.ts"
export { make as makeUndiciFetch } from "./layers/provider/undiciFetch.ts"
