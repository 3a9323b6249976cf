/**
 * One turn: a budget of time inside Recovery and the route the turn is on, shared by the requests of its body and by
 * nobody else. It is made by `Recovery.turn` and travels fiber-locally.
 */
import * as Context from "effect/Context"
import type { RouteName } from "../domain/recovery/RecoveryPolicy.ts"

export interface TurnState {
  /** Milliseconds already spent inside Recovery by requests that have ended. */
  usedMillis: number
  /** Requests of this turn that are running now, and since when at least one has been. */
  running: number
  runningSince: number
  /** The route the next request begins with; null, or one its policy does not have = the primary. */
  route: RouteName | null
  /** Routes that answered that they are not there: no further request of the turn goes to them. */
  gone: ReadonlyArray<RouteName>
}

export const makeTurn = (): TurnState => ({ usedMillis: 0, running: 0, runningSince: 0, route: null, gone: [] })

/** Time inside Recovery so far; concurrent requests count once. */
export const usedBy = (turn: TurnState, now: number): number =>
  turn.usedMillis + (turn.running > 0 ? now - turn.runningSince : 0)

export const enter = (turn: TurnState, now: number): void => {
  if (turn.running === 0) turn.runningSince = now
  turn.running += 1
}

export const leave = (turn: TurnState, now: number): void => {
  turn.running -= 1
  if (turn.running === 0) turn.usedMillis += now - turn.runningSince
}

/** The turn a request belongs to; null = a call outside a turn is its own. */
export const CurrentTurn = Context.Reference<TurnState | null>("holdfast/Turn", { defaultValue: () => null })
