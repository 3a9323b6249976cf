/**
 * One configuration for every command, read through effect's Config: flags win over the environment, the environment
 * over `.env`, `.env` over defaults (variables.ts puts them in this order). A missing or bad value is a
 * ConfigurationError naming the variable, never its value.
 */
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import type { Prices } from "../../domain/budget/Cost.ts"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { schemaFault } from "../../domain/failure/schemaFault.ts"
import { keyFlaw } from "../../domain/provider/address.ts"
import { presets, RecoveryPolicy, type PresetName, type RouteInput } from "../../domain/recovery/RecoveryPolicy.ts"
import { policyVariables, required, requiredNames, variableOf, type RequiredName } from "./settingVariables.ts"

export interface Settings {
  readonly apiKey: Redacted.Redacted<string>
  /** null = the provider's own. */
  readonly baseUrl: string | null
  readonly preset: PresetName
  readonly policy: RecoveryPolicy
}

/** Settings as far as they are given: what can be shown before anybody has a key. */
export interface SettingsOutline extends Pick<Settings, "baseUrl" | "preset" | "policy"> {
  /** Variables a request needs and nobody has set; a model among them stands in the policy as `notSetModel(name)`. */
  readonly notSet: ReadonlyArray<string>
}

/** Why a value cannot be used. */
class Flaw {
  readonly reason: string
  constructor(reason: string) {
    this.reason = reason
  }
}

const configFault = (name: string, reason: string): Config.ConfigError =>
  new Config.ConfigError(
    new Schema.SchemaError(new SchemaIssue.Pointer([name], new SchemaIssue.InvalidValue({ message: reason })))
  )

/** A variable's value, read from its text; null = not set. */
const variable = <A>(name: string, read: (text: string) => A | Flaw): Config.Config<A | null> =>
  Config.String(name).pipe(
    Config.option,
    Config.mapEffect((text) => {
      if (Option.isNone(text)) return Effect.succeed(null)
      const value = read(text.value)
      return value instanceof Flaw ? Effect.fail(configFault(name, value.reason)) : Effect.succeed(value)
    })
  )

/** The same for values of which white space is none. */
const filled = <A>(name: string, read: (text: string) => A | Flaw): Config.Config<A | null> =>
  variable(name, (text) => (text.trim() === "" ? null : read(text.trim())))

const text = (name: string): Config.Config<string | null> => filled(name, (value) => value)

const wholeNumber = (value: string): number | Flaw =>
  /^\d+$/.test(value) ? Number(value) : new Flaw("is not a whole number")

/** "30 seconds", a number of milliseconds, or "none": what the policy takes; it checks the words. */
const spanInput = (value: string): { readonly span: string | number | null } => ({
  span: value === "none" ? null : /^\d+$/.test(value) ? Number(value) : value
})

/** An empty address is refused too: it is never replaced by a default. */
const address = (value: string): string | Flaw => {
  const url = URL.canParse(value) ? new URL(value) : null
  return url !== null && (url.protocol === "http:" || url.protocol === "https:")
    ? value
    : new Flaw("is set but is not an http or https address")
}

const isPreset = (value: string): value is PresetName => Object.hasOwn(presets, value)

const presetIn = (value: string): PresetName | Flaw =>
  isPreset(value) ? value : new Flaw(`is none of ${Object.keys(presets).join(", ")}`)

/** USD per million tokens by model: `large=2/10, small=0.1/0.4`; a third number is the rate of cached input. */
const pricesIn = (value: string): ReadonlyMap<string, Prices> | Flaw => {
  const prices = new Map<string, Prices>()
  for (const entry of value.split(",")) {
    if (entry.trim() === "") continue
    const found = /^\s*(\S+)\s*=\s*(\d+(?:\.\d+)?)\/(\d+(?:\.\d+)?)(?:\/(\d+(?:\.\d+)?))?\s*$/.exec(entry)
    if (found === null) return new Flaw("is not a list like large=2/10, small=0.1/0.4")
    const [, model = "", input, output, cached] = found
    prices.set(model, {
      inputPerM: Number(input),
      outputPerM: Number(output),
      ...(cached === undefined ? {} : { cachedInputPerM: Number(cached) })
    })
  }
  return prices
}

/** The fields of the policy that variables set, by field. */
const overrides: Config.Config<Readonly<Record<string, unknown>>> = Config.all(
  policyVariables.map(({ name, field, kind }) =>
    kind === "count"
      ? Config.map(filled(name, wholeNumber), (value) => (value === null ? [] : [[field, value] as const]))
      : Config.map(filled(name, spanInput), (value) => (value === null ? [] : [[field, value.span] as const]))
  )
).pipe(Config.map((found): Readonly<Record<string, unknown>> => Object.fromEntries(found.flat())))

