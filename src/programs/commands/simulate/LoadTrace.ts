/**
 * A sample of real load: when calls arrive and how many tokens they read and write. Given as a CSV file with the
 * columns t_ms, in_tokens, out_tokens, or built in.
 */
import * as Result from "effect/Result"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { numberAt } from "../numberAt.ts"
import { makeRandom, normal, normalShare } from "./Random.ts"

export interface LoadTrace {
  /** Milliseconds from the start, one per call. */
  readonly atMillis: Float64Array
  readonly inputTokens: Float64Array
  readonly outputTokens: Float64Array
  /** Length of the sample; it repeats after that. */
  readonly spanMillis: number
  /** Resolution of the time stamps: arrivals are dithered over it. */
  readonly quantumMillis: number
}

const secondsBeforeFirstToken = 0.3
const prefillPerSecond = 8_000
const decodePerSecond = 60

/** Time a provider takes for one call, in milliseconds. */
export const serviceMillis = (inputTokens: number, outputTokens: number): number =>
  (secondsBeforeFirstToken + inputTokens / prefillPerSecond + outputTokens / decodePerSecond) * 1000

export const meanServiceMillis = (trace: LoadTrace): number =>
  trace.inputTokens.reduce((sum, input, i) => sum + serviceMillis(input, numberAt(trace.outputTokens, i)), 0) /
  trace.inputTokens.length

type Quantile = readonly [share: number, value: number]
/** Shares rise from 0 to 1. */
type Quantiles = readonly [Quantile, Quantile, ...ReadonlyArray<Quantile>]

/** Value at a share, on straight lines between the table's points. */
const quantile = (table: Quantiles, share: number): number => {
  let [from, to] = table
  for (const point of table.slice(2)) {
    if (to[0] >= share) break
    from = to
    to = point
  }
  const [fromShare, fromValue] = from
  const [toShare, toValue] = to
  return fromValue + ((toValue - fromValue) * (share - fromShare)) / (toShare - fromShare)
}

/**
 * One hour of a public chat service, as quantiles: prompt tokens, reply tokens (capped at 2,000 there), and calls per
 * three seconds. Computed from the conversation trace of the Mooncake project (Apache-2.0).
 */
const promptTokens: Quantiles = [
  [0, 891],
  [0.03, 897],
  [0.06, 904],
  [0.09, 936],
  [0.12, 1066],
  [0.15, 1261],
  [0.18, 1479],
  [0.21, 1772],
  [0.24, 2137],
  [0.27, 2670],
  [0.3, 3263],
  [0.33, 3900],
  [0.36, 4390],
  [0.39, 4818],
  [0.42, 5272],
  [0.45, 5870],
  [0.48, 6490],
  [0.51, 7125],
  [0.54, 7911],
  [0.57, 8729],
  [0.6, 9570],
  [0.63, 10498],
  [0.66, 11613],
  [0.69, 12688],
  [0.72, 14018],
  [0.75, 15367],
  [0.78, 16766],
  [0.81, 18490],
  [0.84, 20588],
  [0.87, 23864],
  [0.9, 27367],
  [0.92, 30462],
  [0.94, 35008],
  [0.95, 39550],
  [0.96, 44613],
  [0.97, 52215],
  [0.98, 66449],
  [0.985, 73850],
  [0.99, 85400],
  [0.995, 100810],
  [0.998, 118461],
  [1, 126195]
]
const replyTokens: Quantiles = [
  [0, 1],
  [0.03, 5],
  [0.06, 13],
  [0.09, 21],
  [0.12, 31],
  [0.15, 46],
  [0.18, 79],
  [0.21, 111],
  [0.24, 144],
  [0.27, 182],
  [0.3, 213],
  [0.33, 239],
  [0.36, 265],
  [0.39, 284],
  [0.42, 305],
  [0.45, 322],
  [0.48, 339],
  [0.51, 356],
  [0.54, 370],
  [0.57, 385],
  [0.6, 399],
  [0.63, 413],
  [0.66, 427],
  [0.69, 443],
  [0.72, 457],
  [0.75, 472],
  [0.78, 491],
  [0.81, 511],
  [0.84, 535],
  [0.87, 561],
  [0.9, 597],
  [0.92, 628],
  [0.94, 670],
  [0.95, 698],
  [0.96, 738],
  [0.97, 800],
  [0.98, 892],
  [0.985, 967],
  [0.99, 1119],
  [0.995, 1568],
  [0.998, 2000],
  [1, 2000]
]
const callsPerWindow: Quantiles = [
  [0, 0],
  [0.1, 0],
  [0.2, 0],
  [0.22, 0],
  [0.25, 5],
  [0.3, 6],
  [0.4, 8],
  [0.5, 10],
  [0.6, 12],
  [0.7, 13],
  [0.75, 15],
  [0.8, 17],
  [0.85, 18],
  [0.9, 21],
  [0.95, 24],
  [0.97, 26],
  [0.99, 29],
  [0.998, 35],
  [1, 43]
]
const builtInWindowMillis = 3_000
const builtInWindows = 1_180
/** Correlation of prompt and reply length, and of one window's calls with the next window's (normal scores). */
const lengthCorrelation = 0.075
const windowCorrelation = -0.4

