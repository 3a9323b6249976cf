/**
 * Loads that come with the simulator, from calls of half a second to calls of half a minute. `chat` is a sample of a
 * real hour; the others are made: lengths are log-normal, and the rate itself moves, as where people type in bursts.
 */
import { builtIn, type LoadTrace } from "./LoadTrace.ts"
import { makeRandom, normal } from "./Random.ts"

export const loadNames = ["chat", "short", "completions", "long"] as const
export type LoadName = (typeof loadNames)[number]

export const isLoadName = (name: string): name is LoadName => loadNames.some((known) => known === name)

/** A log-normal length in tokens. */
interface Length {
  readonly median: number
  /** Standard deviation of the logarithm. */
  readonly deviation: number
  readonly most: number
}

interface Made {
  readonly prompt: Length
  readonly reply: Length
  /** Standard deviation of the logarithm of the rate, from one window to the next; 0 = a steady rate. */
  readonly burst: number
}

const made: Readonly<Record<Exclude<LoadName, "chat">, Made>> = {
  /** Titles, labels and other small answers: 0.5 s on average. */
  short: {
    prompt: { median: 500, deviation: 0.6, most: 8_000 },
    reply: { median: 5, deviation: 0.7, most: 64 },
    burst: 0.4
  },
  /** Completions of code: mostly a line, sometimes a function, in bursts; 1.5 s on average. */
  completions: {
    prompt: { median: 1_500, deviation: 0.7, most: 16_000 },
    reply: { median: 24, deviation: 1.3, most: 1_000 },
    burst: 0.9
  },
  /** Reasoning and long documents: 30 s on average. */
  long: {
    prompt: { median: 8_000, deviation: 0.8, most: 100_000 },
    reply: { median: 1_350, deviation: 0.7, most: 8_000 },
    burst: 0.3
  }
}

const windowMillis = 1_000
const windows = 3_600
const callsPerWindow = 5
/** Windows over which a rate lasts: a burst is about a quarter of a minute long. */
const memory = Math.exp(-1 / 15)
const seed = 1_204

const lengthOf = ({ median, deviation, most }: Length, score: number): number =>
  Math.max(1, Math.min(most, Math.round(median * Math.exp(deviation * score))))

/** One of the loads by name; always the same sample. */
export const makeLoad = (name: LoadName): LoadTrace => {
  if (name === "chat") return builtIn()
  const { prompt, reply, burst } = made[name]
  const random = makeRandom(seed)
  const at: Array<number> = []
  const input: Array<number> = []
  const output: Array<number> = []
  let score = normal(random)
  // A whole number of calls in every window, and the right number over all of them.
  let owed = 0
  for (let window = 0; window < windows; window++) {
    score = memory * score + Math.sqrt(1 - memory ** 2) * normal(random)
    owed += callsPerWindow * Math.exp(burst * score - burst ** 2 / 2)
    for (; owed >= 1; owed -= 1) {
      at.push(window * windowMillis)
      input.push(lengthOf(prompt, normal(random)))
      output.push(lengthOf(reply, normal(random)))
    }
  }
  return {
    atMillis: Float64Array.from(at),
    inputTokens: Float64Array.from(input),
    outputTokens: Float64Array.from(output),
    spanMillis: windows * windowMillis,
    quantumMillis: windowMillis
  }
}
