/** What a request learns from each thing it sees: for its warnings, its events and the failure at its end. */
import { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import { stepsBackoff, type Outcome } from "../../domain/recovery/Outcome.ts"
import type { RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"
import type { RecoveryState } from "../../domain/recovery/RecoveryState.ts"
import { isPutAside } from "../../domain/recovery/roads/Gone.ts"
import { skippedHint } from "../../domain/recovery/roads/Transient.ts"
import type { Tick } from "../../domain/recovery/Tick.ts"
import type { Met, Run, Seen, Silence } from "./Run.ts"

/** The provider's id of the HTTP request that was seen; null = it gave none, or there was no request. */
export const providerIdOf = ({ reply, error }: Seen): string | null =>
  reply?.providerRequestId ?? (error === null || error instanceof BudgetExceeded ? null : error.providerRequestId)

const nameOf = (outcome: Outcome): string =>
  outcome._tag === "Faulted" || outcome._tag === "SummaryFaulted" ? outcome.kind : outcome._tag

/** Silence adds up: it is one time that they all took from. */
const silent = (before: Silence | null, now: Silence | null): Silence | null =>
  now === null ? before : { ...now, millis: now.millis + (before?.millis ?? 0) }

/** What has been met once this is, too; `state` is where the machine stood before it. */
export const meet = (met: Met, state: RecoveryState, seen: Seen, note: string | null): Met => {
  const { outcome, error } = seen
  const silence = silent(met.silence, seen.silence)
  const warnings = note === null || met.warnings.includes(note) ? met.warnings : [...met.warnings, note]
  // The trail tells of a fallback that cannot serve; why the request failed is what the route before it said.
  if (met.last !== null && outcome._tag === "Faulted" && isPutAside(state, outcome))
    return { ...met, silence, warnings }
  const lastOutcome = nameOf(outcome)
  if (error === null) return { ...met, lastOutcome, silence, warnings }
  return error instanceof BudgetExceeded
    ? { ...met, lastOutcome, silence, warnings, refused: error }
    : { ...met, lastOutcome, silence, warnings, first: met.first ?? error, last: error }
}

/** A sentence about a wait hint that counts as absent because it cannot be read; null = there is none. */
export const noteOf = (run: Run, outcome: Outcome, action: RecoveryAction, tick: Tick): string | null => {
  const isRead = action._tag === "Retry" || action._tag === "Compact"
  const source = isRead && stepsBackoff(outcome) ? skippedHint(run.options.policy, outcome, tick.wall) : null
  return source === null ? null : `A wait hint could not be read and was passed over (${source}).`
}
