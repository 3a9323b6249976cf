/**
 * Wait hints: what a server says about when to come back, read totally and without surprises. No `Date.parse` (takes
 * wrong weekdays and local times), no `parseFloat` (takes "20ms" and "12abc").
 */
import * as Schema from "effect/Schema"

/** One hint as read from an answer. Dates stay instants: the machine subtracts the clock. */
export const HintReading = Schema.TaggedUnion({
  /** A span, milliseconds >= 0. `source` names the header or the place in the body. */
  Delay: { source: Schema.String, millis: Schema.Finite },
  /** An instant; measured against the answer's Date header when it has one. */
  At: { source: Schema.String, epochMillis: Schema.Finite, serverEpochMillis: Schema.NullOr(Schema.Finite) },
  /** The server said something that cannot be read. */
  Invalid: { source: Schema.String }
})
export type HintReading = typeof HintReading.Type

/** A value of a hint before its source is attached. */
export type HintValue =
  | { readonly _tag: "Delay"; readonly millis: number }
  | { readonly _tag: "At"; readonly epochMillis: number }
  | { readonly _tag: "Invalid" }

const invalid: HintValue = { _tag: "Invalid" }
const delay = (millis: number): HintValue => (Number.isFinite(millis) ? { _tag: "Delay", millis } : invalid)
const at = (epochMillis: number | null): HintValue => (epochMillis === null ? invalid : { _tag: "At", epochMillis })

/** Trims the optional white space of HTTP: blanks and tabs, nothing else. */
const trim = (value: string): string => value.replace(/^[ \t]+|[ \t]+$/g, "")

const decimal = /^\d+(\.\d+)?$/

/** Non-negative decimal digits, or null. */
const numberOf = (value: string): number | null => (decimal.test(value) ? Number(value) : null)

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

/** Epoch milliseconds of a real calendar date and time in UTC; null when the date does not exist. */
const utc = (year: number, month: number, day: number, hour: number, minute: number, second: number): number | null => {
  if (month < 0 || hour > 23 || minute > 59 || second > 59) return null
  const millis = Date.UTC(year, month, day, hour, minute, second)
  const date = new Date(millis)
  return date.getUTCMonth() === month && date.getUTCDate() === day ? millis : null
}

const isWeekday = (epochMillis: number | null, name: string): boolean =>
  epochMillis !== null && weekdays[new Date(epochMillis).getUTCDay()]?.startsWith(name) === true

const imfDate = /^([A-Z][a-z]{2}), (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT$/
const rfc850Date = /^([A-Z][a-z]{5,8}), (\d{2})-([A-Z][a-z]{2})-(\d{2}) (\d{2}):(\d{2}):(\d{2}) GMT$/

/** An HTTP date in one of its two GMT forms, with a real date and its own weekday; null otherwise. */
export const httpDate = (value: string): number | null => {
  const imf = imfDate.exec(value)
  if (imf !== null) {
    const [, weekday = "", day, month = "", year, hour, minute, second] = imf
    const millis = utc(Number(year), months.indexOf(month), Number(day), Number(hour), Number(minute), Number(second))
    return isWeekday(millis, weekday) ? millis : null
  }
  const old = rfc850Date.exec(value)
  if (old === null) return null
  const [, weekday = "", day, month = "", year, hour, minute, second] = old
  // Two digits of a year: the weekday tells the century.
  for (const century of [2000, 1900]) {
    const millis = utc(
      century + Number(year),
      months.indexOf(month),
      Number(day),
      Number(hour),
      Number(minute),
      Number(second)
    )
    if (weekdays.includes(weekday) && isWeekday(millis, weekday)) return millis
  }
  return null
}

const rfc3339 = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(\.\d+)?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/

/** An RFC 3339 instant with its zone; null otherwise. */
export const instantOf = (value: string): number | null => {
  const found = rfc3339.exec(value)
  if (found === null) return null
  const [, year, month, day, hour, minute, second, fraction, sign, zoneHour, zoneMinute] = found
  const millis = utc(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second))
  if (millis === null) return null
  const offset = sign === undefined ? 0 : (Number(zoneHour) * 60 + Number(zoneMinute)) * 60_000
  return millis + Number(`0${fraction ?? ""}`) * 1000 - (sign === "-" ? -offset : offset)
}

/** The standard header: non-negative decimal seconds, or an HTTP date. Everything else is invalid. */
export const parseRetryAfter = (raw: string): HintValue => {
  const value = trim(raw)
  const seconds = numberOf(value)
  return seconds === null ? at(httpDate(value)) : delay(seconds * 1000)
}

const duration =
  /^(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?$/

/** A span with units, such as 6m0s, 2m59.56s, 12ms or 1h2m3s; null otherwise. */
const spanOf = (value: string): number | null => {
  const found = duration.exec(value)
  if (value === "" || found === null) return null
  const [days, hours, minutes, seconds, millis] = found.slice(1).map((part) => (part === undefined ? 0 : Number(part)))
  return (
    (days ?? 0) * 86_400_000 +
    (hours ?? 0) * 3_600_000 +
    (minutes ?? 0) * 60_000 +
    (seconds ?? 0) * 1000 +
    (millis ?? 0)
  )
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

/** Milliseconds to wait from now, never negative; null when the hint cannot be read. */
export const waitOf = (hint: HintReading, wallMillis: number): number | null => {
  switch (hint._tag) {
    case "Delay":
      return hint.millis
    case "At":
      return Math.max(0, hint.epochMillis - (hint.serverEpochMillis ?? wallMillis))
    case "Invalid":
      return null
  }
}
