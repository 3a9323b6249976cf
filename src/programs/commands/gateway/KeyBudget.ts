/**
 * What one key may use in a window of time: requests and tokens in a minute, USD in a day (UTC). Pure. A request reserves
 * the most it can use before it is sent and settles what it used after; windows begin at whole minutes and days.
 */

export interface KeyLimits {
  readonly usdPerDay?: number
  readonly tokensPerMinute?: number
  readonly requestsPerMinute?: number
}

/** What a request uses; `usd` null = unknown, which counts as the most it could be. */
export interface Use {
  readonly tokens: number
  readonly usd: number | null
}

export interface KeyUse {
  /** Start of the minute and of the day the counts are of, epoch milliseconds. */
  readonly minute: number
  readonly day: number
  readonly requests: number
  readonly tokens: number
  readonly nanoUsd: number
}

export const unused: KeyUse = { minute: 0, day: 0, requests: 0, tokens: 0, nanoUsd: 0 }

export const minuteMillis = 60_000
export const dayMillis = 86_400_000

/** Whole billionths of a dollar. */
export const nanoOf = (usd: number): number => Math.max(0, Math.round(usd * 1e9))

/** The counts as of now: those of a window that is over are forgotten. */
export const at = (use: KeyUse, now: number): KeyUse => {
  const minute = Math.floor(now / minuteMillis) * minuteMillis
  const day = Math.floor(now / dayMillis) * dayMillis
  return {
    minute,
    day,
    requests: use.minute === minute ? use.requests : 0,
    tokens: use.minute === minute ? use.tokens : 0,
    nanoUsd: use.day === day ? use.nanoUsd : 0
  }
}

/** Which limit refuses, and the instant (epoch milliseconds) at which its window is over. */
export interface Exhausted {
  readonly limit: "requestsPerMinute" | "tokensPerMinute" | "usdPerDay"
  readonly until: number
}

/** Why a request is not admitted now; null = it is. What is admitted never passes a limit: the most it can use has to fit. */
export const exhausted = (limits: KeyLimits, before: KeyUse, worst: Use, now: number): Exhausted | null => {
  const use = at(before, now)
  const { requestsPerMinute, tokensPerMinute, usdPerDay } = limits
  if (usdPerDay !== undefined && use.nanoUsd + nanoOf(worst.usd ?? 0) > nanoOf(usdPerDay))
    return { limit: "usdPerDay", until: use.day + dayMillis }
  if (requestsPerMinute !== undefined && use.requests + 1 > requestsPerMinute)
    return { limit: "requestsPerMinute", until: use.minute + minuteMillis }
  // A request larger than the whole window would never fit: it goes when it has the window for itself.
  const isAlone = use.tokens === 0
  if (tokensPerMinute !== undefined && !isAlone && use.tokens + worst.tokens > tokensPerMinute)
    return { limit: "tokensPerMinute", until: use.minute + minuteMillis }
  return null
}

/** What is reserved and where: the windows of its own beginning. */
export interface Reserved {
  readonly minute: number
  readonly day: number
  readonly worst: Use
}

export const reserve = (
  before: KeyUse,
  worst: Use,
  now: number
): { readonly use: KeyUse; readonly reserved: Reserved } => {
  const use = at(before, now)
  return {
    use: {
      ...use,
      requests: use.requests + 1,
      tokens: use.tokens + worst.tokens,
      nanoUsd: use.nanoUsd + nanoOf(worst.usd ?? 0)
    },
    reserved: { minute: use.minute, day: use.day, worst }
  }
}

/** Puts what was used in the place of what was reserved; a window that is over has forgotten both. */
export const settle = (before: KeyUse, { minute, day, worst }: Reserved, spent: Use, now: number): KeyUse => {
  const use = at(before, now)
  const usd = nanoOf(spent.usd ?? worst.usd ?? 0) - nanoOf(worst.usd ?? 0)
  return {
    ...use,
    tokens: use.minute === minute ? Math.max(0, use.tokens + spent.tokens - worst.tokens) : use.tokens,
    nanoUsd: use.day === day ? Math.max(0, use.nanoUsd + usd) : use.nanoUsd
  }
}
