/**
 * Where the trail of every ended logical request goes, beside its own failure: an agent collects those of its turn. Set
 * fiber-locally around a request; null = nobody collects.
 */
import * as Context from "effect/Context"
import type { Trail } from "../domain/failure/Trail.ts"

/** Takes a trail whose entries count from `startedAt` (monotonic milliseconds). Synchronous; never fails. */
export type TakeTrail = (trail: Trail, startedAt: number) => void

export const TurnTrail = Context.Reference<TakeTrail | null>("holdfast/TurnTrail", { defaultValue: () => null })
