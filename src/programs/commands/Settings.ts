/**
 * One configuration for every command, from plain variables: flags win over the environment, the environment over
 * `.env`, `.env` over defaults. A missing or bad value is a ConfigurationError naming the variable, never its value.
 */
import * as Redacted from "effect/Redacted"
import { keyFlaw } from "../../domain/provider/address.ts"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import type { Prices } from "../../domain/budget/Cost.ts"
import {
  presets,
  RecoveryPolicy,
  type PresetName,
  type RecoveryPolicyInput,
  type RouteInput
} from "../../domain/recovery/RecoveryPolicy.ts"

export type Variables = Readonly<Record<string, string | undefined>>

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

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

const valueOf = (variables: Variables, name: string): string | null => {
  const value = variables[name]?.trim()
  return value === undefined || value === "" ? null : value
}

/** What a request needs, and what to put there. */
const required = {
  OPENAI_API_KEY: "put the provider's key there",
  OPENAI_MODEL: "name the model to ask",
  OPENAI_FALLBACK_MODEL: "name a second model, or the word none"
} as const

const notSetOf = (variables: Variables): ReadonlyArray<keyof typeof required> =>
  (["OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_FALLBACK_MODEL"] as const).filter(
    (name) => valueOf(variables, name) === null
  )

/** Everything that is missing, in one sentence. */
const missing = (names: ReadonlyArray<keyof typeof required>): ConfigurationError => {
  const [first] = names
  if (names.length === 1 && first !== undefined) return bad(first, `is not set: ${required[first]}`)
  return bad(names.join(", "), `are not set: ${names.map((name) => required[name]).join("; ")}`)
}

/** Stands in a policy for the model that nobody has named. */
export const notSetModel = (name: string): string => `(${name} is not set)`

const baseUrlOf = (variables: Variables): string | null => {
  const value = variables["OPENAI_BASE_URL"]
  if (value === undefined) return null
  const url = URL.canParse(value) ? new URL(value) : null
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw bad("OPENAI_BASE_URL", "is set but is not an http or https address")
  return value
}

const isPreset = (value: string): value is PresetName => Object.hasOwn(presets, value)

const presetOf = (variables: Variables, fallback: PresetName): PresetName => {
  const value = valueOf(variables, "HOLDFAST_PRESET")
  if (value === null) return fallback
  if (!isPreset(value)) throw bad("HOLDFAST_PRESET", `is none of ${Object.keys(presets).join(", ")}`)
  return value
}

const wholeNumbers = {
  HOLDFAST_MAX_ATTEMPTS: "maxAttempts",
  HOLDFAST_INITIAL_MAX_TOKENS: "initialMaxTokens",
  HOLDFAST_ESCALATED_MAX_TOKENS: "escalatedMaxTokens",
  HOLDFAST_MAX_CONTINUATIONS: "maxContinuations"
} as const

const durations = {
  HOLDFAST_DEADLINE: "deadline",
  HOLDFAST_HARD_CAP: "hardCap",
  HOLDFAST_ATTEMPT_TIMEOUT: "attemptTimeout",
  HOLDFAST_FIRST_TOKEN_TIMEOUT: "firstTokenTimeout",
  HOLDFAST_IDLE_TIMEOUT: "idleTimeout",
  HOLDFAST_CONTENT_TIMEOUT: "contentTimeout",
  HOLDFAST_HEARTBEAT: "heartbeat"
} as const

/** Variables the commands read, with what they mean. */
export const variableNames: ReadonlyArray<string> = [
  "OPENAI_API_KEY",
  "OPENAI_BASE_URL",
  "OPENAI_MODEL",
  "OPENAI_FALLBACK_MODEL",
  "HOLDFAST_PRESET",
  "HOLDFAST_MODEL_MAX_TOKENS",
  "HOLDFAST_CONTEXT_WINDOW",
  "HOLDFAST_PRICES",
  ...Object.keys(wholeNumbers),
  ...Object.keys(durations)
]

/** A `HOLDFAST_*` variable that no command reads: most likely a misspelt one. Names it; null = there is none. */
export const unknownVariable = (variables: Variables): ConfigurationError | null => {
  const ours = (name: string): boolean => name.startsWith("HOLDFAST_")
  const found = Object.keys(variables).find((name) => ours(name) && !variableNames.includes(name))
  return found === undefined ? null : bad(found, `is none of ${variableNames.filter(ours).join(", ")}`)
}

const wholeNumber = (variables: Variables, name: string): number | null => {
  const value = valueOf(variables, name)
  if (value === null) return null
  if (!/^\d+$/.test(value)) throw bad(name, "is not a whole number")
  return Number(value)
}

