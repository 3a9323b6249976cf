/** Which model a step asks for. The user's choice wins over the environment, the environment over the default. */

export type Phase = "plan" | "act"

export interface ModelChoice {
  /** What the user named for this session; null = nothing. */
  readonly user: string | null
  readonly environment: string | null
  readonly fallback: string
  /** A stronger model for planning; null = the same one. */
  readonly plan: string | null
}

/** Above this many tokens of context planning stays with the ordinary model. */
export const planContextLimit = 200_000

export const chooseModel = (
  choice: ModelChoice,
  step: { readonly phase: Phase; readonly contextTokens: number }
): string => {
  const ordinary = choice.user ?? choice.environment ?? choice.fallback
  return step.phase === "plan" && choice.plan !== null && step.contextTokens <= planContextLimit
    ? choice.plan
    : ordinary
}
