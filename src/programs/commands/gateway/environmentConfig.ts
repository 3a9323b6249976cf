/** A gateway without a file: one upstream per key in the environment, all models, for this machine only. */
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import type { ConfigText } from "./configText.ts"
import { resolveConfig, type Environment, type GatewayConfig } from "./GatewayConfig.ts"

const nowhere = (value: unknown): ConfigText => ({ value, placeOf: () => null })

/** OPENAI_API_KEY serves chat and Responses, ANTHROPIC_API_KEY Messages; each alone serves what it can. */
export const environmentConfig = (environment: Environment, port: number | null): GatewayConfig => {
  const isSet = (name: string): boolean => (environment[name] ?? "").trim() !== ""
  const hasOpenAi = isSet("OPENAI_API_KEY")
  const hasAnthropic = isSet("ANTHROPIC_API_KEY")
  if (!hasOpenAi && !hasAnthropic)
    throw new ConfigurationError({
      field: "OPENAI_API_KEY, ANTHROPIC_API_KEY",
      reason: "are not set: set one of them, or give --config FILE"
    })
  const openai = {
    baseUrl: environment["OPENAI_BASE_URL"] ?? "https://api.openai.com/v1",
    apiKey: "env:OPENAI_API_KEY"
  }
  const anthropic = {
    baseUrl: environment["ANTHROPIC_BASE_URL"] ?? "https://api.anthropic.com",
    apiKey: "env:ANTHROPIC_API_KEY"
  }
  const value = {
    ...(port === null ? {} : { listen: { port } }),
    upstreams: { ...(hasOpenAi ? { openai } : {}), ...(hasAnthropic ? { anthropic } : {}) },
    routes: {
      ...(hasOpenAi ? { "* chat": { upstream: "openai" }, "* responses": { upstream: "openai" } } : {}),
      ...(hasAnthropic ? { "* messages": { upstream: "anthropic" } } : {})
    }
  }
  return resolveConfig("the environment", nowhere(value), environment)
}
