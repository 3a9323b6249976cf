/**
 * Who looks at requests from outside, set fiber-locally around them. Whatever a request tells beside its reply, its
 * failure and its events goes here: where it stands while it runs, and every HTTP request it sent once it has ended.
 */
import * as Context from "effect/Context"
import type { Standing } from "../domain/failure/RecoveryError.ts"
import type { Trail } from "../domain/failure/Trail.ts"

/** Takes a trail whose entries count from `startedAt` (monotonic milliseconds). */
export type TakeTrail = (trail: Trail, startedAt: number) => void

/** Synchronous; never fails. */
export interface RequestWatcher {
  /** A request begins; `standing` tells at any later instant where it stands. */
  readonly began?: (standing: () => Standing) => void
  /** It has ended in some way, also by interruption. */
  readonly ended?: TakeTrail
}

/** null = nobody looks. */
export const RequestWatch = Context.Reference<RequestWatcher | null>("holdfast/RequestWatch", {
  defaultValue: () => null
})
