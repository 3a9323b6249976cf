/**
 * Spans of time in options: written as any `Duration.Input` ("300 seconds", a number of milliseconds), kept as
 * milliseconds, finite and more than 0.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"

const isSpan = (input: unknown): input is Duration.Input => Option.isSome(Duration.fromInput(input as Duration.Input))

const notOne = { message: 'is not a duration such as "30 seconds" or a number of milliseconds' }

const Written = Schema.declare<Duration.Input>(isSpan, notOne)

const toMillis = (input: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(input))

/** `off` is said of a span that a value switches off. */
const millis = (off: string) =>
  Schema.Number.check(
    Schema.makeFilter((value: number) => Number.isFinite(value) && value > 0, {
      message: `must be longer than 0 and finite${off}`
    })
  )

/** A span that is always there. */
export const Span = Written.pipe(
  Schema.decodeTo(
    millis(""),
    SchemaTransformation.transform<number, Duration.Input>({ decode: toMillis, encode: (kept) => kept })
  )
)

/** A span that null switches off. */
export const SpanOrNone = Schema.declare<Duration.Input | null>(
  (input): input is Duration.Input | null => input === null || isSpan(input),
  notOne
).pipe(
  Schema.decodeTo(
    Schema.NullOr(millis("; null switches it off")),
    SchemaTransformation.transform<number | null, Duration.Input | null>({
      decode: (input) => (input === null ? null : toMillis(input)),
      encode: (kept) => kept
    })
  )
)

/** A span that 0 switches off. */
export const SpanOrZero = Written.pipe(
  Schema.decodeTo(
    Schema.Number.check(
      Schema.makeFilter((value: number) => Number.isFinite(value) && value >= 0, {
        message: "must not be negative, and finite; 0 switches it off"
      })
    ),
    SchemaTransformation.transform<number, Duration.Input>({ decode: toMillis, encode: (kept) => kept })
  )
)
