/** The Anthropic adapter: a ModelClient over the `@anthropic-ai/sdk` package. */
export { anthropic } from "./domain/profiles/anthropic.ts"
export { layer, make, type AnthropicOptions } from "./layers/AnthropicModelClient.ts"
