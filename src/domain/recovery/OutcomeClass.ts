/** Classes of outcomes: what is counted for a fallback, and what is retried. */
import * as Schema from "effect/Schema"

/** Classes of outcomes that are counted for a fallback. `silent` is any time-out, `cut` a stream that broke off, `sample` an answer the model itself botched. */
export const OutcomeClass = Schema.Literals([
  "overload",
  "serverError",
  "silent",
  "cut",
  "connection",
  "rateLimit",
  "overflow",
  "empty",
  "sample"
])
export type OutcomeClass = typeof OutcomeClass.Type

/** What is retried: `http429` and `http529` look at the HTTP status alone (strict), the others at the class. */
export const RetryClass = Schema.Literals([
  "http429",
  "http529",
  "overload",
  "serverError",
  "silent",
  "cut",
  "connection",
  "rateLimit",
  "empty",
  "sample"
])
export type RetryClass = typeof RetryClass.Type
