/** Whom `holdfast run` asks: the provider of the settings, or the scripted one on loopback. */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { unpriced } from "../../../domain/budget/Budget.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { presets, RecoveryPolicy } from "../../../domain/recovery/RecoveryPolicy.ts"
import * as OpenAiModelClient from "../../../layers/provider/OpenAiModelClient.ts"
import { makeDirect } from "../../../layers/provider/undiciFetch.ts"
import { ModelClient } from "../../../services/ModelClient.ts"
import { loopback } from "../drill/loopbackProvider.ts"
import { settings } from "../variables.ts"
import { embedded, embeddedNames } from "./embedded.ts"
import type { Input } from "./input.ts"

export interface Target {
  readonly policy: RecoveryPolicy
  readonly client: (typeof ModelClient)["Service"]
  /** Every model that may be asked has a price. */
  readonly hasPrices: boolean
}

interface Place {
  readonly policy: RecoveryPolicy
  readonly apiKey: Redacted.Redacted<string> | string
  readonly baseUrl: string | null
  /** Our own server is reached directly, whatever proxies there are. */
  readonly isOwn: boolean
}

/** A scripted provider on loopback, for as long as the scope lives. */
const embeddedPlace = Effect.fnUntraced(function* (
  input: Input
): Effect.fn.Return<Place, ConfigurationError, Scope.Scope> {
  const scenario = embedded(input.scenario, input.allow, input.api)
  if (scenario === null)
    return yield* new ConfigurationError({ field: "--scenario", reason: `is none of ${embeddedNames.join(", ")}` })
  const server = yield* Effect.acquireRelease(
    Effect.promise(() => loopback(scenario)),
    (one) => Effect.promise(one.close)
  )
  const policy = new RecoveryPolicy({
    ...(input.unattended ? presets.unattended : presets.broad),
    routes: [
      { model: "embedded", prices: { inputPerM: 0, outputPerM: 0 } },
      { model: "embedded-second", prices: { inputPerM: 0, outputPerM: 0 } }
    ]
  })
  return { policy, apiKey: "embedded", baseUrl: server.baseUrl, isOwn: true }
})

const settingsPlace = (input: Input): Effect.Effect<Place, ConfigurationError, FileSystem.FileSystem> => {
  const chosen = {
    ...(input.unattended ? { HOLDFAST_PRESET: "unattended" } : {}),
    ...(input.model === null ? {} : { OPENAI_MODEL: input.model })
  }
  return settings(process.env, chosen, "broad", input.trustEnvFile).pipe(
    Effect.mapError((error) =>
      error.field.startsWith("OPENAI_API_KEY")
        ? new ConfigurationError({
            field: error.field,
            reason: `${error.reason}, or see it work without one: --provider embedded`
          })
        : error
    ),
    Effect.map(({ policy, apiKey, baseUrl }) => ({ policy, apiKey, baseUrl, isOwn: false }))
  )
}

/** The policy with the catalogue's prices where the user gave none. The catalogue is an optional package. */
const withPrices = Effect.fnUntraced(function* ({ policy, baseUrl }: Place) {
  const catalogue = yield* Effect.tryPromise(() => import("../../../layers/provider/ModelPrices.ts")).pipe(
    Effect.catch(() => Effect.succeed(null))
  )
  if (catalogue === null || policy.routes.every((route) => route.prices !== null)) return policy
  const place = baseUrl === null ? { provider: "openai" } : { baseUrl }
  const priced = policy.routes.map((route) => ({
    ...route,
    prices: route.prices ?? catalogue.factsOf(route.model, place).prices
  }))
  return new RecoveryPolicy({ ...policy, routes: priced })
})

const clientAt = (
  { apiKey, baseUrl, isOwn }: Place,
  api: Input["api"]
): Effect.Effect<Target["client"], ConfigurationError> =>
  Effect.try({
    try: () =>
      OpenAiModelClient.make({
        api,
        apiKey,
        ...(baseUrl === null ? {} : { baseUrl }),
        ...(isOwn ? { fetch: makeDirect() } : {})
      }),
    catch: (cause) =>
      cause instanceof ConfigurationError
        ? cause
        : new ConfigurationError({ field: "configuration", reason: "the client cannot be made" })
  })

/** A limit in USD needs the price of every model: without one nothing is sent. */
export const targetOf = Effect.fnUntraced(function* (
  input: Input
): Effect.fn.Return<Target, ConfigurationError, FileSystem.FileSystem | Scope.Scope> {
  const place = yield* input.provider === "embedded" ? embeddedPlace(input) : settingsPlace(input)
  const policy = yield* withPrices(place)
  const unknown = unpriced(policy.routes)
  if (input.maxUsd !== null && unknown !== null)
    return yield* new ConfigurationError({
      field: "--max-usd",
      reason: `needs the price of ${unknown.model}, which no catalogue gives for this address: set HOLDFAST_PRICES="${unknown.model}=IN/OUT", USD per million tokens`
    })
  return { policy, client: yield* clientAt(place, input.api), hasPrices: unknown === null }
})