const needed = Config.all({
  OPENAI_API_KEY: text("OPENAI_API_KEY"),
  OPENAI_MODEL: text("OPENAI_MODEL"),
  OPENAI_FALLBACK_MODEL: text("OPENAI_FALLBACK_MODEL")
}) satisfies Config.Config<Readonly<Record<RequiredName, string | null>>>

const given = Config.all({
  baseUrl: variable("OPENAI_BASE_URL", address),
  preset: filled("HOLDFAST_PRESET", presetIn),
  outputLimit: filled("HOLDFAST_MODEL_MAX_TOKENS", wholeNumber),
  contextWindow: filled("HOLDFAST_CONTEXT_WINDOW", wholeNumber),
  prices: filled("HOLDFAST_PRICES", pricesIn),
  overrides
})

/** What effect's Config found, in our words. */
const asConfigurationError = (error: Config.ConfigError): ConfigurationError =>
  error.cause instanceof Schema.SchemaError
    ? new ConfigurationError(schemaFault(error.cause))
    : new ConfigurationError({ field: "configuration", reason: String(error.cause) })

/** Everything that is missing, in one sentence. */
const missing = (names: ReadonlyArray<RequiredName>): ConfigurationError => {
  const [first] = names
  if (names.length === 1 && first !== undefined)
    return new ConfigurationError({ field: first, reason: `is not set: ${required[first]}` })
  return new ConfigurationError({
    field: names.join(", "),
    reason: `are not set: ${names.map((name) => required[name]).join("; ")}`
  })
}

/** Stands in a policy for the model that nobody has named. */
export const notSetModel = (name: string): string => `(${name} is not set)`

const policyOf = (make: () => RecoveryPolicy): Effect.Effect<RecoveryPolicy, ConfigurationError> =>
  Effect.try({
    try: make,
    catch: (cause) =>
      cause instanceof ConfigurationError
        ? new ConfigurationError({ field: variableOf(cause.field), reason: cause.reason })
        : new ConfigurationError({ field: "configuration", reason: String(cause) })
  })

/** As much as is set; what is set must be right. */
export const settingsOutline = (preset: PresetName): Effect.Effect<SettingsOutline, ConfigurationError> =>
  Effect.gen(function* () {
    const models = yield* needed
    const found = yield* given
    const primary = models.OPENAI_MODEL ?? notSetModel("OPENAI_MODEL")
    const fallback = models.OPENAI_FALLBACK_MODEL ?? notSetModel("OPENAI_FALLBACK_MODEL")
    const routeOf = (model: string): RouteInput => ({
      model,
      outputLimit: found.outputLimit,
      contextWindow: found.contextWindow,
      prices: found.prices?.get(model) ?? null
    })
    const routes = fallback === "none" ? [routeOf(primary)] : [routeOf(primary), routeOf(fallback)]
    const name = found.preset ?? preset
    const policy = yield* policyOf(() => new RecoveryPolicy({ ...presets[name], ...found.overrides, routes }))
    const notSet = requiredNames.filter((each) => models[each] === null)
    return { baseUrl: found.baseUrl, preset: name, policy, notSet }
  }).pipe(Effect.catchTag("ConfigError", (error) => Effect.fail(asConfigurationError(error))))

/** Everything a request needs. What is missing is told at once, before anything that is wrong. */
export const requestSettings = (preset: PresetName): Effect.Effect<Settings, ConfigurationError> =>
  Effect.gen(function* () {
    const found = yield* Effect.mapError(needed, asConfigurationError)
    const apiKey = found.OPENAI_API_KEY
    const notSet = requiredNames.filter((name) => found[name] === null)
    if (apiKey === null || notSet.length > 0) return yield* missing(notSet)
    const unsendable = keyFlaw(apiKey)
    if (unsendable !== null) return yield* new ConfigurationError({ field: "OPENAI_API_KEY", reason: unsendable })
    const { baseUrl, preset: name, policy } = yield* settingsOutline(preset)
    return { apiKey: Redacted.make(apiKey), baseUrl, preset: name, policy }
  })

/** Runs with these variables instead of the process's own. */
export const withVariables =
  (variables: Readonly<Record<string, string | undefined>>) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.provideService(
      self,
      ConfigProvider.ConfigProvider,
      ConfigProvider.fromEnvRecord({ ...variables }, { preserveEmptyStrings: true })
    )
