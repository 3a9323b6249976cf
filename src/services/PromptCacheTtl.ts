/** How long the provider is to keep the prefix of requests below it; null = no markers. Read by adapters that have them. */
import * as Context from "effect/Context"
import type { CacheTtl } from "../domain/chat/PromptCache.ts"

export const PromptCacheTtl = Context.Reference<CacheTtl | null>("holdfast/PromptCacheTtl", {
  defaultValue: () => null
})
