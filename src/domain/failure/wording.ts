/** Numbers as people read them, for messages. Fields keep the exact values. */

/** `625 ms`, `1.5 s`, `5 min`, `2 h 10 min`: at most two units, rounded. */
export const spanText = (millis: number): string => {
  const whole = Math.round(millis)
  if (whole < 1000) return `${whole} ms`
  const tenths = Math.round(whole / 100) / 10
  if (tenths < 60) return `${tenths} s`
  const seconds = Math.round(whole / 1000)
  if (seconds < 3_600) return twoUnits(seconds, 60, "min", "s")
  return twoUnits(Math.round(seconds / 60), 60, "h", "min")
}

const twoUnits = (amount: number, per: number, large: string, small: string): string => {
  const rest = amount % per
  return `${Math.floor(amount / per)} ${large}${rest === 0 ? "" : ` ${rest} ${small}`}`
}

/** A model, with the client that reaches it where that is not the default one. */
export const routeText = (model: string, client: string | null = null): string =>
  client === null ? model : `${model} by ${client}`

export const requestsText = (count: number): string => `${count} ${count === 1 ? "request" : "requests"}`

/** The last instant a date can name, epoch milliseconds. */
const lastEpochMillis = 8.64e15

/** An instant in UTC; null when it is unknown or beyond what a date can name. */
export const instantText = (epochMillis: number | null): string | null =>
  epochMillis !== null && Math.abs(epochMillis) <= lastEpochMillis ? new Date(epochMillis).toISOString() : null

/** Lines of a table for a terminal: columns as wide as their widest cell, numbers to the right when asked for. */
export const tableLines = (
  rows: ReadonlyArray<ReadonlyArray<string>>,
  toTheRight: (column: number) => boolean = () => false
): ReadonlyArray<string> => {
  const count = Math.max(0, ...rows.map((row) => row.length))
  const widths = Array.from({ length: count }, (_, column) =>
    Math.max(0, ...rows.map((row) => row[column]?.length ?? 0))
  )
  const cell = (text: string, column: number): string =>
    toTheRight(column) ? text.padStart(widths[column] ?? 0) : text.padEnd(widths[column] ?? 0)
  return rows.map((row) => row.map(cell).join("  ").trimEnd())
}
