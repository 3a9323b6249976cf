/** Any failure as text a person can act on: what happened, what to do, and every request that was tried. */
import { isAgentError } from "./AgentError.ts"
import { failureText } from "./failureText.ts"
import { isModelError } from "./ModelError.ts"
import { isRecoveryError } from "./RecoveryError.ts"

export interface RenderOptions {
  /** Also show the provider's own words. Default: false, they may quote the prompt. */
  readonly providerMessage?: boolean
}

/** Of the failure itself, or of the last one before recovery gave up. */
const providerMessageOf = (failure: Error): string | null => {
  const source = isModelError(failure) ? failure : failure.cause
  return isModelError(source) ? source.providerMessage : null
}

/** One call prints any failure of the library; a value that is none of ours is shown as it is. */
export const renderFailure = (failure: unknown, options: RenderOptions = {}): string => {
  if (!isModelError(failure) && !isRecoveryError(failure) && !isAgentError(failure)) {
    if (!(failure instanceof Error)) return String(failure)
    const guidance = "guidance" in failure && typeof failure.guidance === "string" ? [failure.guidance] : []
    return [`${failure.name}: ${failure.message}`, ...guidance].join("\n")
  }
  const said = options.providerMessage === true ? providerMessageOf(failure) : null
  const words = said === null ? [] : [`The provider says: ${said}`]
  return failureText(failure, words)
}
