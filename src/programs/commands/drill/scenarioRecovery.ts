/** The library as a scenario configures it: settings, profile and adapter around the stage's provider. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { unpriced } from "../../../domain/budget/Budget.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { profileNamed } from "../../../domain/provider/Profiles.ts"
import { type ProviderProfile, withCodes } from "../../../domain/provider/ProviderProfile.ts"
import { RecoveryPolicy } from "../../../domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../../layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../layers/RecoveryLive.ts"
import * as OpenAiModelClient from "../../../layers/provider/OpenAiModelClient.ts"
import * as EventsMemory from "../../../layers/stores/EventsMemory.ts"
import type { ModelClient } from "../../../services/ModelClient.ts"
import { Recovery } from "../../../services/Recovery.ts"
import { requestSettings, withVariables } from "../Settings.ts"
import { type Play, limitsOf } from "./Stage.ts"
import { timed } from "./ResultLine.ts"
import type { Scenario } from "./Scenario.ts"
import { roleHeader } from "./ScriptBook.ts"
import { type Models, modelsOf, policyInputOf } from "./drillPolicy.ts"

const dummyKey = "sk-drill-0000000000"

const profileOf = (scenario: Scenario): ProviderProfile => {
  const profile = profileNamed(scenario.profile ?? (scenario.adapter === "anthropic" ? "anthropic" : "openai"))
  if (profile === null) throw new ConfigurationError({ field: "profile", reason: `"${scenario.profile}" is not known` })
  return withCodes(profile, scenario.config?.codes ?? [])
}

interface DrillSettings {
  readonly models: Models
  readonly apiKey: string
  readonly baseUrl: string | null
}

/** The configuration as a command would resolve it, from the drill's values and the scenario's changes. */
const settingsOf = (scenario: Scenario): Effect.Effect<DrillSettings, ConfigurationError> => {
  const changes = scenario.config?.env
  const models = modelsOf(scenario)
  const apiKey = scenario.config?.apiKey ?? dummyKey
  if (changes === undefined) return Effect.succeed({ models, apiKey, baseUrl: scenario.config?.baseUrl ?? null })
  const variables: Record<string, string | undefined> = {
    OPENAI_API_KEY: apiKey,
    OPENAI_MODEL: models.primary,
    OPENAI_FALLBACK_MODEL: models.fallback ?? "none"
  }
  for (const [name, value] of Object.entries(changes)) variables[name] = value ?? undefined
  return requestSettings("strict").pipe(
    Effect.map(({ policy, apiKey: key, baseUrl }) => ({
      models: { primary: policy.routes[0].model, fallback: policy.routes[1]?.model ?? null },
      apiKey: Redacted.value(key),
      baseUrl
    })),
    withVariables(variables)
  )
}

/** The adapter that the scenario is written for. */
const clientOf = (
  scenario: Scenario,
  options: Pick<OpenAiModelClient.OpenAiOptions, "fetch" | "baseUrl" | "apiKey" | "profile" | "headers">
): Layer.Layer<ModelClient, ConfigurationError> => {
  const budgetParam = scenario.config?.budgetParam
  return scenario.adapter === "anthropic"
    ? Layer.unwrap(
        // Loaded when needed: its SDK is an optional peer.
        Effect.map(
          Effect.promise(() => import("../../../layers/provider/AnthropicModelClient.ts")),
          (adapter) => adapter.layer(options)
        )
      )
    : OpenAiModelClient.layer({
        ...options,
        api: scenario.adapter === "responses" ? "responses" : "chat",
        ...(budgetParam === undefined ? {} : { budgetParam })
      })
}

/** Loaded when needed: both SDKs are optional peers. */
const clientLayer = (play: Play, settings: DrillSettings): Layer.Layer<Recovery> =>
  Layer.effect(
    Recovery,
    Effect.map(
      Effect.promise(() => import("./doors/clientRecovery.ts")),
      ({ clientRecovery }) =>
        clientRecovery(play, {
          policy: policyInputOf(play.scenario, settings.models),
          profile: profileOf(play.scenario),
          apiKey: settings.apiKey,
          baseUrl: settings.baseUrl
        })
    )
  )

/** Fails with ConfigurationError where the policy, the profile or a price is wrong. */
const layerOf = (play: Play, settings: DrillSettings): Layer.Layer<Recovery, ConfigurationError> => {
  const { scenario, stage } = play
  const policy = new RecoveryPolicy(policyInputOf(scenario, settings.models))
  const fault = limitsOf(scenario).maxCostUsd === null ? null : unpriced(policy.routes)
  if (fault !== null) throw new ConfigurationError({ field: "maxCostUsd", reason: `needs the price of ${fault.model}` })
  if (play.isClient) return clientLayer(play, settings)
  const own = scenario.config?.headers
  const client = clientOf(scenario, {
    apiKey: settings.apiKey,
    profile: profileOf(scenario),
    ...(settings.baseUrl === null ? {} : { baseUrl: settings.baseUrl }),
    headers: (request) => ({ ...own, [roleHeader]: request.role }),
    ...stage.client
  })
  return RecoveryLive.layer(policy).pipe(
    Layer.provide(ModelSummarizer.layer({ model: settings.models.primary })),
    Layer.provide(client),
    Layer.provide(EventsMemory.layerTo((event) => Effect.sync(() => play.events.push(timed(event, stage.now())))))
  )
}

/** The library's layers around the stage's provider. */
export const recoveryOf = (play: Play): Layer.Layer<Recovery, ConfigurationError> =>
  Layer.unwrap(
    Effect.flatMap(settingsOf(play.scenario), (settings) =>
      Effect.try({
        try: () => layerOf(play, settings),
        catch: (cause) =>
          cause instanceof ConfigurationError
            ? cause
            : new ConfigurationError({ field: play.scenario.id, reason: String(cause) })
      })
    )
  )
