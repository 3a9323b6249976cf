/** Tokens of one HTTP request as the provider reported them. `null` is unknown and never treated as zero. */
import * as Schema from "effect/Schema"

/** A non-negative whole number. */
export const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * Cached and cache-write tokens are parts of `promptTokens`, reasoning tokens are a part of `completionTokens`: each
 * token is counted once.
 */
export const Usage = Schema.Struct({
  promptTokens: Schema.NullOr(Count),
  completionTokens: Schema.NullOr(Count),
  cachedTokens: Schema.NullOr(Count),
  cacheWriteTokens: Schema.NullOr(Count),
  reasoningTokens: Schema.NullOr(Count)
})
export type Usage = typeof Usage.Type

/** Nothing is known yet. */
export const unknown: Usage = {
  promptTokens: null,
  completionTokens: null,
  cachedTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null
}

/** Known when both the prompt and the completion were reported. */
export const isKnown = (usage: Usage): boolean => usage.promptTokens !== null && usage.completionTokens !== null

const plus = (left: number | null, right: number | null): number | null =>
  left === null ? right : right === null ? left : left + right

/** Sums what is known; unknown and known is the known part. */
export const sum = (left: Usage, right: Usage): Usage => ({
  promptTokens: plus(left.promptTokens, right.promptTokens),
  completionTokens: plus(left.completionTokens, right.completionTokens),
  cachedTokens: plus(left.cachedTokens, right.cachedTokens),
  cacheWriteTokens: plus(left.cacheWriteTokens, right.cacheWriteTokens),
  reasoningTokens: plus(left.reasoningTokens, right.reasoningTokens)
})

/** A later report of the same request replaces what it knows and keeps what it does not mention. */
export const update = (before: Usage, later: Usage): Usage => ({
  promptTokens: later.promptTokens ?? before.promptTokens,
  completionTokens: later.completionTokens ?? before.completionTokens,
  cachedTokens: later.cachedTokens ?? before.cachedTokens,
  cacheWriteTokens: later.cacheWriteTokens ?? before.cacheWriteTokens,
  reasoningTokens: later.reasoningTokens ?? before.reasoningTokens
})
