/** Any failure as text a person can act on: what happened, what to do, and every request that was tried. */
import { isAgentError } from "./AgentError.ts"
import { isModelError } from "./ModelError.ts"
import { isRecoveryError } from "./RecoveryError.ts"
import type { Trail, TrailEntry } from "./Trail.ts"

const seconds = (millis: number): string => `${(millis / 1000).toFixed(1)} s`

const entryText = (entry: TrailEntry): string => {
  const name = entry.attempt === null ? entry.role : `#${entry.attempt}`
  const status = entry.status === null ? "" : ` HTTP ${entry.status}`
  const code = entry.code === null ? "" : ` ${entry.code}`
  const wait = entry.waitMs === null ? "" : `, then waited ${seconds(entry.waitMs)} (${entry.waitOrigin})`
  return `  ${seconds(entry.startedMs).padStart(8)}  ${name} ${entry.model}, budget ${entry.maxOutputTokens}: ${entry.outcome}${status}${code}${wait}`
}

const trailText = (trail: Trail): ReadonlyArray<string> =>
  trail.length === 0 ? [] : ["What was tried:", ...trail.map(entryText)]

export interface RenderOptions {
  /** Also show the provider's own words. Default: false, they may quote the prompt. */
  readonly providerMessage?: boolean
}

/** One call prints any failure of the library; a value that is none of ours is shown as it is. */
export const renderFailure = (failure: unknown, options: RenderOptions = {}): string => {
  if (!isModelError(failure) && !isRecoveryError(failure) && !isAgentError(failure)) {
    if (!(failure instanceof Error)) return String(failure)
    const guidance = "guidance" in failure && typeof failure.guidance === "string" ? [failure.guidance] : []
    return [`${failure.name}: ${failure.message}`, ...guidance].join("\n")
  }
  const words =
    options.providerMessage === true && isModelError(failure) && failure.providerMessage !== null
      ? [`The provider says: ${failure.providerMessage}`]
      : []
  return [`${failure._tag}: ${failure.message}`, failure.guidance, ...words, ...trailText(failure.trail)].join("\n")
}
