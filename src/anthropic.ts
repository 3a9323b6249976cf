/** The Anthropic adapter: a ModelClient over the `@anthropic-ai/sdk` package. */
export { anthropic } from "./domain/provider/profiles/anthropic.ts"
export { layer, make, type AnthropicOptions } from "./layers/provider/AnthropicModelClient.ts"
