/** Failures of a durable turn: of what keeps it, not of the model. None holds a text of the conversation. */
import * as Schema from "effect/Schema"
import { printAsText } from "../failure/failureText.ts"

const fields = {
  /** The turn's name. */
  turn: Schema.String,
  /** The step, as the journal names it. */
  key: Schema.String,
  guidance: Schema.String
}

/** A step that must not run twice was begun and has no end: what it did is unknown. */
export class StepInDoubt extends Schema.TaggedError<StepInDoubt>()("StepInDoubt", fields) {
  override get message(): string {
    return `the step ${this.key} was begun and its end is not known`
  }
}

/** The turn waits for an answer of a person. It needs no process until then. */
export class TurnParked extends Schema.TaggedError<TurnParked>()("TurnParked", fields) {
  override get message(): string {
    return `the turn ${this.turn} waits for an answer (${this.key})`
  }
}

/** Somebody has cancelled the turn; it cannot be taken up again. */
export class TurnCancelled extends Schema.TaggedError<TurnCancelled>()("TurnCancelled", fields) {
  override get message(): string {
    return `the turn ${this.turn} was cancelled`
  }
}

/** Another process has the turn. `holder` says which. */
export class TurnOwned extends Schema.TaggedError<TurnOwned>()("TurnOwned", {
  ...fields,
  holder: Schema.String
}) {
  override get message(): string {
    return `the turn ${this.turn} is run by ${this.holder}`
  }
}

/** The turn has died again and again without getting any further. */
export class TurnStuck extends Schema.TaggedError<TurnStuck>()("TurnStuck", {
  ...fields,
  restarts: Schema.Int
}) {
  override get message(): string {
    return `the turn ${this.turn} was taken up ${this.restarts} times without a new fact`
  }
}

/** What is kept does not fit this version of the program or its tools. `field` names what differs. */
export class JournalMismatch extends Schema.TaggedError<JournalMismatch>()("JournalMismatch", {
  ...fields,
  field: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `the turn ${this.turn} cannot go on: ${this.field} ${this.reason}`
  }
}

/** The store failed: nothing that would have to be kept is done. */
export class JournalUnavailable extends Schema.TaggedError<JournalUnavailable>()("JournalUnavailable", {
  ...fields,
  reason: Schema.String
}) {
  override get message(): string {
    return `the journal of the turn ${this.turn} cannot be written or read: ${this.reason}`
  }
}

const failures = [
  StepInDoubt,
  TurnParked,
  TurnCancelled,
  TurnOwned,
  TurnStuck,
  JournalMismatch,
  JournalUnavailable
] as const

printAsText(failures)

export const isJournalFailure = (value: unknown): value is JournalFailure =>
  failures.some((failure) => value instanceof failure)

export type JournalFailure =
  | StepInDoubt
  | TurnParked
  | TurnCancelled
  | TurnOwned
  | TurnStuck
  | JournalMismatch
  | JournalUnavailable
