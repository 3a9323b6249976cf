/**
 * Wait hints: what a server says about when to come back, read totally and without surprises. `Date.parse` takes wrong
 * weekdays, local times and days that do not exist: what it makes of a text must write the same text again. No
 * `parseFloat` (takes "20ms" and "12abc").
 */
import * as Schema from "effect/Schema"

/** A value of a hint before its source is attached. */
export type HintValue =
  | { readonly _tag: "Delay"; readonly millis: number }
  | { readonly _tag: "At"; readonly epochMillis: number }
  | { readonly _tag: "Invalid" }

const invalid: HintValue = { _tag: "Invalid" }
const delay = (millis: number): HintValue => (Number.isFinite(millis) ? { _tag: "Delay", millis } : invalid)

/** The last instant a calendar knows. */
const lastEpochMillis = 8.64e15
const at = (epochMillis: number | null): HintValue =>
  epochMillis === null || epochMillis > lastEpochMillis ? invalid : { _tag: "At", epochMillis }

/** Trims the optional white space of HTTP: blanks and tabs, nothing else. */
const trim = (value: string): string => value.replace(/^[ \t]+|[ \t]+$/g, "")

const decimal = /^\d+(\.\d+)?$/

/** Non-negative decimal digits, or null. */
const numberOf = (value: string): number | null => (decimal.test(value) ? Number(value) : null)

/** All years have four digits. */
const imfLength = "Sun, 06 Nov 1994 08:49:37 GMT".length

/**
 * Epoch milliseconds of a text that is just what a calendar writes for its instant: no 30 February, no weekday of
 * another day, no hour 24, no local time.
 */
const imfDate = (value: string): number | null => {
  const date = new Date(value)
  return value.length === imfLength && date.toUTCString() === value ? date.getTime() : null
}

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
const rfc850Start = /^\w+, (..)-(...)-(..) /

/** An HTTP date in one of its two GMT forms, with a real date and its own weekday; null otherwise. */
export const httpDate = (value: string): number | null => {
  const weekday = weekdays.find((name) => value.startsWith(`${name}, `))
  if (weekday === undefined) return imfDate(value)
  // Two digits of a year: the weekday tells the century.
  const inCentury = (century: string): number | null =>
    imfDate(value.replace(rfc850Start, `${weekday.slice(0, 3)}, $1 $2 ${century}$3 `))
  return inCentury("20") ?? inCentury("19")
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i

/** An RFC 3339 instant with its zone; null otherwise. */
export const instantOf = (value: string): number | null => {
  if (!rfc3339.test(value)) return null
  const text = value.toUpperCase()
  const clock = text.slice(0, 19)
  // A calendar writes the same date and time only when they exist.
  if (new Date(`${clock}Z`).toJSON() !== `${clock}.000Z`) return null
  const zone = text.slice(19).replace(/^[.\d]+/, "")
  const fraction = text.slice(19, -zone.length)
  return Date.parse(`${clock}${zone}`) + Number(`0${fraction}`) * 1000
}

/** The standard header: non-negative decimal seconds, or an HTTP date. Everything else is invalid. */
export const parseRetryAfter = (raw: string): HintValue => {
  const value = trim(raw)
  const seconds = numberOf(value)
  return seconds === null ? at(httpDate(value)) : delay(seconds * 1000)
}

const duration =
  /^(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?$/

/** Milliseconds of the units, in the order of the expression's groups. */
const unitMillis = [86_400_000, 3_600_000, 60_000, 1000, 1]

/** A span with units, such as 6m0s, 2m59.56s, 12ms or 1h2m3s; null otherwise. */
const spanOf = (value: string): number | null => {
  const found = duration.exec(value)
  if (value === "" || found === null) return null
  return unitMillis.reduce((sum, millis, unit) => sum + Number(found[unit + 1] ?? 0) * millis, 0)
}

/** From here on a bare number is an instant: 1e9 s is 2001, 1e12 ms the same. */
export const firstEpochSeconds = 1e9
export const firstEpochMillis = 1e11

/** Formats of hint values that providers document. */
export const HintFormat = Schema.Literals([
  "retry-after",
  "milliseconds",
  "seconds",
  "duration",
  "protobuf-duration",
  "epoch-seconds",
  "epoch-milliseconds",
  "rfc3339",
  "reset"
])
export type HintFormat = typeof HintFormat.Type

const ofNumber = (value: string, read: (number: number) => HintValue): HintValue => {
  const number = numberOf(value)
  return number === null ? invalid : read(number)
}

/** Reads one value. `reset` takes what reset headers hold in the field: a span, seconds, an epoch or an RFC 3339 instant. */
export const parseHint = (format: HintFormat, raw: string): HintValue => {
  const value = trim(raw)
  switch (format) {
    case "retry-after":
      return parseRetryAfter(value)
    case "milliseconds":
      return ofNumber(value, delay)
    case "seconds":
      return ofNumber(value, (seconds) => delay(seconds * 1000))
    case "duration": {
      const span = spanOf(value)
      return span === null ? invalid : delay(span)
    }
    case "protobuf-duration":
      return /^\d+(\.\d+)?s$/.test(value) ? delay(Number(value.slice(0, -1)) * 1000) : invalid
    case "epoch-seconds":
      return ofNumber(value, (seconds) => at(seconds * 1000))
    case "epoch-milliseconds":
      return ofNumber(value, at)
    case "rfc3339":
      return at(instantOf(value))
    case "reset": {
      const number = numberOf(value)
      if (number !== null) {
        if (number >= firstEpochMillis) return at(number)
        return number >= firstEpochSeconds ? at(number * 1000) : delay(number * 1000)
      }
      const span = spanOf(value)
      return span === null ? at(instantOf(value)) : delay(span)
    }
  }
}
