/**
 * Fault scripts from a number: the same number is the same script. For property tests with any library that gives whole
 * numbers; every script ends with a whole reply, so that a call that survives has it.
 */
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import type { ModelStep } from "./ModelStep.ts"

export interface FaultScriptOptions {
  /** The reply at the end. Default: "All is well." */
  readonly text?: string
  /** Faults before it, at most. Default: 5; 0 to 100. */
  readonly maxFaults?: number
}

/** A small generator of numbers in [0, 1): good enough to choose faults by. */
const numbersFrom = (seed: number): (() => number) => {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Statuses that preset broad asks again after. */
const statuses: ReadonlyArray<number> = [408, 429, 500, 502, 503, 504, 529]

const faultOf = (next: () => number, text: string): ModelStep => {
  const kind = next()
  const part = [...text].slice(0, Math.floor(next() * text.length)).join("")
  if (kind < 0.25) return { cut: part }
  if (kind < 0.35) return { stall: part }
  const status = statuses[Math.floor(next() * statuses.length)] ?? 529
  return kind < 0.5 ? { status, retryAfter: Math.floor(next() * 3) } : { status }
}

export const faultScript = (seed: number, options: FaultScriptOptions = {}): ReadonlyArray<ModelStep> => {
  const { text = "All is well.", maxFaults = 5 } = options
  if (!Number.isSafeInteger(seed)) throw new ConfigurationError({ field: "seed", reason: "must be a whole number" })
  if (!Number.isInteger(maxFaults) || maxFaults < 0 || maxFaults > 100)
    throw new ConfigurationError({ field: "maxFaults", reason: "must be a whole number from 0 to 100" })
  const next = numbersFrom(seed)
  const count = Math.floor(next() * (maxFaults + 1))
  return [...Array.from({ length: count }, () => faultOf(next, text)), { reply: text }]
}
