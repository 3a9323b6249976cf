/**
 * Where a request in trouble stands, as it is kept: the machine's state, what was decided, until when it waits, what it
 * has met. Instants are kept by the wall clock, since a monotonic one ends with its process. No text but that of the reply.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import { FaultKind } from "../../domain/failure/FaultKind.ts"
import { Outcome } from "../../domain/recovery/Outcome.ts"
import { defaulted } from "../../domain/recovery/defaulted.ts"
import { delayOf, RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"
import { RecoveryState } from "../../domain/recovery/RecoveryState.ts"
import type { RequestKeeper } from "../../services/RequestKeep.ts"
import { Silence, type Position, type Run } from "./Run.ts"

const Failed = Schema.Struct({
  kind: FaultKind,
  status: Schema.NullOr(Schema.Int),
  code: Schema.NullOr(Schema.String),
  model: Schema.NullOr(Schema.String),
  providerRequestId: Schema.NullOr(Schema.String),
  resetAt: Schema.NullOr(Schema.Finite)
})

const Checkpoint = Schema.Struct({
  state: RecoveryState,
  outcome: Outcome,
  action: RecoveryAction,
  untilEpochMs: Schema.Finite,
  first: Schema.NullOr(Failed),
  last: Schema.NullOr(Failed),
  lastOutcome: Schema.String,
  silence: defaulted(Schema.NullOr(Silence), null),
  warnings: Schema.Array(Schema.String),
  window: Schema.Unknown
})

const kept = (error: ModelError | null): typeof Failed.Type | null =>
  error === null
    ? null
    : {
        kind: error.kind,
        status: error.status,
        code: error.code,
        model: error.model,
        providerRequestId: error.providerRequestId,
        resetAt: error.resetAt
      }

const read = (failed: typeof Failed.Type | null): ModelError | null =>
  failed === null
    ? null
    : Result.getOrElse(
        Result.try(() => makeModelError(failed)),
        () => makeModelError({ kind: "connection", status: null })
      )

/** Every instant of a state moved on. */
const moved = (state: RecoveryState, millis: number): RecoveryState => ({
  ...state,
  deadline: state.deadline === null ? null : state.deadline + millis,
  hardCap: state.hardCap === null ? null : state.hardCap + millis
})

/** What the wall clock is ahead of the monotonic one. */
const wallOffset = (run: Run): number => run.clock.currentTimeMillisUnsafe() - run.now()

/** Keeps what was decided, before it is waited for. */
export const save = (run: Run, position: Position, outcome: Outcome, action: RecoveryAction): Effect.Effect<void> => {
  const keep = run.options.keep ?? null
  const { handing } = run.driver
  if (keep === null || handing === undefined) return Effect.void
  return Effect.suspend(() => {
    const { met, state } = position
    const checkpoint: typeof Checkpoint.Type = {
      state: moved(state, wallOffset(run)),
      outcome,
      action,
      untilEpochMs: run.clock.currentTimeMillisUnsafe() + delayOf(action),
      first: kept(met.first),
      last: kept(met.last),
      lastOutcome: met.lastOutcome,
      silence: met.silence,
      warnings: met.warnings,
      window: handing.snapshot()
    }
    return keep.save({ ...checkpoint, shown: handing.shown() }, run.trail, run.startedAt)
  })
}

export interface Resumed {
  readonly position: Position
  readonly outcome: Outcome
  readonly action: RecoveryAction
}

/** The request as it was left; null = it is new, or its policy has no such route any more. */
export const resume = (run: Run, keep: RequestKeeper): Effect.Effect<Resumed | null> =>
  Effect.suspend(() => {
    if (keep.before === null) return Effect.succeed(null)
    const found = Schema.decodeUnknownResult(Checkpoint)(keep.before)
    if (Result.isFailure(found)) return keep.unreadable(/at (\[.*\])/.exec(found.failure.message)?.[1] ?? "")
    const { action, outcome, untilEpochMs, window, ...rest } = found.success
    if (rest.state.route >= run.options.policy.routes.length || run.driver.handing?.restore(window) !== true)
      return Effect.succeed(null)
    const left = Math.max(0, untilEpochMs - run.clock.currentTimeMillisUnsafe())
    const position: Position = {
      state: moved(rest.state, -wallOffset(run)),
      plan: null,
      met: {
        first: read(rest.first),
        last: read(rest.last),
        refused: null,
        lastOutcome: rest.lastOutcome,
        silence: rest.silence,
        warnings: rest.warnings
      }
    }
    return Effect.succeed({
      position,
      outcome,
      action: "delayMillis" in action ? { ...action, delayMillis: left } : action
    })
  })
