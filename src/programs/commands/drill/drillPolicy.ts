/** The policy of a drill: its own defaults, then the preset, then what the scenario changes. */
import type { PresetName, RecoveryPolicyInput, RouteInput } from "../../../domain/recovery/RecoveryPolicy.ts"
import { presets } from "../../../domain/recovery/RecoveryPolicy.ts"
import { changesIn } from "./policyChanges.ts"
import type { Scenario, ScenarioConfig } from "./Scenario.ts"

type Limit = ScenarioConfig["modelMaxTokens"]

const limitOf = (limit: Limit, model: string, otherwise: number | null): number | null =>
  limit === undefined ? otherwise : limit === null || typeof limit === "number" ? limit : (limit[model] ?? null)

/** Every model of a drill can write so many tokens unless the scenario says otherwise. */
const defaultOutputLimit = 64_000

export interface Models {
  readonly primary: string
  readonly fallback: string | null
}

export const modelsOf = (scenario: Scenario): Models => ({
  primary: scenario.config?.primary ?? "primary-model",
  fallback: scenario.config?.fallback === undefined ? "fallback-model" : scenario.config.fallback
})

const routeOf = (config: ScenarioConfig, model: string): RouteInput => {
  const prices = config.prices?.[model]
  return {
    model,
    outputLimit: limitOf(config.modelMaxTokens, model, defaultOutputLimit),
    contextWindow: limitOf(config.contextWindow, model, null),
    ...(prices === undefined ? {} : { prices })
  }
}

/** The fields a scenario's config changes, in the policy's names. */
export const changesOf = (config: ScenarioConfig): Omit<Partial<RecoveryPolicyInput>, "routes"> => ({
  ...changesIn(config),
  ...(config.routeHealth === undefined
    ? {}
    : { routeHealth: config.routeHealth === "on" ? presets.broad.routeHealth : null })
})

/**
 * Whether a drill that names no fallback has one: not in the background, and not under a limit in USD without a price of its
 * own, since nothing is ever counted at another model's rate.
 */
const hasOwnFallback = (config: ScenarioConfig, preset: PresetName): boolean =>
  preset !== "background" && (config.maxCostUsd === undefined || config.prices?.["fallback-model"] !== undefined)

export const policyInputOf = (scenario: Scenario, models: Models = modelsOf(scenario)): RecoveryPolicyInput => {
  const config = scenario.config ?? {}
  const preset: PresetName = scenario.preset ?? "strict"
  const fallback = config.fallback === undefined && !hasOwnFallback(config, preset) ? null : models.fallback
  return {
    ...presets[preset],
    routeHealth: null,
    ...changesOf(config),
    routes:
      fallback === null
        ? [routeOf(config, models.primary)]
        : [routeOf(config, models.primary), routeOf(config, fallback)]
  }
}