/** "30 seconds", a number of milliseconds, or "none". */
const durationValue = (variables: Variables, name: string): string | number | null | undefined => {
  const value = valueOf(variables, name)
  if (value === null) return undefined
  if (value === "none") return null
  return /^\d+$/.test(value) ? Number(value) : value
}

const overridesOf = (variables: Variables): Readonly<Record<string, unknown>> => {
  const fields: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(wholeNumbers)) {
    const value = wholeNumber(variables, name)
    if (value !== null) fields[field] = value
  }
  for (const [name, field] of Object.entries(durations)) {
    const value = durationValue(variables, name)
    if (value !== undefined) fields[field] = value
  }
  return fields
}

/** Fields every route gets from a variable. */
const routeNumbers = { HOLDFAST_MODEL_MAX_TOKENS: "outputLimit", HOLDFAST_CONTEXT_WINDOW: "contextWindow" } as const

/** USD per million tokens by model: `large=2/10, small=0.1/0.4`; a third number is the rate of cached input. */
const pricesIn = (variables: Variables): ReadonlyMap<string, Prices> => {
  const prices = new Map<string, Prices>()
  for (const entry of (valueOf(variables, "HOLDFAST_PRICES") ?? "").split(",")) {
    if (entry.trim() === "") continue
    const found = /^\s*(\S+)\s*=\s*(\d+(?:\.\d+)?)\/(\d+(?:\.\d+)?)(?:\/(\d+(?:\.\d+)?))?\s*$/.exec(entry)
    if (found === null) throw bad("HOLDFAST_PRICES", "is not a list like large=2/10, small=0.1/0.4")
    const [, model = "", input, output, cached] = found
    prices.set(model, {
      inputPerM: Number(input),
      outputPerM: Number(output),
      ...(cached === undefined ? {} : { cachedInputPerM: Number(cached) })
    })
  }
  return prices
}

/** The variable behind a field of the policy, for messages a user of a command can act on. */
const variableOf = (field: string): string => {
  const all: Readonly<Record<string, string>> = { ...wholeNumbers, ...durations, ...routeNumbers }
  const last = field.split(".").at(-1)
  const found = Object.entries(all).find(([, name]) => name === last)?.[0]
  return found ?? (field.startsWith("routes") ? "OPENAI_FALLBACK_MODEL" : field)
}

export const outlineSettings = (variables: Variables, preset: PresetName = "strict"): SettingsOutline => {
  const baseUrl = baseUrlOf(variables)
  const model = valueOf(variables, "OPENAI_MODEL") ?? notSetModel("OPENAI_MODEL")
  const fallback = valueOf(variables, "OPENAI_FALLBACK_MODEL") ?? notSetModel("OPENAI_FALLBACK_MODEL")
  const outputLimit = wholeNumber(variables, "HOLDFAST_MODEL_MAX_TOKENS")
  const contextWindow = wholeNumber(variables, "HOLDFAST_CONTEXT_WINDOW")
  const prices = pricesIn(variables)
  const routeOf = (name: string): RouteInput => ({
    model: name,
    outputLimit,
    contextWindow,
    prices: prices.get(name) ?? null
  })
  const routes = fallback === "none" ? [routeOf(model)] : [routeOf(model), routeOf(fallback)]
  const name = presetOf(variables, preset)
  const input: RecoveryPolicyInput = { ...presets[name], ...overridesOf(variables), routes }
  try {
    return { baseUrl, preset: name, policy: new RecoveryPolicy(input), notSet: notSetOf(variables) }
  } catch (cause) {
    throw cause instanceof ConfigurationError ? bad(variableOf(cause.field), cause.reason) : cause
  }
}

/** Everything a request needs. What is missing is told at once, before anything that is wrong. */
export const resolveSettings = (variables: Variables, preset: PresetName = "strict"): Settings => {
  const apiKey = valueOf(variables, "OPENAI_API_KEY")
  const notSet = notSetOf(variables)
  if (apiKey === null || notSet.length > 0) throw missing(notSet)
  const unsendable = keyFlaw(apiKey)
  if (unsendable !== null) throw bad("OPENAI_API_KEY", unsendable)
  const { baseUrl, preset: name, policy } = outlineSettings(variables, preset)
  return { apiKey: Redacted.make(apiKey), baseUrl, preset: name, policy }
}

/** Variables of a `.env` text: NAME=value lines, `#` comments, optional quotes and `export`. */
export const parseDotEnv = (text: string): Variables => {
  const variables: Record<string, string> = {}
  for (const line of text.split(/\r?\n/)) {
    const found = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$/.exec(line)
    if (found === null) continue
    const [, name = "", raw = ""] = found
    const isQuoted = /^(["']).*\1$/.test(raw)
    variables[name] = isQuoted ? raw.slice(1, -1) : raw.replace(/\s+#.*$/, "")
  }
  return variables
}
