/**
 * A LiteLLM proxy configuration as one of this gateway, and a report: what was mapped, what has no place here and why.
 * Pure; nothing is asked for and no secret is read.
 */
import { isObject, type Json } from "../../../domain/chat/json.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"

export interface Mapped {
  /** A configuration as `holdfast gateway --config` reads it. */
  readonly config: Json
  readonly mapped: ReadonlyArray<string>
  readonly left: ReadonlyArray<string>
}

/** Base addresses of providers that speak one of the three wires, by LiteLLM's prefix of a model. */
const providers: Readonly<
  Record<string, { readonly baseUrl: string; readonly key: string; readonly profile: string }>
> = {
  openai: { baseUrl: "https://api.openai.com/v1", key: "OPENAI_API_KEY", profile: "openai" },
  anthropic: { baseUrl: "https://api.anthropic.com/v1", key: "ANTHROPIC_API_KEY", profile: "anthropic" },
  groq: { baseUrl: "https://api.groq.com/openai/v1", key: "GROQ_API_KEY", profile: "groq" },
  mistral: { baseUrl: "https://api.mistral.ai/v1", key: "MISTRAL_API_KEY", profile: "mistral" },
  deepseek: { baseUrl: "https://api.deepseek.com/v1", key: "DEEPSEEK_API_KEY", profile: "deepseek" },
  openrouter: { baseUrl: "https://openrouter.ai/api/v1", key: "OPENROUTER_API_KEY", profile: "openrouter" },
  together_ai: { baseUrl: "https://api.together.xyz/v1", key: "TOGETHER_API_KEY", profile: "together" },
  xai: { baseUrl: "https://api.x.ai/v1", key: "XAI_API_KEY", profile: "xai" },
  hosted_vllm: { baseUrl: "http://127.0.0.1:8000/v1", key: "", profile: "vllm" }
}

const textAt = (value: Json, name: string): string | null => {
  const found = value[name]
  return typeof found === "string" && found !== "" ? found : null
}

const objectsAt = (value: Json, name: string): ReadonlyArray<Json> => {
  const found = value[name]
  return Array.isArray(found) ? found.filter(isObject) : []
}

interface Deployment {
  readonly name: string
  readonly model: string
  readonly upstream: Json
  readonly upstreamName: string
  readonly params: Json
}

/** `os.environ/NAME`; a key that stands in the file is not carried over. */
const secretOf = (params: Json, fallback: string, left: Array<string>, name: string): string | null => {
  const given = textAt(params, "api_key")
  const variable = /^os\.environ\/(\w+)$/.exec(given ?? "")?.[1]
  if (variable !== undefined) return `env:${variable}`
  if (given !== null)
    left.push(`${name}: a key stands in the file: put it into a variable of the environment and name that`)
  return fallback === "" ? null : `env:${fallback}`
}

const deploymentOf = (entry: Json, left: Array<string>): Deployment | null => {
  const name = textAt(entry, "model_name")
  const params = isObject(entry["litellm_params"]) ? entry["litellm_params"] : {}
  const full = textAt(params, "model")
  if (name === null || full === null) {
    left.push("an entry of model_list without model_name or litellm_params.model")
    return null
  }
  const at = full.indexOf("/")
  const prefix = at === -1 ? "openai" : full.slice(0, at)
  const known = Object.hasOwn(providers, prefix) ? providers[prefix] : undefined
  const base = textAt(params, "api_base") ?? known?.baseUrl ?? null
  if (base === null) {
    left.push(`${name}: ${prefix} speaks an API of its own; only chat completions, Responses and Messages are served`)
    return null
  }
  const apiKey = secretOf(params, known?.key ?? "", left, name)
  return {
    name,
    model: at === -1 ? full : full.slice(at + 1),
    upstreamName: [prefix, textAt(params, "api_base") === null ? "" : new URL(base).host].filter(Boolean).join("-"),
    upstream: {
      baseUrl: base,
      ...(apiKey === null ? {} : { apiKey }),
      ...(known === undefined ? {} : { profile: known.profile })
    },
    params
  }
}

