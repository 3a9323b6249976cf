/**
 * Time that stands still while anything happens and jumps when nothing does: hours of waiting take milliseconds, and every
 * run is the same. For programs of Effect; what uses `setTimeout` itself wants the fake timers of its test runner.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as VirtualClock from "../programs/commands/drill/VirtualClock.ts"

export interface VirtualTime extends Pick<VirtualClock.VirtualClock, "now" | "sleep" | "touch"> {
  /** Runs the program on this clock, and moves time on whenever nothing else moves. */
  readonly runPromise: <A, E>(program: Effect.Effect<A, E>) => Promise<A>
}

/** `startEpochMs`: what the wall clock says at the start. Default: 2026-01-01T00:00:00Z. */
export const virtualTime = (startEpochMs: number = Date.UTC(2026, 0, 1)): VirtualTime => {
  const time = VirtualClock.make(startEpochMs)
  return {
    now: time.now,
    sleep: time.sleep,
    touch: time.touch,
    runPromise: (program) => time.run(Effect.runPromise(Effect.provideService(program, Clock.Clock, time.clock)))
  }
}
