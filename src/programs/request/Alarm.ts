/**
 * Rings once after a time of a clock. Over the process's own clock it is a plain timer: a sleep would cost each attempt
 * a fiber. Any other clock (a virtual one) is asked to sleep, in a fiber.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"

/** The longest a timer can be. Who set it looks at the time when it rings. */
const longestMillis = 2_147_483_647

/** Its clock is the one of everybody who was given none. */
const nothingGiven = Context.empty()

export class Alarm {
  private readonly context: Context.Context<never>
  private readonly ring: () => void
  private timer: ReturnType<typeof setTimeout> | null = null
  private sleeper: Fiber.Fiber<void> | null = null

  constructor(context: Context.Context<never>, ring: () => void) {
    this.context = context
    this.ring = ring
  }

  /** Rings after so long, or a little before; Infinity = never. One time at once: the next one is set when it has rung. */
  set(millis: number): void {
    if (millis === Infinity) return
    const clock = Context.get(this.context, Clock.Clock)
    if (clock === Context.get(nothingGiven, Clock.Clock)) {
      this.timer = setTimeout(this.ring, Math.min(millis, longestMillis))
      return
    }
    const sleeper = Effect.runForkWith(this.context)(clock.sleep(Duration.millis(millis)))
    // Kept before it is listened to: a sleep that is over already rings now, and may set the next one.
    this.sleeper = sleeper
    sleeper.addObserver((exit) => {
      if (Exit.isSuccess(exit)) this.ring()
    })
  }

  /** It rings no more. */
  silence(): void {
    if (this.timer !== null) clearTimeout(this.timer)
    this.sleeper?.interruptUnsafe()
  }
}
