/** Failures of the agent loop and of a session's budget. */
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { TrailEntry } from "./Trail.ts"

/** The session's budget admits no further request. What was finished is kept; `partial` is the text so far. */
export class BudgetExceeded extends Schema.TaggedError<BudgetExceeded>()("BudgetExceeded", {
  /** Which limit: "tokens" or "usd". */
  limit: Schema.Literals(["tokens", "usd"]),
  allowed: Schema.Finite,
  spent: Schema.Finite,
  reserved: Schema.Finite,
  attempts: Schema.Int,
  elapsedMs: Schema.Finite,
  trail: Schema.Array(TrailEntry),
  guidance: Schema.String,
  partialText: Schema.optionalKey(Schema.Redacted(Schema.String))
}) {
  override get message(): string {
    return `the session's budget of ${this.allowed} ${this.limit} is used up (${this.spent} spent, ${this.reserved} reserved)`
  }
  get partial(): string | null {
    return this.partialText === undefined ? null : Redacted.value(this.partialText)
  }
}
