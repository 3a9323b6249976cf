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

/** A fallback the scenario does not name costs what the primary does: it never stands in the way of a limit in USD. */
const pricesOf = (config: ScenarioConfig, model: string, primary: string): RouteInput["prices"] =>
  config.prices?.[model] ??
  (config.maxCostUsd !== undefined && config.fallback === undefined ? config.prices?.[primary] : undefined)

const routeOf = (config: ScenarioConfig, model: string, primary: string): RouteInput => {
  const prices = pricesOf(config, model, primary)
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

export const policyInputOf = (scenario: Scenario, models: Models = modelsOf(scenario)): RecoveryPolicyInput => {
  const config = scenario.config ?? {}
  const preset: PresetName = scenario.preset ?? "strict"
  const fallback = preset === "background" && config.fallback === undefined ? null : models.fallback
  return {
    ...presets[preset],
    routeHealth: null,
    ...changesOf(config),
    routes:
      fallback === null
        ? [routeOf(config, models.primary, models.primary)]
        : [routeOf(config, models.primary, models.primary), routeOf(config, fallback, models.primary)]
  }
}