/** Fields of a deployment that are understood or change nothing here. */
const knownParams = new Set(["model", "api_base", "api_key"])

type Fallbacks = ReadonlyMap<string, ReadonlyArray<string>>

/** `[{ "large": ["small", "tiny"] }]`, in either of the two places LiteLLM reads it from. */
const fallbacksIn = (file: Json): Fallbacks => {
  const found = new Map<string, ReadonlyArray<string>>()
  for (const place of ["router_settings", "litellm_settings"]) {
    const settings = file[place]
    if (!isObject(settings)) continue
    for (const entry of objectsAt(settings, "fallbacks"))
      for (const [model, targets] of Object.entries(entry))
        if (Array.isArray(targets))
          found.set(
            model,
            targets.filter((one) => typeof one === "string")
          )
  }
  return found
}

const understoodSettings = new Set(["fallbacks", "num_retries", "request_timeout", "timeout", "master_key"])

const reportSettings = (file: Json, mapped: Array<string>, left: Array<string>): void => {
  for (const place of ["router_settings", "litellm_settings", "general_settings"]) {
    const settings = file[place]
    if (!isObject(settings)) continue
    for (const name of Object.keys(settings)) {
      if (name === "num_retries") mapped.push(`${place}.num_retries: retries follow the preset broad and its deadline`)
      else if (name.endsWith("timeout"))
        mapped.push(`${place}.${name}: see deadline and firstTokenTimeout of a route's policy`)
      else if (!understoodSettings.has(name)) left.push(`${place}.${name} has no counterpart`)
    }
  }
  for (const name of Object.keys(file))
    if (!["model_list", "router_settings", "litellm_settings", "general_settings"].includes(name))
      left.push(`${name} has no counterpart`)
}

const masterKey = (file: Json): string | null => {
  const settings = file["general_settings"]
  return isObject(settings) ? (/^os\.environ\/(\w+)$/.exec(textAt(settings, "master_key") ?? "")?.[1] ?? null) : null
}

/** `name` is the file's, for messages. */
export const fromLitellm = (name: string, file: unknown): Mapped => {
  if (!isObject(file) || !Array.isArray(file["model_list"]))
    throw new ConfigurationError({ field: name, reason: "has no model_list: it is no configuration of LiteLLM" })
  const left: Array<string> = []
  const mapped: Array<string> = []
  const deployments = objectsAt(file, "model_list").flatMap((entry) => deploymentOf(entry, left) ?? [])
  const byName = new Map<string, Deployment>()
  for (const one of deployments) {
    for (const param of Object.keys(one.params))
      if (!knownParams.has(param)) left.push(`${one.name}: litellm_params.${param} has no counterpart`)
    // Several deployments under one name are balanced there; here the further ones are its fallbacks.
    if (byName.has(one.name)) mapped.push(`${one.name}: a further deployment (${one.upstreamName}) became a fallback`)
    else byName.set(one.name, one)
  }
  const fallbacks = fallbacksIn(file)
  const targetsOf = (one: Deployment): ReadonlyArray<Json> =>
    [
      ...deployments.filter((other) => other !== one && other.name === one.name),
      ...(fallbacks.get(one.name) ?? []).flatMap((target) => {
        const found = byName.get(target)
        if (found === undefined) left.push(`${one.name}: its fallback ${target} is not served here`)
        return found ?? []
      })
    ].map(({ upstreamName, model }) => ({ upstream: upstreamName, model }))
  const routes = Object.fromEntries(
    [...byName.values()].map((one) => {
      mapped.push(`${one.name}: ${one.model} at ${one.upstreamName}`)
      const targets = targetsOf(one)
      const route = {
        upstream: one.upstreamName,
        model: one.model,
        ...(targets.length === 0 ? {} : { fallbacks: targets })
      }
      return [one.name, route]
    })
  )
  reportSettings(file, mapped, left)
  const key = masterKey(file)
  return {
    config: {
      ...(key === null ? {} : { keys: [`env:${key}`] }),
      upstreams: Object.fromEntries(deployments.map((one) => [one.upstreamName, one.upstream])),
      routes
    },
    mapped,
    left
  }
}
