/** Context windows and prices from `@pydantic/genai-prices`, for routes that do not state their own. */
export { completeRoute, factsOf, type ModelPricesOptions } from "./layers/provider/ModelPrices.ts"
export type { ModelFacts } from "./domain/provider/ModelCatalog.ts"
