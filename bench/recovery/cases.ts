/**
 * What the provider of the recovery benchmark does: one script per case, by time since the case began, by call and by
 * request of a call. A hint is the instant before which no retry may come.
 */

/** An answer that is no reply. */
export interface Fault {
  readonly status: 429 | 500 | 529
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
}

export interface Case {
  readonly title: string
  readonly calls: number
  /** One call begins every so many milliseconds, whether or not earlier ones have ended. */
  readonly everyMillis: number
  readonly answer: (asked: Asked) => Fault | null
}

export const primary = "bench-1"
/** Healthy in every case; only clients that know of a second model use it. */
export const fallback = "bench-2"

/** A reply takes this long, a rejection half of it. */
export const replyMillis = 50

const plain = (status: Fault["status"]): Fault => ({ status, headers: {}, hintMillis: null })

/** The limiter of the hint cases: all requests in the first two seconds are told to wait. */
const limited =
  (hint: (asked: Asked) => Omit<Fault, "status">): Case["answer"] =>
  (asked) =>
    asked.atMillis < 2_000 ? { status: 429, ...hint(asked) } : null

const outage = { from: 5_000, to: 25_000 } as const

const hinted = { calls: 20, everyMillis: 200 } as const

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
    calls: 100,
    everyMillis: 200,
    answer: ({ chance }) => (chance < 0.3 ? plain(429) : null)
  },
  seconds: {
    title: "429 with Retry-After: 2",
    ...hinted,
    answer: limited(() => ({ headers: { "retry-after": "2" }, hintMillis: 2_000 }))
  },
  date: {
    title: "429 with Retry-After as a date",
    ...hinted,
    answer: limited(({ epochMillis }) => {
      const until = Math.ceil((epochMillis + 2_000) / 1_000) * 1_000
      return { headers: { "retry-after": new Date(until).toUTCString() }, hintMillis: until - epochMillis }
    })
  },
  millis: {
    title: "429 with retry-after-ms: 2000",
    ...hinted,
    answer: limited(() => ({ headers: { "retry-after-ms": "2000" }, hintMillis: 2_000 }))
  },
  once: {
    title: "500 once per call",
    calls: 10,
    everyMillis: 500,
    answer: ({ request }) => (request === 0 ? plain(500) : null)
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
