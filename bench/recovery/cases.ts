/**
 * What the provider of the recovery benchmark does: one script per case, by time since the case began, by call and by
 * request of a call. A hint is the instant before which no retry may come.
 */

/** An answer that is no reply. */
export interface Fault {
  readonly status: 429 | 500 | 503 | 529
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds from now before which the provider asked for silence; null = no hint. */
  readonly hintMillis: number | null
}

/** A request as a script sees it. Times are milliseconds. */
export interface Asked {
  /** Since the case began. */
  readonly atMillis: number
  /** Wall clock. */
  readonly epochMillis: number
  readonly model: string
  /** 0 = first request of its call. */
  readonly request: number
  /** 0..1, the same for the same request of the same call, whoever asks. */
  readonly chance: number
  /** Of the lane: refills and is taken from as a limiter's. */
  readonly bucket: Bucket
}

/** A token bucket: full in the beginning. */
export interface Bucket {
  /** Tokens, and the instant of the case that they are as of. */
  tokens: number
  atMillis: number
}

export interface Case {
  readonly title: string
  readonly calls: number
  /** One call begins every so many milliseconds, whether or not earlier ones have ended. */
  readonly everyMillis: number
  /** The clients play it one after the other, once each: together they would be busy with each other. */
  readonly apart?: true
  /** Deadline of holdfast's calls; absent = the preset's. */
  readonly deadlineMillis?: number
  readonly answer: (asked: Asked) => Fault | null
}

export const primary = "bench-1"
/** Healthy in every case; only clients that know of a second model use it. */
export const fallback = "bench-2"

/** A reply takes this long, a rejection half of it. */
export const replyMillis = 50

const plain = (status: Fault["status"]): Fault => ({ status, headers: {}, hintMillis: null })

/** The first request of every call is told to wait: a matter of each call, and of no other. */
const firstHinted =
  (hint: (asked: Asked) => Omit<Fault, "status">): Case["answer"] =>
  (asked) =>
    asked.request === 0 ? { status: 429, ...hint(asked) } : null

const inSeconds = (): Omit<Fault, "status"> => ({ headers: { "retry-after": "2" }, hintMillis: 2_000 })
const inMillis = (): Omit<Fault, "status"> => ({ headers: { "retry-after-ms": "2000" }, hintMillis: 2_000 })
const asDate =
  (millis: number) =>
  ({ epochMillis }: Asked): Omit<Fault, "status"> => {
    const until = Math.ceil((epochMillis + millis) / 1_000) * 1_000
    return { headers: { "retry-after": new Date(until).toUTCString() }, hintMillis: until - epochMillis }
  }

export const limit = { perSecond: 20, burst: 20 } as const

/** A real limiter: a token per call, and a hint to its refill in the whole seconds of the header. */
const limiter: Case["answer"] = ({ atMillis, bucket }) => {
  bucket.tokens = Math.min(limit.burst, bucket.tokens + ((atMillis - bucket.atMillis) / 1_000) * limit.perSecond)
  bucket.atMillis = atMillis
  if (bucket.tokens >= 1) {
    bucket.tokens -= 1
    return null
  }
  const seconds = Math.max(1, Math.ceil((1 - bucket.tokens) / limit.perSecond))
  return { status: 429, headers: { "retry-after": `${seconds}` }, hintMillis: seconds * 1_000 }
}

/** A fifth of the requests is refused, each in one of four ways. */
const mixed: Case["answer"] = ({ chance }) => {
  const ways = [plain(429), plain(500), plain(503), plain(529)]
  return chance < 0.2 ? (ways[Math.floor(chance * 20)] ?? null) : null
}

/** The limiter of the hint cases: all requests in the first two seconds are told to wait. */
const limited =
  (hint: (asked: Asked) => Omit<Fault, "status">): Case["answer"] =>
  (asked) =>
    asked.atMillis < 2_000 ? { status: 429, ...hint(asked) } : null

const outage = { from: 5_000, to: 25_000 } as const

const hinted = { calls: 20, everyMillis: 200 } as const
const each = { calls: 60, everyMillis: 50, apart: true } as const

export const cases = {
  outage: {
    title: "20 s of 529",
    calls: 140,
    everyMillis: 250,
    answer: ({ atMillis, model }) =>
      model === primary && atMillis >= outage.from && atMillis < outage.to ? plain(529) : null
  },
  thirty: {
    title: "30 % of requests 429",
    calls: 300,
    everyMillis: 1_000 / 30,
    apart: true,
    answer: ({ chance }) => (chance < 0.3 ? plain(429) : null)
  },
  seconds: { title: "429 with Retry-After: 2 for two seconds", ...hinted, answer: limited(inSeconds) },
  date: { title: "429 with Retry-After as a date for two seconds", ...hinted, answer: limited(asDate(2_000)) },
  millis: { title: "429 with retry-after-ms: 2000 for two seconds", ...hinted, answer: limited(inMillis) },
  once: {
    title: "500 once per call",
    calls: 40,
    everyMillis: 100,
    answer: ({ request }) => (request === 0 ? plain(500) : null)
  },
  firstSeconds: { title: "429 with Retry-After: 2 once per call", ...each, answer: firstHinted(inSeconds) },
  firstDate: { title: "429 with a date once per call", ...each, answer: firstHinted(asDate(3_000)) },
  firstMillis: { title: "429 with retry-after-ms: 2000 once per call", ...each, answer: firstHinted(inMillis) },
  limiter: {
    title: "a limiter of 20 calls a second, all at once",
    calls: 200,
    everyMillis: 0,
    apart: true,
    answer: limiter
  },
  mixed: {
    title: "a fifth refused with 429, 500, 503 or 529, all at once, 12 s",
    calls: 500,
    everyMillis: 0,
    apart: true,
    deadlineMillis: 12_000,
    answer: mixed
  }
} as const satisfies Readonly<Record<string, Case>>

export type CaseName = keyof typeof cases

export const isCase = (name: string): name is CaseName => Object.hasOwn(cases, name)

/** The text of a call, by which the provider tells calls apart, and its reply. */
export const promptOf = (call: number): string => `This is call-${call}. Say its number.`
export const replyOf = (call: number): string => `It was number ${call}.`

export const callOf = (body: string): number | null => {
  const found = /call-(\d+)/.exec(body)
  return found === null ? null : Number(found[1])
}
