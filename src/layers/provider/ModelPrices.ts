/**
 * Context windows and prices from the catalogue of `@pydantic/genai-prices`, which its maintainers keep. It says nothing
 * of output limits: those come from the caller. No network: the data is what the installed version holds.
 */
import { calcPrice, type ModelPrice } from "@pydantic/genai-prices"
import { pricesOf, unknownFacts, withFacts, type ModelFacts } from "../../domain/provider/ModelCatalog.ts"
import type { RouteInput } from "../../domain/recovery/RecoveryPolicy.ts"
import type { CacheTtl } from "../../domain/chat/PromptCache.ts"

export interface ModelPricesOptions {
  /** The catalogue's name of the provider (`openai`, `anthropic`, `google` ...). Default: by base URL, else by model. */
  readonly provider?: string
  readonly baseUrl?: string | URL
  /** Lifetime of prompt cache markers: a longer one has its own rate of writing. Default: 5m. */
  readonly cacheTtl?: CacheTtl
}

const writeRate = (price: ModelPrice, ttl: CacheTtl): ModelPrice[string] =>
  ttl === "1h" ? (price["cache_write_1h_mtok"] ?? price["cache_write_mtok"]) : price["cache_write_mtok"]

/** What the catalogue knows of a model; unknown facts are null. */
export const factsOf = (model: string, options: ModelPricesOptions = {}): ModelFacts => {
  const found = calcPrice({ input_tokens: 0, output_tokens: 0 }, model, {
    ...(options.provider === undefined ? {} : { providerId: options.provider }),
    ...(options.provider !== undefined || options.baseUrl === undefined
      ? {}
      : { providerApiUrl: String(options.baseUrl) })
  })
  if (found === null) return unknownFacts
  const contextWindow = found.model.context_window ?? null
  const price = found.model_price
  return {
    contextWindow,
    prices: pricesOf(
      {
        input: price["input_mtok"],
        output: price["output_mtok"],
        cacheRead: price["cache_read_mtok"],
        cacheWrite: writeRate(price, options.cacheTtl ?? "5m")
      },
      contextWindow
    )
  }
}

/** A route completed from the catalogue; the route's own values win. */
export const completeRoute = (route: RouteInput, options: ModelPricesOptions = {}): RouteInput =>
  withFacts(route, factsOf(route.model, options))
