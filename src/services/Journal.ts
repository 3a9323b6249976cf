/**
 * What a turn has done so far, kept outside the process: the one port between the agent loop and whatever keeps it. The
 * loop is written once against it; the default keeps nothing.
 *
 * A step that has an end in the journal is not run again: its value is read. What was begun and has no end may have
 * happened; `repeat` says what becomes of it.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { JournalFailure } from "../domain/agent/JournalError.ts"

/**
 * `safe`: runs again, nothing is noted before it. `keyed`: runs again, its receiver tells a repetition by the key.
 * `never`: its beginning is noted before it runs, and it fails as StepInDoubt when it is met again without an end.
 */
export type Repeat = "safe" | "keyed" | "never"

export interface StepOptions<A> {
  /** How the value is kept: JSON. */
  readonly success: Schema.Codec<A, unknown>
  readonly repeat: Repeat
}

export interface JournalShape {
  /** The turn's name: the idempotency key of the whole turn. Null = nothing is kept. */
  readonly turn: string | null
  /** Runs a step once, or reads what it brought. `key` names it within the turn, whatever else runs beside it. */
  readonly step: <A, E, R>(
    key: string,
    options: StepOptions<A>,
    run: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | JournalFailure, R>
  /** The owner before died without putting the turn down: what it had begun may have happened. */
  readonly restarted: boolean
  /** Keeps where an unfinished step stands, instead of what was kept there before; its end takes this away. */
  readonly open: (key: string, value: unknown) => Effect.Effect<void, JournalFailure>
  /** What was kept so by the owner before or by this one; null = nothing. */
  readonly opened: (key: string) => unknown
  /** Sleeps to an instant (epoch milliseconds) that is kept: after a restart it is the same instant. */
  readonly sleepUntil: (key: string, epochMillis: number) => Effect.Effect<void, JournalFailure>
  /** Keeps a piece of a running stream; null = what was kept under this key is dropped. Bounded loss: a second, or 2 kB. */
  readonly tell: (key: string, text: string | null) => Effect.Effect<void, JournalFailure>
  /** The text that is kept of a stream that has not ended. */
  readonly told: (key: string) => string
  /** The answer that somebody outside has given under this key; fails as TurnParked while there is none. */
  readonly wait: (key: string) => Effect.Effect<string, JournalFailure>
}

/** Keeps nothing: every step runs, and nobody outside can answer. */
export const noJournal: JournalShape = {
  turn: null,
  step: (_key, _options, run) => run,
  restarted: false,
  open: () => Effect.void,
  opened: () => null,
  sleepUntil: (_key, epochMillis) =>
    Effect.flatMap(
      Effect.clockWith((clock) => clock.currentTimeMillis),
      (now) => Effect.sleep(Math.max(0, epochMillis - now))
    ),
  tell: () => Effect.void,
  told: () => "",
  wait: () => Effect.never
}

/** A part of a journal: its keys stand behind `prefix`. */
export const within = (journal: JournalShape, prefix: string): JournalShape => {
  if (journal.turn === null) return journal
  const at = (key: string): string => `${prefix}/${key}`
  return {
    turn: `${journal.turn}/${prefix}`,
    restarted: journal.restarted,
    step: (key, options, run) => journal.step(at(key), options, run),
    open: (key, value) => journal.open(at(key), value),
    opened: (key) => journal.opened(at(key)),
    sleepUntil: (key, epochMillis) => journal.sleepUntil(at(key), epochMillis),
    tell: (key, text) => journal.tell(at(key), text),
    told: (key) => journal.told(at(key)),
    wait: (key) => journal.wait(at(key))
  }
}

export const Journal = Context.Reference<JournalShape>("holdfast/Journal", { defaultValue: () => noJournal })
