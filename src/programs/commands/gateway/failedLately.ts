/**
 * Failures that were just told. A client that does not read `x-should-retry` sends the same request again at once, ten or
 * thirty times: what recovery has spent its whole deadline on is told again, and the provider is left alone. Pure but for
 * the one record it keeps.
 */

import type { HeadLines } from "../../request/ByteSource.ts"

export interface Told {
  readonly status: number
  readonly lines: HeadLines
  readonly body: string
}

interface Kept {
  readonly told: Told
  readonly since: number
  last: number
}

/** A repetition comes within so long; longer than any agent's back-off, shorter than a person who tries again. */
const repeatMillis = 10_000
/** After so long the provider is asked again, however often the client came. */
const longestMillis = 60_000
const keptFailures = 1_000
/** A failure is a few words; longer bodies are not kept. */
const longestBody = 16_384

export interface FailedLately {
  /** What was told to this very request a moment ago; null = nothing. */
  readonly again: (digest: () => string) => Told | null
  readonly keep: (digest: string, told: Told) => void
}

export const makeFailedLately = (now: () => number): FailedLately => {
  const failures = new Map<string, Kept>()
  const sweep = (at: number): void => {
    for (const [digest, { since, last }] of failures)
      if (at - last > repeatMillis || at - since > longestMillis || failures.size > keptFailures)
        failures.delete(digest)
  }
  return {
    again: (digest) => {
      if (failures.size === 0) return null
      const at = now()
      sweep(at)
      const found = failures.size === 0 ? undefined : failures.get(digest())
      if (found === undefined) return null
      found.last = at
      return found.told
    },
    keep: (digest, told) => {
      if (told.body.length > longestBody) return
      const at = now()
      sweep(at)
      failures.set(digest, { told, since: at, last: at })
    }
  }
}