const shareOf = (score: number): number => Math.min(1, Math.max(0, normalShare(score)))

/**
 * Of many samples one under which the strict preset fares as it does under the trace itself: the rates of a few minutes
 * differ between samples, and a fleet near collapse shows it.
 */
const builtInSeed = 228

/** Reproduces the lengths and the burstiness of the conversation trace from its quantiles; always the same sample. */
export const builtIn = (): LoadTrace => {
  const random = makeRandom(builtInSeed)
  const at: Array<number> = []
  const input: Array<number> = []
  const output: Array<number> = []
  const rest = Math.sqrt(1 - windowCorrelation ** 2)
  const own = Math.sqrt(1 - lengthCorrelation ** 2)
  let score = normal(random)
  for (let window = 0; window < builtInWindows; window++) {
    score = windowCorrelation * score + rest * normal(random)
    const calls = Math.round(quantile(callsPerWindow, shareOf(score)))
    for (let call = 0; call < calls; call++) {
      const prompt = normal(random)
      const reply = lengthCorrelation * prompt + own * normal(random)
      at.push(window * builtInWindowMillis)
      input.push(Math.round(quantile(promptTokens, shareOf(prompt))))
      output.push(Math.round(quantile(replyTokens, shareOf(reply))))
    }
  }
  return {
    atMillis: Float64Array.from(at),
    inputTokens: Float64Array.from(input),
    outputTokens: Float64Array.from(output),
    spanMillis: builtInWindows * builtInWindowMillis,
    quantumMillis: builtInWindowMillis
  }
}

const columns = ["t_ms", "in_tokens", "out_tokens"] as const
/** Most rows a trace may have (a row's number and its time share one float). */
export const maxRows = 1 << 20

const bad = (reason: string): Result.Result<LoadTrace, ConfigurationError> =>
  Result.fail(new ConfigurationError({ field: "trace", reason }))

/** Smallest distance between two different time stamps. */
const resolutionOf = (sorted: Float64Array): number => {
  let smallest = Infinity
  for (let i = 1; i < sorted.length; i++) {
    const gap = numberAt(sorted, i) - numberAt(sorted, i - 1)
    if (gap > 0 && gap < smallest) smallest = gap
  }
  return smallest
}

/** A cell without the quotes that spreadsheets write around it. */
const unquoted = (cell: string): string => cell.trim().replace(/^"(.*)"$/, "$1")

/** Reads a CSV text with a header that names at least t_ms, in_tokens and out_tokens. */
export const fromCsv = (text: string): Result.Result<LoadTrace, ConfigurationError> => {
  const [header = "", ...lines] = text.split(/\r?\n/).filter((line) => line.trim() !== "")
  const names = header.split(",").map(unquoted)
  const missing = columns.find((name) => !names.includes(name))
  if (missing !== undefined) return bad(`has no column ${missing}`)
  if (lines.length > maxRows) return bad(`has more than ${maxRows} rows`)
  const placeOf = (name: (typeof columns)[number]): number => names.indexOf(name)
  const [atPlace, inputPlace, outputPlace] = [placeOf("t_ms"), placeOf("in_tokens"), placeOf("out_tokens")]
  const rows: Array<readonly [atMillis: number, inputTokens: number, outputTokens: number]> = []
  for (const [i, line] of lines.entries()) {
    const cells = Float64Array.from(line.split(","), (cell) => (unquoted(cell) === "" ? NaN : Number(unquoted(cell))))
    const row = [numberAt(cells, atPlace), numberAt(cells, inputPlace), numberAt(cells, outputPlace)] as const
    if (!row.every((value) => Number.isFinite(value) && value >= 0)) return bad(`has no numbers >= 0 in row ${i + 2}`)
    rows.push(row)
  }
  rows.sort(([left], [right]) => left - right)
  if (rows[0]?.[0] === rows.at(-1)?.[0]) return bad("needs at least two rows at different t_ms")
  const raw = Float64Array.from(rows, ([at]) => at)
  const first = numberAt(raw, 0)
  const atMillis = raw.map((at) => at - first)
  const last = numberAt(atMillis, atMillis.length - 1)
  const quantumMillis = resolutionOf(atMillis)
  return Result.succeed({
    atMillis,
    inputTokens: Float64Array.from(rows, ([, input]) => input),
    outputTokens: Float64Array.from(rows, ([, , output]) => output),
    spanMillis: last + quantumMillis,
    quantumMillis
  })
}
